"""Reads what the roles of a service of shards have said last: the ends of its topics, and its groups."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import DamagedRecord, SettingError, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import administrator, client_options, resolver_group
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.ranges import RangeReader, Spans
from spotsieve.stream.kafka.topics import names_of, topic_facts
from spotsieve.stream.service.roles.round_messages import RoundMessage, message_of
from spotsieve.stream.sharding.records.frame import KIND_RANGE, KIND_REQUEST, decode_round_record
from spotsieve.stream.sharding.shares import ClusterSize
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

STEP = "looking at the rounds"
VERDICTS_TAIL, MATCHES_TAIL = 32, 8
"""Offsets that are looked at first: some rounds of `verdicts`, and the last answers of each shard."""
FILLING_MS = 5_000
"""A shard that fills itself says every second how far it is; a rate needs two of these."""


class TimedMessage(NamedTuple):
    """A record about a round, and when it was written."""

    heard: RoundMessage
    time_ms: int


class ServiceMembers(NamedTuple):
    """Processes of a service. None where the broker does not tell: the right to describe groups is missing.

    messages: of the input that are not committed
    """

    workers: int | None
    resolvers: int | None
    messages: int | None


class TopicEnds(NamedTuple):
    """The ends of the topics. log_end: offset of the log  verdicts: from the last range on, with some records before it

    matches: by partition, what was said since the newest round was named, with some records before it
    walks: whether shards confirm and walk before a round is resolved
    """

    log_end: int
    verdicts: Sequence[TimedMessage]
    matches: Mapping[int, Sequence[TimedMessage]]
    members: ServiceMembers
    walks: bool

    @property
    def cluster_size(self) -> ClusterSize:
        """The shards now."""
        return cluster_size_of(self.verdicts)


def cluster_size_of(verdicts: Sequence[TimedMessage]) -> ClusterSize:
    """The shards behind these records of `verdicts`."""
    cluster_size = ClusterSize()
    for said in verdicts:
        cluster_size = said.heard.cluster_size(cluster_size)
    return cluster_size


def cluster_size_after(cluster_size: ClusterSize, said: Sequence[TimedMessage]) -> ClusterSize:
    """The shards once a resolver has answered all asks. said: the first partition of `matches`"""
    for one in said:
        heard = one.heard
        if heard.told.kind == KIND_REQUEST and not heard.told.share.number:
            answer = cluster_size.answer(heard.ask(), heard.offset)
            cluster_size = cluster_size if answer is None else cluster_size.told(cluster_size.shards, answer)
    return cluster_size


async def read_cluster_sizes(settings: Settings) -> tuple[ClusterSize, ClusterSize]:
    """The shards now, and once a resolver has answered all asks. Raises SpotsieveError."""
    await _partitions(settings)
    topic, asks = (TopicPartition(name, 0) for name in (settings.topics.verdicts, settings.topics.matches))
    async with RangeReader(settings, {}, STEP) as asking:
        spans = await asking.held([topic, asks])
    told = await _verdicts(settings, topic, spans[topic])
    cluster_size, (begin, end) = cluster_size_of(told), spans[asks]
    # A resolver that takes over listens from the answers to the newest round on; it has dealt with all before.
    first = max(begin, cluster_size.answered, _newest_answers(told).get(0, 0))
    # A topic that ends before was made anew.
    said = await _read(settings, {asks: (first if first <= end else begin, end)}, is_strict=False)
    return cluster_size, cluster_size_after(cluster_size.over(end), said[asks])


async def read_ends(settings: Settings, now_ms: int) -> TopicEnds:
    """Read the ends of all topics. now_ms: Unix time. Raises SpotsieveError."""
    partitions = await _partitions(settings)
    topics = settings.topics
    log, verdicts = TopicPartition(topics.log, 0), TopicPartition(topics.verdicts, 0)
    matches = [TopicPartition(topics.matches, number) for number in range(partitions["matches"])]
    pages = [TopicPartition(topics.input, number) for number in range(partitions["input"])]
    async with RangeReader(settings, {}, STEP) as asking:
        spans = await asking.held([log, verdicts, *matches, *pages])
        told = await _verdicts(settings, verdicts, spans[verdicts])
        answers = _newest_answers(told)
        tails = {
            one: (max(first, min(end - MATCHES_TAIL, answers.get(one.partition, end))), end)
            for one, (first, end) in spans.items()
            if one in matches
        }
        if cluster_size_of(told).asked:
            since = await asking.offsets_at(matches, now_ms - FILLING_MS)
            tails = {one: (_earlier(first, since[one.partition]), end) for one, (first, end) in tails.items()}
    said = await _read(settings, tails, is_strict=False)
    members = await _members(settings, {one: spans[one] for one in pages})
    by_shard = {one.partition: said[one] for one in matches}
    return TopicEnds(spans[log][1], told, by_shard, members, scheme_in_scope(settings).bars is not None)


def _newest_answers(verdicts: Sequence[TimedMessage]) -> dict[int, int]:
    """By partition of `matches`, from where on the answers to the newest round stand."""
    named = [said.heard.named() for said in verdicts if said.heard.told.kind == KIND_RANGE]
    return dict(enumerate(named[-1].answers)) if named else {}


def _earlier(first: int, since: int | None) -> int:
    return first if since is None else min(first, since)


async def _partitions(settings: Settings) -> dict[str, int]:
    """How many partitions the topics have, by role. Raises SettingError where one is missing, BrokerError."""
    if not settings.cluster.shards:
        raise SettingError(
            "cluster.shards", "must be set: this configuration is of one process", None, "give that of the roles (-c)"
        )
    names = names_of(settings)
    facts = await topic_facts(settings, sorted(names.values()))
    for role, name in names.items():
        if name not in facts:
            raise SettingError(
                f"topics.{role}", "does not exist on the broker", name, "create it: `spotsieve topics create`"
            )
    return {role: facts[name].partitions for role, name in names.items()}


async def _verdicts(settings: Settings, topic: TopicPartition, span: tuple[int, int]) -> list[TimedMessage]:
    """The end of `verdicts`, with the last range in it where there is any."""
    (begin, end), tail = span, VERDICTS_TAIL
    while True:
        first = max(begin, end - tail)
        said = (await _read(settings, {topic: (first, end)}, is_strict=True))[topic]
        if first == begin or any(one.heard.told.kind == KIND_RANGE for one in said):
            return said
        tail *= 2


async def _read(settings: Settings, spans: Spans, is_strict: bool) -> dict[TopicPartition, list[TimedMessage]]:
    """The records of these ranges. is_strict: whether one that is none of ours is an error; else it is passed over"""
    digest = settings_digest(verdict_settings_text(settings))
    found = {partition: list[TimedMessage]() for partition in spans}
    async with RangeReader(settings, spans, STEP) as reader:
        async for fetched in reader.batches():
            for partition, records in fetched.items():
                for record in records:
                    try:
                        found[partition].append(_timed_message(record, digest))
                    except (DamagedRecord, SettingsMismatch, StateError):
                        if is_strict:
                            raise
    return found


def _timed_message(record: ConsumerRecord, digest: bytes) -> TimedMessage:
    told = decode_round_record(record.value or b"", digest, None, record.topic, record.offset)
    return TimedMessage(message_of(told, record), record.timestamp)


async def _members(settings: Settings, pages: Spans) -> ServiceMembers:
    """Ask the groups. Raises BrokerError where no broker answers."""
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
    at = {one: committed[one].offset if one in committed else -1 for one in pages}
    # The ends were read before.
    return ServiceMembers(
        workers, resolvers, sum(max(0, end - max(begin, at[one])) for one, (begin, end) in pages.items())
    )


async def _size_of(admin: AIOKafkaAdminClient, group: str) -> int | None:
    """How many members a group has; None where the broker does not tell."""
    try:
        (answer,) = await admin.describe_consumer_groups([group])
    except KafkaError:
        return None
    ((code, *_, members),) = [row[:6] for row in answer.groups]
    return None if code else len(members)
