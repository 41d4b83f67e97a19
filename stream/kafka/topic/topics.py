"""Creates the topics that the service needs, and checks them before the first page."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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

from spotsieve.stream.errors import BrokerError, SettingError
from spotsieve.stream.kafka.client.clients import client_options, warn_of_open_files
from spotsieve.stream.kafka.cluster import administrator, create
from spotsieve.stream.kafka.errors import PERMISSION_ERRORS, explain_error
from spotsieve.stream.kafka.reach import why_unreached
from spotsieve.stream.kafka.topic.message_sizes import LEAST_OUTPUT_BYTES
from spotsieve.stream.kafka.topic.topic_checks import FOREVER, TopicFacts, check_log, check_rounds, warn_of_free_times
from spotsieve.stream.settings.edges import TopicSettings
from spotsieve.stream.settings.model import Settings

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
