"""Owns the proof that a worker can be stopped before it has its first partition."""

import contextlib
import signal
import time
from pathlib import Path

import pytest

from tests.broker.harness import Spotsieve, TopicSet, wait_for
from tests.conftest import Broker


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_sigterm_is_a_clean_end_while_the_group_still_waits_for_a_silent_worker(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml().replace("kafka.session_timeout_ms = 6000", "kafka.session_timeout_ms = 30000")
        with Spotsieve(tmp_path, toml, "silent") as silent, Spotsieve(tmp_path, toml, "joining") as joining:
            silent.start().until_ready()
            silent.alive.send_signal(signal.SIGSTOP)
            joining.start()

            def is_joining() -> bool:
                with contextlib.suppress(OSError):
                    return "joining the group" in joining.get("/readyz")[1]
                return False

            wait_for(is_joining, 60, "the second worker to open its state")
            time.sleep(2)
            asked = time.monotonic()
            assert joining.terminate() == 0, joining.text()
            assert time.monotonic() - asked < 8
            assert joining.process is not None
            assert "Traceback" not in joining.text()
