"""Reads the latest records of a service with shards: the ends of its topics, and the sizes of its groups."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.format.meta import NO_LOG, LogIdentity
from spotsieve.state.identity import OtherLogError
from spotsieve.stream.base.errors import DamagedRecord, SettingError, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import administrator, client_options, resolver_group
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.ranges import RangeReader, Spans, partitions_of, spans_held
from spotsieve.stream.kafka.topics import names_of, topic_facts
from spotsieve.stream.service.log.skips import first_identity
from spotsieve.stream.service.roles.round_messages import message_of
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_RANGE, KIND_REQUEST, decode_round_record
from spotsieve.stream.sharding.shares import ClusterSize
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

STEP = "looking at the rounds"
VERDICTS_TAIL, MATCHES_TAIL = 32, 8
"""How many offsets to read: several rounds of `verdicts`, and the last responses of each shard."""
FILLING_MS = 5_000
"""A shard that fills its state publishes its progress every second. A rate needs two such records."""


class TimedMessage(NamedTuple):
    """A record of a round with its timestamp."""

    message: RoundMessage
    time_ms: int


class ServiceMembers(NamedTuple):
    """The group sizes of a service; None if the client may not describe groups.

    messages: number of uncommitted input messages
    """

    workers: int | None
    resolvers: int | None
    messages: int | None


class TopicEnds(NamedTuple):
    """The ends of the topics.

    log_end: end offset of the log  verdicts: the newest round and some records before it
    matches: by partition, the records since the newest round was published, and some records before them
    by_host: whether the shards confirm and resolve candidates before the resolver completes a round
    """

    log_end: int
    verdicts: Sequence[TimedMessage]
    matches: Mapping[int, Sequence[TimedMessage]]
    members: ServiceMembers
    by_host: bool

    @property
    def cluster_size(self) -> ClusterSize:
        """The current number of shards, and the resize in progress."""
        return cluster_size_of(self.verdicts)


def cluster_size_of(verdicts: Sequence[TimedMessage]) -> ClusterSize:
    """The number of shards after these records of `verdicts`."""
    cluster_size = ClusterSize()
    for record in verdicts:
        cluster_size = record.message.cluster_size(cluster_size)
    return cluster_size


def cluster_size_after(cluster_size: ClusterSize, records: Sequence[TimedMessage]) -> ClusterSize:
    """The number of shards after a resolver has answered all requests. records: of the first partition of `matches`"""
    for record in records:
        message = record.message
        if message.record.kind == KIND_REQUEST and not message.record.share.number:
            resize = cluster_size.respond(message.requested_shards(), message.offset, message.record.share.shards)
            cluster_size = cluster_size if resize is None else cluster_size.after(cluster_size.shards, resize)
    return cluster_size


async def read_cluster_sizes(settings: Settings) -> tuple[ClusterSize, ClusterSize]:
    """The number of shards now, and after a resolver has answered all open requests. Raises SpotsieveError."""
    await _partition_counts(settings)
    log = await first_identity(settings)
    topic, requests = (TopicPartition(name, 0) for name in (settings.topics.verdicts, settings.topics.matches))
    spans = await spans_held(settings, [topic, requests], STEP)
    verdicts = await _read_verdicts(settings, log, topic, spans[topic])
    cluster_size, (begin, end) = cluster_size_of(verdicts), spans[requests]
    # A new resolver reads from the responses to the newest round on. All requests before them are answered.
    first = max(begin, cluster_size.processed, _newest_responses(verdicts).get(0, 0))
    # If the topic ends before this offset, it was recreated.
    records = await _read(settings, log, {requests: (first if first <= end else begin, end)}, is_strict=False)
    return cluster_size, cluster_size_after(cluster_size.over(end), records[requests])


async def read_begins(settings: Settings) -> dict[str, int]:
    """The first offsets of the log and of `verdicts`, by name of the topic. Raises BrokerError."""
    topics = [TopicPartition(name, 0) for name in (settings.topics.log, settings.topics.verdicts)]
    return {topic.topic: begin for topic, (begin, _) in (await spans_held(settings, topics, STEP)).items()}


async def read_ends(settings: Settings, now_ms: int) -> TopicEnds:
    """Read the ends of all topics. now_ms: Unix time in ms. Raises SpotsieveError."""
    partitions, log = await _partition_counts(settings), await first_identity(settings)
    topics = settings.topics
    signatures, verdicts = TopicPartition(topics.log, 0), TopicPartition(topics.verdicts, 0)
    matches = partitions_of(topics.matches, partitions["matches"])
    pages = partitions_of(topics.input, partitions["input"])
    async with RangeReader(settings, {}, STEP) as bounds:
        spans = await bounds.held([signatures, verdicts, *matches, *pages])
        records = await _read_verdicts(settings, log, verdicts, spans[verdicts])
        responses = _newest_responses(records)
        tails = {
            partition: (max(first, min(end - MATCHES_TAIL, responses.get(partition.partition, end))), end)
            for partition, (first, end) in spans.items()
            if partition in matches
        }
        if cluster_size_of(records).requested:
            since = await bounds.offsets_at(matches, now_ms - FILLING_MS)
            tails = {at: (_earlier(first, since[at.partition]), end) for at, (first, end) in tails.items()}
    by_partition = await _read(settings, log, tails, is_strict=False)
    members = await _read_members(settings, {partition: spans[partition] for partition in pages})
    by_shard = {partition.partition: by_partition[partition] for partition in matches}
    return TopicEnds(
        spans[signatures][1], records, by_shard, members, scheme_in_scope(settings).host_thresholds is not None
    )


def _newest_responses(verdicts: Sequence[TimedMessage]) -> dict[int, int]:
    """The first offset of the responses to the newest round, by partition of `matches`."""
    rounds = [record.message.announcement() for record in verdicts if record.message.record.kind == KIND_RANGE]
    return dict(enumerate(rounds[-1].response_starts)) if rounds else {}


def _earlier(first: int, since: int | None) -> int:
    return first if since is None else min(first, since)


async def _partition_counts(settings: Settings) -> dict[str, int]:
    """The number of partitions of each topic, by role. Raises SettingError if a topic is missing, BrokerError."""
    if not settings.cluster.shards:
        raise SettingError(
            "cluster.shards",
            "is not set: this is the configuration of a service without shards",
            None,
            "give the configuration of the roles (-c)",
        )
    names = names_of(settings)
    facts = await topic_facts(settings, sorted(names.values()))
    for role, name in names.items():
        if name not in facts:
            raise SettingError(
                f"topics.{role}", "does not exist on the broker", name, "create it: `spotsieve topics create`"
            )
    return {role: facts[name].partitions for role, name in names.items()}


async def _read_verdicts(
    settings: Settings, log: LogIdentity | None, topic: TopicPartition, span: tuple[int, int]
) -> list[TimedMessage]:
    """The end of `verdicts`, which includes the newest round if there is one."""
    (begin, end), tail = span, VERDICTS_TAIL
    while True:
        first = max(begin, end - tail)
        records = (await _read(settings, log, {topic: (first, end)}, is_strict=True))[topic]
        if first == begin or any(record.message.record.kind == KIND_RANGE for record in records):
            return records
        tail *= 2


async def _read(
    settings: Settings, log: LogIdentity | None, spans: Spans, is_strict: bool
) -> dict[TopicPartition, list[TimedMessage]]:
    """The records in these ranges. is_strict: raise an error for a foreign or damaged record; else skip it"""
    digest = digest_of_settings(settings)
    found = {partition: list[TimedMessage]() for partition in spans}
    async with RangeReader(settings, spans, STEP) as reader:
        async for fetched in reader.batches():
            for partition, records in fetched.items():
                for record in records:
                    try:
                        found[partition].append(_timed_message(record, digest, log))
                    except OtherLogError:
                        raise
                    except (DamagedRecord, SettingsMismatch, StateError):
                        if is_strict:
                            raise
    return found


async def log_of_rounds(settings: Settings) -> LogIdentity:
    """The log that requests must name: by its first record, or by the last record of `verdicts` if that is gone.

    Raises StateError, BrokerError, BrokerTrouble.
    """
    log = await first_identity(settings)
    if log is not None:
        return log
    topic = TopicPartition(settings.topics.verdicts, 0)
    span = (await spans_held(settings, [topic], STEP))[topic]
    records = await _read_verdicts(settings, log, topic, span)
    return records[-1].message.record.log if records else NO_LOG


def _timed_message(record: ConsumerRecord, digest: bytes, log: LogIdentity | None) -> TimedMessage:
    decoded = decode_round_record(record.value or b"", digest, None, record.topic, record.offset, log)
    return TimedMessage(message_of(decoded, record), record.timestamp)


async def _read_members(settings: Settings, pages: Spans) -> ServiceMembers:
    """The group sizes and the lag of the input. Raises BrokerError if no broker responds."""
    group = settings.kafka.group_id
    try:
        async with administrator(**client_options(settings.kafka)) as admin:
            workers, resolvers = await _size_of(admin, group), await _size_of(admin, resolver_group(settings))
            try:
                committed = await admin.list_consumer_group_offsets(group, partitions=list(pages))
            except KafkaError:
                return ServiceMembers(workers, resolvers, None)
    except KafkaError as error:
        raise explain_error(error, settings, STEP) from None
    at = {partition: committed[partition].offset if partition in committed else -1 for partition in pages}
    # The offsets are newer than the ends, so a difference may be negative.
    lag = sum(max(0, end - max(begin, at[partition])) for partition, (begin, end) in pages.items())
    return ServiceMembers(workers, resolvers, lag)


async def _size_of(admin: AIOKafkaAdminClient, group: str) -> int | None:
    """The number of members of a group; None if the client may not describe it."""
    try:
        (response,) = await admin.describe_consumer_groups([group])
    except KafkaError:
        return None
    ((code, *_, members),) = [row[:6] for row in response.groups]
    return None if code else len(members)
