"""Reads what shards and the resolver tell each other: the topics of verdicts and of matches.

Finds where `verdicts` ends: what a resolver that takes over goes on with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock
from spotsieve.stream.base.errors import BrokerTrouble, DamagedRecord, SettingsMismatch, SpotsieveError, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import round_consumer, stop_client
from spotsieve.stream.kafka.driver.consumers import check_alive
from spotsieve.stream.kafka.errors import Decision, decision, final_error
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_REQUEST,
    KIND_RESIZE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    ColumnReader,
    RoundRange,
    RoundRecord,
    check_shards,
    decode_body,
    decode_round_record,
)
from spotsieve.stream.sharding.records.resolver import (
    PoisonRows,
    RoundAnnouncement,
    read_announcement,
    read_fill_progress,
    read_outcome,
    read_poison_rows,
    read_request,
    read_resize,
    read_speculation,
)
from spotsieve.stream.sharding.records.shard import read_candidates, read_confirmations, read_resolutions
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Resize

FETCH_TIMEOUT_MS = 500
CHECKSUM_BYTES = 8
MAKE_ANEW = (
    "make both topics anew (spotsieve topics create) and start every shard with an empty state directory: the log "
    "gives them again"
)


Decoded = TypeVar("Decoded")


@dataclass(frozen=True)
class RoundMessage:
    """A record about a round, and where it stood. checksum: its own, which tells it from others

    What answers say is decoded once; it is to be read alone.
    """

    told: RoundRecord
    topic: str
    offset: int
    checksum: int

    @cached_property
    def shard_candidates(self) -> ShardCandidates:
        """What a shard met. Raises DamagedRecord, as the others do."""
        return self._body(KIND_CANDIDATES, lambda columns: read_candidates(columns, self.told.range.first_number))

    @cached_property
    def confirms(self) -> ShardConfirmations:
        """What a shard says of the entries that it holds."""
        return self._body(KIND_CONFIRMATIONS, lambda columns: read_confirmations(columns, self.told.range.first_number))

    @cached_property
    def walks(self) -> tuple[HostResolutions, NDArray[np.bool_]]:
        """What a shard found of the pages of its hosts, and the guess that this rests on."""
        return self._body(KIND_RESOLUTIONS, lambda columns: read_resolutions(columns, self.told.range.first_number))

    def outcome(self) -> RoundOutcome:
        """The outcome of a round."""
        return self._body(KIND_OUTCOME, lambda columns: read_outcome(columns, self.told.range.first_number))

    def named(self) -> RoundAnnouncement:
        """What is said of a round that is next."""
        return self._body(KIND_RANGE, lambda columns: read_announcement(columns, self.told.range.start.record))

    def speculation(self) -> NDArray[np.bool_]:
        """The guess under which shards walk once more."""
        return self._body(KIND_SPECULATION, read_speculation)

    def resize(self) -> Resize:
        """What the resolver says of another number of shards."""
        return self._body(KIND_RESIZE, read_resize)

    def ask(self) -> int:
        """How many shards somebody asks for; 0: for an end of the resize."""
        return self._body(KIND_REQUEST, read_request)

    def filled(self) -> FillProgress:
        """How far a shard has filled itself."""
        return self._body(KIND_FILL_PROGRESS, read_fill_progress)

    def broken(self) -> PoisonRows:
        """Which pages of a round break the code."""
        return self._body(KIND_POISON_ROWS, read_poison_rows)

    def cluster_size(self, before: ClusterSize) -> ClusterSize:
        """The shards behind this record of `verdicts`. before: those before it"""
        if self.told.kind not in (KIND_RANGE, KIND_RESIZE):
            return before
        return before.told(self.told.share.shards, self.resize() if self.told.kind == KIND_RESIZE else None)

    def _body(self, kind: int, read: Callable[[ColumnReader], Decoded]) -> Decoded:
        return decode_body(self.told, kind, read, self.topic, self.offset)


class RoundReader:
    """The consumer of one reader of rounds. It has no group: who reads knows where to go on."""

    def __init__(self, settings: Settings, waits: Waits, shards: int | None = None) -> None:
        """shards: the answers of so many are read, and no others; None: those of read_matches_of()"""
        self._settings = settings
        self._waits = waits
        self._digest = settings_digest(verdict_settings_text(settings))
        self._shards = shards
        self._backoff = Backoff()
        self._verdicts = TopicPartition(settings.topics.verdicts, 0)
        self._matches = [TopicPartition(settings.topics.matches, number) for number in range(shards or 0)]
        self._consumer: AIOKafkaConsumer = round_consumer(settings)
        self._passed = False

    async def start(self) -> None:
        """Connect. Nothing is read before the seeks. Raises KafkaError."""
        await self._consumer.start()
        assigned = [self._verdicts, *self._matches]
        self._consumer.assign(assigned)
        for partition in assigned:
            # Otherwise aiokafka would look for a place to begin at, and there is none.
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._consumer)

    async def read_matches_of(self, shards: int) -> None:
        """Read what so many shards say: of those that were not read before, from now on.

        Raises BrokerTrouble where the broker does not know so many partitions, and KafkaError.
        """
        before = [self._verdicts, *self._matches]
        positions = {one: await self._consumer.position(one) for one in before}
        paused = self._consumer.paused()
        self._matches = [TopicPartition(self._settings.topics.matches, number) for number in range(shards)]
        added = [one for one in self._matches if one not in positions]
        try:
            positions |= await self._consumer.end_offsets(added) if added else {}
        except KafkaTimeoutError:
            raise BrokerTrouble(
                f"topics.matches {self._settings.topics.matches!r}",
                f"must have {shards} partitions, as many as verdicts tells of shards, and the broker knows fewer",
                None,
                "add partitions, or make it anew with cluster.shards set to that",
            ) from None
        assigned = [self._verdicts, *self._matches]
        self._consumer.assign(assigned)
        for partition in assigned:
            self._consumer.seek(partition, positions[partition])
            if partition in paused:
                self._consumer.pause(partition)

    async def verdicts_span(self) -> tuple[int, int]:
        """The first offset that `verdicts` holds, and the one behind the last that is committed. Raises KafkaError."""
        begin = (await self._consumer.beginning_offsets([self._verdicts]))[self._verdicts]
        end = (await self._consumer.end_offsets([self._verdicts]))[self._verdicts]
        return int(begin), int(end)

    async def matches_spans(self) -> list[tuple[int, int]]:
        """By shard, the first offset that its partition holds, and the one behind the last. Raises KafkaError."""
        begins = await self._consumer.beginning_offsets(self._matches)
        ends = await self._consumer.end_offsets(self._matches)
        return [(int(begins[one]), int(ends[one])) for one in self._matches]

    def seek_verdicts(self, offset: int) -> None:
        """Read `verdicts` from this offset on."""
        self._consumer.seek(self._verdicts, offset)
        self._consumer.resume(self._verdicts)

    def seek_matches(self, offsets: Sequence[int]) -> None:
        """Read the answers of each shard from its offset on. offsets: of all shards that are read, or of more"""
        for partition, offset in zip(self._matches, offsets[: len(self._matches)], strict=True):
            self._consumer.seek(partition, offset)
            self._consumer.resume(partition)

    async def verdicts_position(self) -> int:
        """The next offset of `verdicts`; it passes the markers of transactions."""
        position: int = await self._consumer.position(self._verdicts)
        return position

    async def matches_positions(self) -> tuple[int, ...]:
        """By shard, the next offset of its answers."""
        return tuple([int(await self._consumer.position(one)) for one in self._matches])

    async def fetch(self) -> list[RoundMessage]:
        """The next records, those of a partition in their order; none after a wait of FETCH_TIMEOUT_MS.

        Raises StateError for a record of `verdicts` that is damaged or of another cluster, and where one that is needed
        is gone.
        """
        try:
            fetched = await self._consumer.getmany(timeout_ms=FETCH_TIMEOUT_MS)
        except KafkaError as error:
            if isinstance(error, OffsetOutOfRangeError):
                raise self._gone(error) from None
            if decision(error) is not Decision.RETRY:
                raise final_error(error, self._settings, "reading the rounds") from None
            self._waits.failed("rounds", error)
            await self._backoff.wait()
            return []
        self._waits.over("rounds")
        self._backoff.reset()
        if not fetched:
            check_alive(self._consumer)
        found = list[RoundMessage]()
        for partition in sorted(fetched):
            found += filter(None, map(self._read, fetched[partition]))
        return found

    def _gone(self, error: OffsetOutOfRangeError) -> SpotsieveError:
        """What follows from records that are no longer there. Answers are given once more; verdicts are not."""
        if all(partition.topic == self._settings.topics.matches for partition in error.args[0]):
            return BrokerTrouble("topics.matches", "lost answers that were to be read; the round is answered once more")
        return StateError(
            f"topics.verdicts {self._settings.topics.verdicts!r}",
            "must hold what comes next, and was made anew, or its retention is too short",
            None,
            f"bring the topic back; or {MAKE_ANEW}",
        )

    def _read(self, record: ConsumerRecord) -> RoundMessage | None:
        """Read a record; None for one of `matches` that is no answer of this cluster, or is to other readers."""
        value: bytes = record.value or b""
        is_verdict = record.topic == self._verdicts.topic
        try:
            told = decode_round_record(value, self._digest, None, record.topic, record.offset)
            # The resolver says how many shards there are; who answers as one of others counts for nothing.
            if not is_verdict and self._shards not in (None, told.share.shards):
                if told.kind not in (KIND_REQUEST, KIND_FILL_PROGRESS):
                    check_shards(told.share, self._shards, record.topic, record.offset)
                # While a resize is under way, those to come tell the resolver here how far they are.
                return None
        except (DamagedRecord, SettingsMismatch, StateError) as error:
            if is_verdict:
                raise
            # A stranger's record counts as no answer, and must not stop all who read. Its writer was told on its start.
            if not self._passed:
                self._passed = True
                logger().warning("passed over a record that is no answer of this cluster", error=str(error))
            return None
        if not is_verdict and told.share.number != record.partition:
            return None
        return message_of(told, record)


def message_of(told: RoundRecord, record: ConsumerRecord) -> RoundMessage:
    """What was read of a record, with where it stood."""
    checksum = int.from_bytes((record.value or b"")[-CHECKSUM_BYTES:], "little")
    return RoundMessage(told, record.topic, record.offset, checksum)


def are_responses_lost(answers: Sequence[int], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether answers to a round are gone from `matches`: who begins in its middle would wait for them for ever."""
    return any(at != heard for at, heard in zip(answers, response_offsets(answers, spans), strict=False))


def response_offsets(answers: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """From where on each partition of `matches` is read for these answers.

    Those that are gone are passed over. A topic that ends before them was made anew, and is read whole.
    """
    return [at if first <= at <= last else first for at, (first, last) in zip(answers, spans, strict=False)]


TAIL = 64
"""So many offsets are looked at first; a round takes four or more."""


class RoundsEnd(NamedTuple):
    """Where all rounds that are over end, and the one that is not. speculation: under which its shards walk, None:
    the first

    broken: the pages that it goes on without, by row, with the texts of their errors

    place, next_number: behind the last round that is over  clock: of that round, or of the open one
    cluster_size: the shards now
    answers: by shard, up to where `matches` was read when the last round was named
    last_record: checksum of the last record that ended rounds have pages of; None where a round is open, since the
    records of that one are compared
    """

    place: LogPlace
    clock: Clock
    next_number: int
    open: tuple[RoundRange, RoundAnnouncement] | None
    speculation: NDArray[np.bool_] | None
    cluster_size: ClusterSize = ClusterSize()
    answers: tuple[int, ...] = ()
    broken: Mapping[int, str] = MappingProxyType({})
    last_record: int | None = None


async def find_end(reader: RoundReader, topic: str) -> RoundsEnd:
    """Read the last rounds of `verdicts`. Raises StateError where it holds none although it has begun, KafkaError."""
    begin, end = await reader.verdicts_span()
    told, first = list[RoundMessage](), end
    while first > begin:
        first = max(begin, end - max(TAIL, 2 * (end - first)))
        reader.seek_verdicts(first)
        told = []
        while await reader.verdicts_position() < end:
            told += [one for one in await reader.fetch() if one.topic == topic]
        if any(one.told.kind == KIND_RANGE for one in told):
            return _end_of(told)
    if begin:
        raise StateError(
            f"topics.verdicts {topic!r}", "must hold the last round, and its retention has removed it", None, MAKE_ANEW
        )
    return RoundsEnd(LogPlace(0, 0), Clock(), 0, None, None, _cluster_size_of(told))


def _end_of(told: list[RoundMessage]) -> RoundsEnd:
    at = max(number for number, one in enumerate(told) if one.told.kind == KIND_RANGE)
    range_, named, cluster_size = told[at].told.range, told[at].named(), _cluster_size_of(told[at:])
    clock, speculation, broken = Clock(range_.watermark_ms, named.marks), None, dict[int, str]()
    for one in told[at + 1 :]:
        if one.told.kind == KIND_POISON_ROWS:
            # The shards walk anew, under their first guess.
            broken, speculation = dict(one.broken().errors), None
        elif one.told.kind == KIND_SPECULATION:
            speculation = one.speculation()
        elif one.told.kind == KIND_OUTCOME:
            resolved = one.outcome()
            return RoundsEnd(
                range_.end,
                clock,
                resolved.next_number,
                None,
                None,
                cluster_size,
                named.answers,
                last_record=named.last_record,
            )
    return RoundsEnd(
        range_.start, clock, range_.first_number, (range_, named), speculation, cluster_size, named.answers, broken
    )


def _cluster_size_of(told: list[RoundMessage]) -> ClusterSize:
    """The shards behind these records, of which the first one is the last range where there is any."""
    cluster_size = ClusterSize()
    for one in told:
        cluster_size = one.cluster_size(cluster_size)
    return cluster_size
