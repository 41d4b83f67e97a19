"""Creates the topics of the service, and checks their settings before the first page.

Also computes the size of a message in a topic, and the minimum size for the headers and reports that Spotsieve adds.
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
"""Two varint lengths."""
HEADER_TEXT_BYTES = 1024
KEY_BYTES = 65_536
"""Longest key that a report or a shortened dead letter repeats. A key as large as a message would fit no output."""
LEAST_OUTPUT_BYTES = 16_384
"""Minimum max.message.bytes of output topics. The added headers need up to 4.5 KB (four texts of HEADER_TEXT_BYTES,
their names and the verdict), and a report up to 8 KB compressed (three URLs or ids of 2,048 bytes). The rest is for the
page."""
OUTPUT_ROLES = ("novel", "duplicates", "rejected")
"""The roles of the output topics, as in the settings topics.ROLE."""
FOREVER = "-1"
DEFAULT_MESSAGE_BYTES = 1_048_588
DEFAULT_RETENTION_MS = 7 * 86_400_000
ANY_TIME_MS = 2**63 - 1
"""Brokers before Kafka 4 accept any timestamp, or do not report their limit."""
TOPIC_CODECS = {"uncompressed": "none", **{codec: codec for codec in ("gzip", "snappy", "lz4", "zstd")}}
LOG_RECORD_BYTES = 900_000
"""Limit for a log record: below the broker's default max.message.bytes, with room for the batch header."""
COPIES_FOR_TWO = 3
"""From this number of replicas on, two must acknowledge a message, and one broker may be down."""
ROUND_ROLES = ("matches", "verdicts")
"""Topics that shards and the resolver write. Only a service with shards has them."""
METADATA_TRIES, METADATA_PAUSE_SECONDS = 100, 0.1
_NOT_YET = (UnknownTopicOrPartitionError, LeaderNotAvailableError)
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_INTERNAL_TOPICS = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics of Kafka itself. Their records are no pages, and a client that writes to them can damage all groups."""


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Upper bound for the bytes of an uncompressed record batch with this message."""
    size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
    return size + sum(len(name.encode()) + len(content or b"") + HEADER_OVERHEAD_BYTES for name, content in headers)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker describes it. replication: replicas of its first partition, 0 if unknown"""

    partitions: int
    settings: Mapping[str, str]
    replication: int = 0

    @property
    def max_message_bytes(self) -> int:
        """Limit for a record batch of the topic."""
        return int(self.settings.get("max.message.bytes", DEFAULT_MESSAGE_BYTES))

    @property
    def compacted(self) -> bool:
        """Whether the broker keeps only the newest message of each key. It then rejects messages without a key."""
        return "compact" in self.settings.get("cleanup.policy", "")

    @property
    def codec(self) -> str | None:
        """The codec that the topic prescribes, or None if batches keep the codec of the producer.

        The broker recompresses batches of another codec, and rejects them if they are then too large.
        """
        return TOPIC_CODECS.get(self.settings.get("compression.type", "producer"))

    @property
    def times_taken_ms(self) -> tuple[int, int]:
        """Limits for a timestamp before and after the broker's clock, in milliseconds.

        The broker rejects a message beyond its own limits. It deletes a message that is older than the retention, at
        once, so half of the retention is left for consumers.
        """
        if self.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
            return ANY_TIME_MS, ANY_TIME_MS
        # Brokers before Kafka 4 also have one limit for both.
        both = int(self.settings.get("message.timestamp.difference.max.ms", ANY_TIME_MS))
        before, after = (
            min(both, int(self.settings.get(f"message.timestamp.{side}.max.ms", ANY_TIME_MS)))
            for side in ("before", "after")
        )
        retention = int(self.settings.get("retention.ms", FOREVER if self.settings else DEFAULT_RETENTION_MS))
        if retention >= 0 and "delete" in self.settings.get("cleanup.policy", "delete"):
            before = min(before, retention // 2)
        return before, after


def check_log(name: str, facts: TopicFacts) -> None:
    """Check the log topic. Raises SettingError; warns if the topic has a retention or may lose records."""
    _check_carries("log", name, facts, 1, "one partition, because it defines the order of all pages")
    _warn_of_retention("the log topic", "state directory", name, facts)
    warn_of_losses(name, facts)


def check_rounds(shards: int, names: Mapping[str, str], found: Mapping[str, TopicFacts]) -> None:
    """Check the topics `matches` and `verdicts`. Raises SettingError.

    shards: cluster.shards
    names, found: names and facts of the topics, by role
    """
    partitions = found["matches"].partitions
    if partitions < shards:
        raise SettingError(
            "topics.matches",
            f"must have at least {shards} partitions, one per shard (cluster.shards)",
            partitions,
            f"add partitions with spotsieve shards resize, or recreate {names['matches']!r}",
        )
    # After a resize to fewer shards, some partitions have no writer.
    _check_carries("matches", names["matches"], found["matches"], partitions, "partitions")
    _check_carries(
        "verdicts", names["verdicts"], found["verdicts"], 1, "one partition, because it defines the order of all rounds"
    )
    _warn_of_retention("the topic of verdicts", "shard", names["verdicts"], found["verdicts"])


def _warn_of_hidden_settings(names: Sequence[str]) -> None:
    """Warn of topics whose settings the broker does not show."""
    if names:
        logger().warning(
            "the settings of topics cannot be read, so their compaction, retention, limits and codec are not checked, "
            "and Kafka's defaults are assumed; grant the user DescribeConfigs on these topics",
            topics=list(names),
        )


def _warn_of_retention(topic: str, rebuilt: str, name: str, facts: TopicFacts) -> None:
    """Warn of a retention by time or size. topic, rebuilt: in words, the topic and what is rebuilt from it"""
    retention = {setting: facts.settings.get(setting, FOREVER) for setting in ("retention.ms", "retention.bytes")}
    bounded = {setting: value for setting, value in retention.items() if value != FOREVER}
    if bounded:
        # This is no error, because a user may keep snapshots of the states.
        logger().warning(
            f"{topic} has a retention, so a lost {rebuilt} cannot be rebuilt from it; set the retention to -1",
            topic=name,
            **bounded,
        )


def _check_carries(role: str, name: str, facts: TopicFacts, partitions: int, rule: str) -> None:
    """Check number of partitions, message size and compaction. Raises SettingError."""
    if facts.partitions != partitions:
        raise SettingError(f"topics.{role}", f"must have {rule}", facts.partitions, f"recreate {name!r}")
    if facts.max_message_bytes <= LOG_RECORD_BYTES:
        raise SettingError(
            f"topics.{role}",
            f"must accept records of {LOG_RECORD_BYTES} bytes and their batch header (max.message.bytes)",
            facts.max_message_bytes,
            f"raise max.message.bytes of {name!r}",
        )
    if facts.compacted:
        raise SettingError(
            f"topics.{role}",
            "must not be compacted, because the state depends on every record",
            facts.settings["cleanup.policy"],
            f"set cleanup.policy=delete on {name!r}",
        )


def warn_of_losses(name: str, facts: TopicFacts) -> None:
    """Warn if the loss of one broker can lose log records, which would force all workers to rebuild from scratch."""
    least = facts.settings.get("min.insync.replicas")
    if facts.replication == 1:
        logger().warning(
            "the loss of one broker loses the log, because the topic has one replica; in production use three "
            "(kafka-reassign-partitions.sh, or `spotsieve topics create --replication 3` before the first page)",
            topic=name,
        )
    elif least == "1":
        logger().warning(
            "the loss of one broker can lose the newest log records, because one replica acknowledges them; "
            "set min.insync.replicas=2",
            topic=name,
            replication=facts.replication,
        )
    if facts.settings.get("unclean.leader.election.enable") == "true":
        logger().warning(
            "the log topic can lose records when brokers fail, because a replica that lags may become the leader; "
            "set unclean.leader.election.enable=false",
            topic=name,
        )


def warn_of_compaction(role: str, name: str, facts: TopicFacts) -> None:
    """Warn if the input or an output topic keeps only one message of each key."""
    if facts.compacted:
        logger().warning(
            f"topics.{role} is compacted, so the broker removes each message when a later one has the same key; set "
            "cleanup.policy=delete to keep all of them",
            topic=name,
        )


def warn_of_free_times(name: str, facts: TopicFacts, horizon_hours: float) -> None:
    """Warn if a producer may date a page so far ahead that all earlier pages leave the deduplication window."""
    if facts.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
        return
    ahead_ms = int(facts.settings.get("message.timestamp.after.max.ms", ANY_TIME_MS))
    if ahead_ms > horizon_hours * 3_600_000:
        logger().warning(
            "the input topic accepts timestamps beyond the deduplication window (index.horizon_hours), and one such "
            "message removes all pages from the window; set message.timestamp.type=LogAppendTime, or a smaller "
            "message.timestamp.after.max.ms",
            topic=name,
            after_max_ms=ahead_ms,
            horizon_hours=horizon_hours,
        )


def topic_names(topics: TopicSettings) -> dict[str, str]:
    """Topic name by role (the name of the setting), for the topics of every service."""
    return {role: getattr(topics, role) for role in ("input", *OUTPUT_ROLES, "log")}


def names_of(settings: Settings) -> dict[str, str]:
    """Topic name by role for all topics of this service; a service with shards has two more."""
    rounds = ROUND_ROLES if settings.cluster.shards else ()
    return topic_names(settings.topics) | {role: getattr(settings.topics, role) for role in rounds}


def check_topic_names(settings: Settings) -> None:
    """Raise SettingError for names that Kafka does not allow or uses itself, and for one name in two roles."""
    names = names_of(settings)
    for role, name in names.items():
        if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            raise SettingError(
                f"topics.{role}", "must have 1 to 249 characters out of a-z A-Z 0-9 . _ -", name, "choose another name"
            )
        if name in _INTERNAL_TOPICS:
            raise SettingError(f"topics.{role}", "must not be a topic of Kafka itself", name, "choose another name")
    if len(set(names.values())) < len(names):
        rule = f"must be {'seven' if settings.cluster.shards else 'five'} different topics"
        raise SettingError("topics", rule, list(names.values()), "give each topic its own name")


async def create_topics(settings: Settings, partitions: int, replication: int) -> dict[str, bool]:
    """Create the missing topics. Returns by topic name whether it was created.

    `log` and `verdicts` get one partition and no retention, `matches` gets a partition per shard, and the others get
    `partitions`. With three replicas or more, two must acknowledge a message.
    Raises SettingError for invalid names, and BrokerError.
    """
    names = names_of(settings)
    check_topic_names(settings)
    shards = settings.cluster.shards
    created: dict[str, bool] = {}
    try:
        async with _admin(settings) as admin:
            for role, name in names.items():
                number = {"log": 1, "verdicts": 1, "matches": shards}.get(role, partitions)
                created[name] = await _create(admin, role, name, number, replication)
            if any(created.values()):
                await wait_for_topics(admin, list(names.values()))
    except KafkaError as error:
        raise explain_error(error, settings, "creating topics") from None
    return created


async def add_partitions(settings: Settings, name: str, partitions: int) -> int:
    """Raise the number of partitions of a topic to `partitions`. Returns the number added. Raises BrokerError."""
    try:
        async with _admin(settings) as admin:
            present = len((await admin.describe_topics([name]))[0]["partitions"])
            if present >= partitions:
                return 0
            await admin.create_partitions({name: NewPartitions(partitions)})
            for _ in range(METADATA_TRIES):
                if len((await admin.describe_topics([name]))[0]["partitions"]) >= partitions:
                    break
                await asyncio.sleep(METADATA_PAUSE_SECONDS)
    except KafkaError as error:
        raise explain_error(error, settings, f"adding partitions to {name}") from None
    return partitions - present


async def check_topics(settings: Settings, new: bool = False) -> dict[str, TopicFacts]:
    """Check that no topic setting can lose pages or change verdicts. Returns the facts of each topic by role.

    new: topics were created just now, so the broker may not list them yet
    Raises SettingError, which names the topic and the next step, or BrokerError.
    """
    names = names_of(settings)
    check_topic_names(settings)
    warn_of_open_files(settings.kafka)
    facts = await topic_facts(settings, sorted(names.values()))
    for _ in range(METADATA_TRIES if new else 0):
        if facts.keys() >= set(names.values()):
            break
        await asyncio.sleep(METADATA_PAUSE_SECONDS)
        facts = await topic_facts(settings, sorted(names.values()))
    for role, name in names.items():
        if name not in facts:
            raise SettingError(
                f"topics.{role}", "does not exist on the broker", name, "create it: `spotsieve topics create`"
            )
    found = {role: facts[name] for role, name in names.items()}
    _warn_of_hidden_settings(sorted(name for name in names.values() if not facts[name].settings))
    check_log(names["log"], found["log"])
    if settings.cluster.shards:
        check_rounds(settings.cluster.shards, names, found)
    if settings.index.horizon_hours:
        warn_of_free_times(names["input"], found["input"], settings.index.horizon_hours)
    for role in ("input", *OUTPUT_ROLES):
        warn_of_compaction(role, names[role], found[role])
    for role in OUTPUT_ROLES:
        if found[role].max_message_bytes < LEAST_OUTPUT_BYTES:
            raise SettingError(
                f"topics.{role}",
                f"must accept messages of {LEAST_OUTPUT_BYTES} bytes, for the headers and reports that Spotsieve adds "
                "(max.message.bytes)",
                found[role].max_message_bytes,
                f"raise max.message.bytes of {names[role]!r}",
            )
    for role in ("novel", "rejected"):
        if found[role].max_message_bytes < found["input"].max_message_bytes:
            raise SettingError(
                f"topics.{role}",
                f"must accept messages as large as the input topic {names['input']!r} "
                f"(max.message.bytes {found['input'].max_message_bytes})",
                found[role].max_message_bytes,
                f"raise max.message.bytes of {names[role]!r}",
            )
    return found


async def topic_facts(settings: Settings, names: list[str]) -> dict[str, TopicFacts]:
    """Facts of the topics with these names, by name, without missing ones. Raises BrokerError."""
    try:
        async with _admin(settings) as admin:
            return await _facts(admin, names)
    except KafkaError as error:
        raise explain_error(error, settings, "reading the topic settings") from None


@asynccontextmanager
async def _admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an admin client. Raises BrokerError if no broker can be reached; errors of the block are not changed."""
    async with AsyncExitStack() as closing:
        try:
            admin = await closing.enter_async_context(administrator(**client_options(settings.kafka)))
        except KafkaConnectionError:
            raise await why_unreached(settings) from None
        except KafkaError as error:
            raise explain_error(error, settings, "connecting") from None
        yield admin


async def _create(admin: AIOKafkaAdminClient, role: str, name: str, partitions: int, replication: int) -> bool:
    """Create a topic. Returns False if it exists. Raises BrokerError if the broker refuses."""
    # These topics must keep all records: the state depends on the log, and the state of a shard on the verdicts too.
    configs = dict[str, str]()
    if role in ("log", "verdicts"):
        configs = {"retention.ms": FOREVER, "retention.bytes": FOREVER, "cleanup.policy": "delete"}
    if replication >= COPIES_FOR_TWO:
        configs["min.insync.replicas"] = "2"
    topic = NewTopic(name, partitions, replication, topic_configs=configs)
    code, text = await create(admin, topic)
    error = for_code(code)
    if error.errno and error is not TopicAlreadyExistsError:
        reason = (text or error.__name__).rstrip(".")
        raise BrokerError(
            f"topics.{role}",
            f"cannot be created: {reason}",
            name,
            "change the setting, --partitions or --replication, or the rights on the broker",
        )
    return code == 0


async def wait_for_topics(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until the broker lists new topics, which it does some time after it confirms their creation.

    The wait ends after METADATA_TRIES without an error. The next check reports missing topics.
    """
    for _ in range(METADATA_TRIES):
        described: list[dict[str, Any]] = await admin.describe_topics(names)
        if not any(for_code(row["error_code"]) in _NOT_YET for row in described):
            return
        await asyncio.sleep(METADATA_PAUSE_SECONDS)


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
    # Reading topic settings needs a separate right. Without it, a topic has no settings here.
    return {
        name: TopicFacts(len(rows), configs.get(name, {}), len(rows[0]["replicas"]) if rows else 0)
        for name, rows in found.items()
    }
