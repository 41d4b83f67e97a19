"""Creates the topics that the service needs, and checks them before the first page.

Says of what the broker tells of a topic whether it fits: the log, and the topics of rounds.

How many bytes a message has in a topic, and how many our own headers and reports need at least.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from spotsieve.stream.base.errors import BrokerError, SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import TopicSettings
from spotsieve.stream.kafka.clients import administrator, client_options, create, warn_of_open_files
from spotsieve.stream.kafka.connectivity import why_unreached
from spotsieve.stream.kafka.errors import PERMISSION_ERRORS, explain_error
from spotsieve.stream.observe.logs import logger

Headers = Sequence[tuple[str, bytes]]

RECORD_OVERHEAD_BYTES = 128
"""The batch header (61) and the record header around one message."""
HEADER_OVERHEAD_BYTES = 10
"""Two lengths, both varints."""
HEADER_TEXT_BYTES = 1024
KEY_BYTES = 65_536
"""The longest key that a report or a cut dead letter repeats: a key as large as a message would fit no output."""
LEAST_OUTPUT_BYTES = 16_384
"""What each output topic must take. Our headers need up to 4.5 KB (four texts of HEADER_TEXT_BYTES, their names and the
verdict), and a report up to 8 KB compressed (three addresses or ids of 2,048 bytes each). The rest is for the page."""


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of the bytes of an uncompressed record batch that holds this one message."""
    size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
    return size + sum(len(name.encode()) + len(content or b"") + HEADER_OVERHEAD_BYTES for name, content in headers)


FOREVER = "-1"
DEFAULT_MESSAGE_BYTES = 1_048_588
ANY_TIME_MS = 2**63 - 1
"""Brokers before Kafka 4 allow messages any time, or do not say what they allow."""
TOPIC_CODECS = {"uncompressed": "none", **{codec: codec for codec in ("gzip", "snappy", "lz4", "zstd")}}
LOG_RECORD_BYTES = 900_000
"""The largest record of the log: less than the broker's default max.message.bytes, with room for the batch header."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What the broker says of a topic.  replication: copies of its first partition, 0 where that is not known"""

    partitions: int
    settings: Mapping[str, str]
    replication: int = 0

    @property
    def max_message_bytes(self) -> int:
        """The size of the largest record batch that the topic takes."""
        return int(self.settings.get("max.message.bytes", DEFAULT_MESSAGE_BYTES))

    @property
    def codec(self) -> str | None:
        """The codec of every batch in the topic, None where batches stay as they are sent.

        The broker would compress what is sent in another one anew, and refuse it where it then is too large.
        """
        return TOPIC_CODECS.get(self.settings.get("compression.type", "producer"))

    @property
    def times_taken_ms(self) -> tuple[int, int]:
        """How far a message's time may lie before and after the broker's clock, in milliseconds."""
        if self.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
            return ANY_TIME_MS, ANY_TIME_MS
        # Brokers before Kafka 4 also know one bound for both.
        both = int(self.settings.get("message.timestamp.difference.max.ms", ANY_TIME_MS))
        before, after = (
            min(both, int(self.settings.get(f"message.timestamp.{side}.max.ms", ANY_TIME_MS)))
            for side in ("before", "after")
        )
        return before, after


def check_log(name: str, facts: TopicFacts) -> None:
    """Refuse a log topic that could not carry the order of pages, and warn of one that forgets. Raises SettingError."""
    _check_carries("log", name, facts, 1, "one partition: it is the one order of pages")
    _warn_of_forgetting("the log topic", "state directory", name, facts)
    warn_of_losses(name, facts)


def check_rounds(shards: int, names: Mapping[str, str], found: Mapping[str, TopicFacts]) -> None:
    """Refuse topics of rounds that could not carry what shards and the resolver say. Raises SettingError.

    names, found: by role, those of `matches` and `verdicts`
    """
    partitions = found["matches"].partitions
    if partitions < shards:
        raise SettingError(
            "topics.matches",
            f"must have {shards} partitions or more, one for each of cluster.shards",
            partitions,
            f"ask for so many shards, which adds them (spotsieve shards resize); or make {names['matches']!r} anew",
        )
    # A resize to fewer shards leaves partitions without a writer.
    _check_carries("matches", names["matches"], found["matches"], partitions, "partitions")
    _check_carries("verdicts", names["verdicts"], found["verdicts"], 1, "one partition: it is the one order of rounds")
    _warn_of_forgetting("the topic of verdicts", "shard", names["verdicts"], found["verdicts"])


def _warn_of_forgetting(topic: str, lost: str, name: str, facts: TopicFacts) -> None:
    """Warn of a retention by time or size. topic, lost: in words, and what cannot be rebuilt from it"""
    retention = {setting: facts.settings.get(setting, FOREVER) for setting in ("retention.ms", "retention.bytes")}
    bounded = {setting: value for setting, value in retention.items() if value != FOREVER}
    if bounded:
        # This is not refused: a user may keep snapshots of the states.
        logger().warning(
            f"{topic} forgets: a lost {lost} cannot be rebuilt from it; set its retention to -1", topic=name, **bounded
        )


def _check_carries(role: str, name: str, facts: TopicFacts, partitions: int, rule: str) -> None:
    """Refuse another number of partitions, too small messages, and compaction. Raises SettingError."""
    if facts.partitions != partitions:
        raise SettingError(f"topics.{role}", f"must have {rule}", facts.partitions, f"make {name!r} anew")
    if facts.max_message_bytes <= LOG_RECORD_BYTES:
        raise SettingError(
            f"topics.{role}",
            f"must take records of {LOG_RECORD_BYTES} bytes and their batch header (max.message.bytes)",
            facts.max_message_bytes,
            f"raise max.message.bytes of {name!r}",
        )
    if "compact" in facts.settings.get("cleanup.policy", ""):
        raise SettingError(
            f"topics.{role}",
            "must not be compacted: the state is a function of every record",
            facts.settings["cleanup.policy"],
            f"set cleanup.policy=delete on {name!r}",
        )


def warn_of_losses(name: str, facts: TopicFacts) -> None:
    """Warn where the loss of one broker takes records of the log along: every worker would have to begin anew."""
    least = facts.settings.get("min.insync.replicas")
    if facts.replication == 1:
        logger().warning(
            "one broker can lose the log: it has one copy; in production give it three "
            "(kafka-reassign-partitions.sh, or `spotsieve topics create --replication 3` before the first page)",
            topic=name,
        )
    elif least == "1":
        logger().warning(
            "one broker can lose the newest records of the log: they count as written once one broker has them; "
            "set min.insync.replicas=2",
            topic=name,
            replication=facts.replication,
        )
    if facts.settings.get("unclean.leader.election.enable") == "true":
        logger().warning(
            "the log topic may lose records when brokers fail: a copy that lags may become the leader; "
            "set unclean.leader.election.enable=false",
            topic=name,
        )


def warn_of_free_times(name: str, facts: TopicFacts, horizon_hours: float) -> None:
    """Warn where senders may date a page so far ahead that all pages before it leave the horizon."""
    if facts.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
        return
    ahead_ms = int(facts.settings.get("message.timestamp.after.max.ms", ANY_TIME_MS))
    if ahead_ms > horizon_hours * 3_600_000:
        logger().warning(
            "messages of the input topic may be dated farther ahead than the horizon, and one of them makes everything "
            "forgotten; set message.timestamp.type=LogAppendTime, or a smaller message.timestamp.after.max.ms",
            topic=name,
            after_max_ms=ahead_ms,
            horizon_hours=horizon_hours,
        )


COPIES_FOR_TWO = 3
"""With so many copies of a topic two must have a message before it counts as written, and one broker may be away."""

ROUND_ROLES = ("matches", "verdicts")
"""The topics that shards and the resolver write; only a service with shards has them."""
TELLING_TRIES, TELLING_PAUSE_SECONDS = 100, 0.1

_NOT_YET = (UnknownTopicOrPartitionError, LeaderNotAvailableError)
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_names(topics: TopicSettings) -> dict[str, str]:
    """Role (the setting's name) to topic name, of the topics that every service has."""
    return {role: getattr(topics, role) for role in ("input", "novel", "duplicates", "rejected", "log")}


def names_of(settings: Settings) -> dict[str, str]:
    """Role to topic name, of all topics of a service: with shards two more."""
    rounds = ROUND_ROLES if settings.cluster.shards else ()
    return topic_names(settings.topics) | {role: getattr(settings.topics, role) for role in rounds}


def check_topic_names(settings: Settings) -> None:
    """Refuse names that Kafka does not allow, and one name for two roles. Raises SettingError."""
    names = names_of(settings)
    for role, name in names.items():
        if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            raise SettingError(
                f"topics.{role}", "must be 1 to 249 of the characters a-z A-Z 0-9 . _ -", name, "choose another name"
            )
    if len(set(names.values())) < len(names):
        rule = f"must be {'seven' if settings.cluster.shards else 'five'} different topics"
        raise SettingError("topics", rule, list(names.values()), "give each its own name")


async def create_topics(settings: Settings, partitions: int, replication: int) -> dict[str, bool]:
    """Create the missing topics: the log with one partition and kept for ever, the others with `partitions`.

    Of the topics of rounds that of verdicts is as the log is, and that of matches has a partition for each shard.
    With three copies or more, two brokers must have a message before it counts as written.
    Returns topic name -> True where it was created. Raises SettingError for names, and BrokerError.
    """
    names = names_of(settings)
    check_topic_names(settings)
    shards = settings.cluster.shards
    made: dict[str, bool] = {}
    try:
        async with _admin(settings) as admin:
            for role, name in names.items():
                of_role = {"log": 1, "verdicts": 1, "matches": shards}.get(role, partitions)
                made[name] = await _create(admin, role, name, of_role, replication)
            if any(made.values()):
                await wait_for_topics(admin, list(names.values()))
    except KafkaError as error:
        raise explain_error(error, settings, "creating topics") from None
    return made


async def add_partitions(settings: Settings, name: str, partitions: int) -> int:
    """Let a topic have so many partitions at least; -> how many were added. Raises BrokerError."""
    try:
        async with _admin(settings) as admin:
            held = len((await admin.describe_topics([name]))[0]["partitions"])
            if held >= partitions:
                return 0
            await admin.create_partitions({name: NewPartitions(partitions)})
            for _ in range(TELLING_TRIES):
                if len((await admin.describe_topics([name]))[0]["partitions"]) >= partitions:
                    break
                await asyncio.sleep(TELLING_PAUSE_SECONDS)
    except KafkaError as error:
        raise explain_error(error, settings, f"adding partitions to {name}") from None
    return partitions - held


async def check_topics(settings: Settings, new: bool = False) -> dict[str, TopicFacts]:
    """Look at the topics, and refuse settings that could lose pages or change verdicts.

    new: some were created just now, so the broker that is asked may come to know of them soon
    Returns role -> facts. Raises SettingError, which names the topic and the next step, or BrokerError.
    """
    names = names_of(settings)
    check_topic_names(settings)
    warn_of_open_files(settings.kafka)
    facts = await topic_facts(settings, sorted(names.values()))
    for _ in range(TELLING_TRIES if new else 0):
        if facts.keys() >= set(names.values()):
            break
        await asyncio.sleep(TELLING_PAUSE_SECONDS)
        facts = await topic_facts(settings, sorted(names.values()))
    for role, name in names.items():
        if name not in facts:
            raise SettingError(
                f"topics.{role}", "does not exist on the broker", name, "create it: `spotsieve topics create`"
            )
    found = {role: facts[name] for role, name in names.items()}
    check_log(names["log"], found["log"])
    if settings.cluster.shards:
        check_rounds(settings.cluster.shards, names, found)
    if settings.index.horizon_hours:
        warn_of_free_times(names["input"], found["input"], settings.index.horizon_hours)
    for role in ("novel", "duplicates", "rejected"):
        if found[role].max_message_bytes < LEAST_OUTPUT_BYTES:
            raise SettingError(
                f"topics.{role}",
                f"must take messages of {LEAST_OUTPUT_BYTES} bytes, for the headers and reports that Spotsieve adds "
                "(max.message.bytes)",
                found[role].max_message_bytes,
                f"raise max.message.bytes of {names[role]!r}",
            )
    for role in ("novel", "rejected"):
        if found[role].max_message_bytes < found["input"].max_message_bytes:
            raise SettingError(
                f"topics.{role}",
                f"must take messages as large as {names['input']!r} does "
                f"(max.message.bytes {found['input'].max_message_bytes})",
                found[role].max_message_bytes,
                f"raise max.message.bytes of {names[role]!r}",
            )
    return found


async def topic_facts(settings: Settings, names: list[str]) -> dict[str, TopicFacts]:
    """The broker's facts about the topics of these names that exist, by name. Raises BrokerError."""
    try:
        async with _admin(settings) as admin:
            return await _facts(admin, names)
    except KafkaError as error:
        raise explain_error(error, settings, "looking at the topics") from None


@asynccontextmanager
async def _admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client. Raises BrokerError where no broker can be asked; errors inside the block pass unchanged."""
    async with AsyncExitStack() as closing:
        try:
            admin = await closing.enter_async_context(administrator(**client_options(settings.kafka)))
        except KafkaConnectionError:
            raise await why_unreached(settings, "connecting") from None
        except KafkaError as error:
            raise explain_error(error, settings, "connecting") from None
        yield admin


async def _create(admin: AIOKafkaAdminClient, role: str, name: str, partitions: int, replication: int) -> bool:
    """Create a topic; False where it existed. Raises BrokerError where the broker refuses."""
    # The log must never lose a record: the state is a function of it, and that of a shard of the verdicts too.
    configs = dict[str, str]()
    if role in ("log", "verdicts"):
        configs = {"retention.ms": FOREVER, "retention.bytes": FOREVER, "cleanup.policy": "delete"}
    if replication >= COPIES_FOR_TWO:
        configs["min.insync.replicas"] = "2"
    topic = NewTopic(name, partitions, replication, topic_configs=configs)
    code, said = await create(admin, topic)
    error = for_code(code)
    if error.errno and error is not TopicAlreadyExistsError:
        why = (said or error.__name__).rstrip(".")
        raise BrokerError(
            f"topics.{role}",
            f"cannot be created: {why}",
            name,
            "change the setting, --partitions or --replication, or the broker's rights",
        )
    return code == 0


async def wait_for_topics(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until the broker knows the topics: it answers a creation before it knows of it itself.

    The wait ends after a while: the next look reports what is still missing.
    """
    for _ in range(TELLING_TRIES):
        described: list[dict[str, Any]] = await admin.describe_topics(names)
        if not any(for_code(row["error_code"]) in _NOT_YET for row in described):
            return
        await asyncio.sleep(TELLING_PAUSE_SECONDS)


async def _facts(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, TopicFacts]:
    described: list[dict[str, Any]] = await admin.describe_topics(names)
    found = {row["topic"]: row["partitions"] for row in described if row["error_code"] == 0}
    for row in described:
        error = for_code(row["error_code"])
        if issubclass(error, PERMISSION_ERRORS):
            raise error(row["topic"])
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in found]
    configs: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources) if resources else []:
        for _, _, _, name, entries in response.resources:
            configs[name] = {entry[0]: entry[1] for entry in entries}
    # Describing settings needs a right of its own. Without it the checks fall back on the broker's defaults.
    return {
        name: TopicFacts(len(rows), configs.get(name, {}), len(rows[0]["replicas"]) if rows else 0)
        for name, rows in found.items()
    }
