"""Unfit log topics are refused or warned of, and topics count as created once the broker knows them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka import topics
from spotsieve.stream.kafka.topics import (
    ANY_TIME_MS,
    LOG_RECORD_BYTES,
    TopicFacts,
    check_log,
    check_rounds,
    check_topic_names,
    check_topics,
    create_topics,
)

KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def test_a_log_that_keeps_every_record_is_taken_without_a_word() -> None:
    with structlog.testing.capture_logs() as lines:
        check_log("signatures", TopicFacts(1, KEPT))
    assert not lines


def test_a_topic_without_readable_settings_is_taken_to_have_the_retention_of_kafka() -> None:
    assert TopicFacts(1, {}).times_taken_ms[0] == 7 * 86_400_000 // 2
    assert TopicFacts(1, KEPT).times_taken_ms[0] == ANY_TIME_MS


def test_a_log_that_forgets_is_warned_of() -> None:
    with structlog.testing.capture_logs() as lines:
        check_log("signatures", TopicFacts(1, {**KEPT, "retention.ms": "604800000"}))
    (line,) = lines
    assert line["log_level"] == "warning"
    assert line["retention.ms"] == "604800000"
    assert "retention.bytes" not in line


@pytest.mark.parametrize(
    ("replication", "settings", "warnings"),
    [
        (1, {"min.insync.replicas": "1"}, ["the loss of one broker loses the log"]),
        (3, {"min.insync.replicas": "1"}, ["the loss of one broker can lose the newest log records"]),
        (3, {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}, ["a replica that lags may become"]),
        (3, {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}, []),
        (0, {}, []),
    ],
)
def test_a_log_that_the_loss_of_one_broker_shortens_is_warned_of(
    replication: int, settings: dict[str, str], warnings: list[str]
) -> None:
    with structlog.testing.capture_logs() as lines:
        check_log("signatures", TopicFacts(1, {**KEPT, **settings}, replication))
    assert [line["log_level"] for line in lines] == ["warning"] * len(warnings)
    assert all(text in line["event"] for text, line in zip(warnings, lines, strict=True))


@pytest.mark.parametrize(
    ("hours", "times", "warned"),
    [
        (720, {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "3600000"}, False),
        (0.5, {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "3600000"}, True),
        (720, {}, True),
        (720, {"message.timestamp.type": "LogAppendTime"}, False),
        (0, {}, False),
    ],
)
async def test_with_a_horizon_an_input_whose_messages_may_be_dated_far_ahead_is_warned_of(
    hours: float, times: dict[str, str], warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def facts_of(_: Settings, names: list[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(1, {**KEPT, **(times if name == "pages" else {})}) for name in names}

    monkeypatch.setattr(topics, "topic_facts", facts_of)
    with structlog.testing.capture_logs() as lines:
        await check_topics(Settings.model_validate({"index": {"horizon_hours": hours}}))
    warnings = [line for line in lines if "timestamps beyond the deduplication window" in line["event"]]
    assert [(line["log_level"], line["topic"]) for line in warnings] == [("warning", "pages")] * warned


@pytest.mark.parametrize("role", ["novel", "duplicates", "rejected"])
async def test_an_output_that_cannot_take_our_headers_is_refused(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = getattr(Settings().topics, role)

    async def facts_of(_: Settings, names: list[str]) -> dict[str, TopicFacts]:
        sizes = {name: 16_383 if name == small else 1_048_588 for name in names}
        return {name: TopicFacts(1, {**KEPT, "max.message.bytes": str(size)}) for name, size in sizes.items()}

    monkeypatch.setattr(topics, "topic_facts", facts_of)
    with pytest.raises(SettingError, match=rf"topics.{role} must accept messages of 16384 bytes, for the headers"):
        await check_topics(Settings())


@pytest.mark.parametrize("role", ["input", "novel", "duplicates", "rejected"])
async def test_a_topic_of_pages_that_keeps_one_message_of_each_key_is_warned_of(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted = getattr(Settings().topics, role)

    async def facts_of(_: Settings, names: list[str]) -> dict[str, TopicFacts]:
        policies = {name: "compact,delete" if name == compacted else "delete" for name in names}
        return {name: TopicFacts(1, {**KEPT, "cleanup.policy": policy}) for name, policy in policies.items()}

    monkeypatch.setattr(topics, "topic_facts", facts_of)
    with structlog.testing.capture_logs() as lines:
        await check_topics(Settings())
    warnings = [line for line in lines if f"topics.{role} is compacted" in line["event"]]
    assert [(line["log_level"], line["topic"]) for line in warnings] == [("warning", compacted)]
    assert sum("is compacted" in line["event"] for line in lines) == 1


async def test_new_topics_are_looked_for_until_the_broker_that_is_asked_knows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[int]()

    async def facts_of(_: Settings, names: list[str]) -> dict[str, TopicFacts]:
        looks.append(len(names))
        known = [name for name in names if name != "signatures" or len(looks) >= 3]
        return {name: TopicFacts(1, {**KEPT, "max.message.bytes": "1048588"}) for name in known}

    monkeypatch.setattr(topics, "topic_facts", facts_of)
    monkeypatch.setattr(topics, "METADATA_PAUSE_SECONDS", 0)
    with pytest.raises(SettingError, match=r"topics\.log does not exist on the broker"):
        await check_topics(Settings())
    looks.clear()
    assert (await check_topics(Settings(), new=True))["log"].partitions == 1
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (TopicFacts(2, KEPT), "must have one partition"),
        (TopicFacts(1, {**KEPT, "cleanup.policy": "compact,delete"}), "must not be compacted"),
        (TopicFacts(1, {**KEPT, "max.message.bytes": "1000"}), "must accept records of"),
        (TopicFacts(1, {**KEPT, "max.message.bytes": str(LOG_RECORD_BYTES)}), "and their batch header"),
    ],
)
def test_a_log_that_cannot_carry_the_order_of_pages_is_refused(facts: TopicFacts, rule: str) -> None:
    with pytest.raises(SettingError, match=rule):
        check_log("signatures", facts)


def test_matches_may_have_more_partitions_than_there_are_shards_and_not_fewer() -> None:
    def checked(matches: int, verdicts: int) -> None:
        facts = {"matches": TopicFacts(matches, KEPT), "verdicts": TopicFacts(verdicts, KEPT)}
        check_rounds(2, {"matches": "m", "verdicts": "v"}, facts)

    for partitions in (2, 3):
        checked(partitions, 1)
    with pytest.raises(
        SettingError, match=r"topics\.matches must have at least 2 partitions, .* got 1; add partitions"
    ):
        checked(1, 1)
    with pytest.raises(SettingError, match=r"topics\.verdicts must have one partition"):
        checked(2, 2)


@pytest.mark.parametrize(("setting", "value"), [("retention.ms", "604800000"), ("retention.bytes", "1000000")])
def test_verdicts_that_forget_by_time_or_size_are_warned_of(setting: str, value: str) -> None:
    facts = {"matches": TopicFacts(2, {}), "verdicts": TopicFacts(1, {**KEPT, setting: value})}
    with structlog.testing.capture_logs() as lines:
        check_rounds(2, {"matches": "m", "verdicts": "v"}, facts)
    (line,) = lines
    assert line.pop("event").startswith("the topic of verdicts has a retention, so a lost shard cannot be rebuilt")
    assert line == {"log_level": "warning", "topic": "v", setting: value}


class SlowBroker:
    """The part of the admin client that creates topics; it knows a topic only some looks after it was made."""

    def __init__(self, there: bool, looks: int) -> None:
        self.there, self.looks, self.looked = there, looks, 0

    async def create_topics(self, new: list[Any]) -> SimpleNamespace:
        return SimpleNamespace(topic_errors=[(new[0].name, TopicAlreadyExistsError.errno if self.there else 0, None)])

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        self.looked += 1
        error_code = 0 if self.looked > self.looks else UnknownTopicOrPartitionError.errno
        return [{"topic": name, "error_code": error_code, "partitions": []} for name in names]


async def created(broker: SlowBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    @asynccontextmanager
    async def admin(_: Settings) -> AsyncIterator[SlowBroker]:
        yield broker

    monkeypatch.setattr(topics, "_admin", admin)
    monkeypatch.setattr(topics, "METADATA_PAUSE_SECONDS", 0)
    return await create_topics(Settings(), 4, 1)


async def test_topics_are_created_once_the_broker_tells_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SlowBroker(there=False, looks=3)
    assert set((await created(broker, monkeypatch)).values()) == {True}
    assert broker.looked == 4


async def test_a_broker_that_never_tells_of_its_topics_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = SlowBroker(there=False, looks=10_000)
    await created(broker, monkeypatch)
    assert broker.looked == topics.METADATA_TRIES


async def test_topics_that_were_there_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SlowBroker(there=True, looks=3)
    assert set((await created(broker, monkeypatch)).values()) == {False}
    assert broker.looked == 0


@pytest.mark.parametrize(
    ("given", "matches", "verdicts"),
    [
        ({}, "signatures.matches", "signatures.verdicts"),
        ({"log": "a"}, "a.matches", "a.verdicts"),
        ({"log": "a", "matches": "m", "verdicts": ""}, "m", "a.verdicts"),
    ],
)
def test_the_topics_of_rounds_are_named_after_the_log(given: dict[str, str], matches: str, verdicts: str) -> None:
    named = Settings.model_validate({"topics": given}).topics
    assert (named.matches, named.verdicts) == (matches, verdicts)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"input": "__consumer_offsets"}, "topics.input must not be a topic of Kafka itself"),
        ({"novel": "__transaction_state"}, "topics.novel must not be a topic of Kafka itself"),
        ({"log": "a/b"}, "topics.log must have 1 to 249 characters"),
        ({"input": "x" * 250}, "topics.input must have 1 to 249 characters"),
        ({"log": ".."}, "topics.log must have 1 to 249 characters"),
        ({"novel": "pages", "input": "pages"}, "topics must be five different topics"),
    ],
)
def test_a_topic_name_that_cannot_be_used_is_refused(given: dict[str, str], rule: str) -> None:
    settings = Settings.model_validate({"topics": given})
    with pytest.raises(SettingError, match=rule):
        check_topic_names(settings)
