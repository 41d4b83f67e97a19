"""A worker can be stopped before it has its first partition."""

import contextlib
import signal
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.given_seconds import PROMISED_STOP_SECONDS, GivenSeconds
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sigterm_is_a_clean_end_while_the_group_still_waits_for_a_silent_worker(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml(session_ms=600_000)
        with Spotsieve(tmp_path, toml, "silent") as silent, Spotsieve(tmp_path, toml, "joining") as joining:
            silent.start().until_ready()
            silent.alive.send_signal(signal.SIGSTOP)
            joining.start()

            def is_joining() -> bool:
                with contextlib.suppress(OSError):
                    return "joining the group" in joining.get("/readyz")[1]
                return False

            wait_until(is_joining, SECONDS, "the second worker to open its state")
            wait_until(lambda: topics.group_state() == "PreparingRebalance", SECONDS, "its request to join")
            with GivenSeconds() as took:
                assert joining.terminate() == 0, joining.text()
            assert took.seconds < PROMISED_STOP_SECONDS
            assert joining.process is not None
            assert "Traceback" not in joining.text()
