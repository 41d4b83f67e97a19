"""Owns the proof that a topic that is gone, or made anew, is told and refused: never waited on or judged by unseen."""

import os
from pathlib import Path

import pytest

from state.logrecord import decode, encode
from state.verify import verify
from stream.errors import EXIT_STATE
from tests.broker.crawls import PageMessage, crawl
from tests.broker.harness import Spotsieve, TopicSet
from tests.conftest import Broker


@pytest.mark.promise("a log that was made anew is refused, never judged by", fault="log topic deleted and filled again")
def test_a_log_that_was_made_anew_and_filled_beyond_the_state_is_refused(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        topics.send(crawl(30).messages)
        service.start().until_ready()
        service.until_committed(30)
        assert service.terminate() == 0
        former, writer = topics.read("log"), os.urandom(16)
        records = [decode(record.value) for record in former] * 2
        topics.make_anew("log")
        values = [
            encode(record.signatures, writer, number, record.settings_digest) for number, record in enumerate(records)
        ]
        topics.send([PageMessage(None, value, (), None) for value in values], role="log")
        assert service.run_to_end() == EXIT_STATE
        line = service.error()
        assert f"log {topics.names['log']}[{len(former) - 1}] must be the record that the state applied there" in line
        assert "delete the state directory" in line
        assert verify(service.state).damaged == 0
