"""A topic that is deleted or recreated is reported and refused: nobody waits for it or judges pages without it."""

import os
from pathlib import Path

import pytest

from spotsieve.state.log.record import decode, encode
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_STATE
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl
from tests.fixtures.services.oracle import ids_by_key, judge_again, verdicts_sent
from tests.fixtures.services.service import Spotsieve


@pytest.mark.guarantee("a recreated log is rejected", fault="the log topic is deleted, recreated and filled")
def test_a_log_that_was_recreated_and_filled_beyond_the_state_is_refused(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, crawl(30).messages, committed=30)
        assert service.terminate() == 0
        former, writer = topics.read("log"), os.urandom(16)
        records = [decode(record.value) for record in former] * 2
        topics.recreate("log")
        values = [
            encode(record.signatures, writer, number, record.settings_digest) for number, record in enumerate(records)
        ]
        topics.send([PageMessage(None, value, (), None) for value in values], role="log")
        assert service.run_to_end() == EXIT_STATE
        line = service.error()
        assert f"log {topics.names['log']}[{len(former) - 1}] must be the record that the state applied there" in line
        assert "delete the index of the state" in line
        assert verify(service.state).damaged == 0


@pytest.mark.guarantee(
    "a deleted topic stops the service, with the reason", fault="a topic is deleted while the service runs"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("role", "next_step"),
    [("input", "create it again"), ("log", "restart with a new log (topics.log)")],
)
def test_a_topic_deleted_under_a_service_ends_it_with_the_reason_and_a_whole_state(
    kafka: Broker, tmp_path: Path, role: str, next_step: str
) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, crawl(30).messages, committed=30)
        topics.delete(role)
        assert service.wait() == EXIT_BROKER
        line = service.error()
        assert f"topics.{role} was deleted from the broker" in line
        assert topics.names[role] in line
        assert next_step in line
        assert verify(service.state).damaged == 0


@pytest.mark.timeout(900)
def test_an_output_deleted_and_recreated_gets_the_next_pages_and_the_state_is_kept(
    kafka: Broker, tmp_path: Path
) -> None:
    pages = crawl(60)
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, pages.messages[:30], committed=30)
        topics.delete("novel")
        assert service.wait() == EXIT_BROKER
        assert "later pages follow" in service.error()
        topics.recreate("novel")
        topics.send(pages.messages[30:])
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        expected, _ = judge_again(topics.toml(), topics.read("log"), topics.names["log"])
        ids = ids_by_key(topics)
        later = [message.key for message in pages.messages[30:] if message.key is not None]
        sent = verdicts_sent(topics)
        assert {key: sent[key] for key in later} == {key: [expected[ids[key]]] for key in later}
        copies = {key for key in later if sent[key][0][0] == "duplicate"}
        known = {ids[message.key] for message in pages.messages[:30] if message.key is not None}
        assert any(sent[key][0][1] in known for key in copies), "a copy of what the deleted topic held"
