"""Reads the messages between shards and resolver: the topics `verdicts` and `matches`.

find_end() reads the end of `verdicts`, from which a resolver that takes over continues.
"""

from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.format.meta import NO_LOG, LogIdentity
from spotsieve.state.identity import OtherLogError
from spotsieve.stream.base.errors import BrokerTrouble, DamagedRecord, SettingsMismatch, SpotsieveError, StateError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import round_consumer, stop_client
from spotsieve.stream.kafka.driver.clients import check_alive
from spotsieve.stream.kafka.errors import Decision, decision, final_error
from spotsieve.stream.kafka.ranges import partitions_of
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.log.skips import log_identity
from spotsieve.stream.sharding.messages import RECREATE_TOPICS, RoundMessage, RoundsEnd, end_of
from spotsieve.stream.sharding.records.frame import (
    KIND_FILL_PROGRESS,
    KIND_RANGE,
    KIND_REQUEST,
    RoundRecord,
    check_shards,
    decode_round_record,
    log_of,
)

FETCH_TIMEOUT_MS = 500
CHECKSUM_BYTES = 8
CHECKED_OFFSETS = 8
"""Number of last offsets of each topic that a role reads at its start, to find records about another log."""


class RoundReader:
    """The consumer of one reader of rounds. It has no group: the reader keeps its position."""

    def __init__(self, settings: Settings, waits: Waits, shards: int | None = None) -> None:
        """shards: read the responses of this number of shards only; None: see read_matches_of()"""
        self._settings = settings
        self._waits = waits
        self._digest = digest_of_settings(settings)
        self._shards = shards
        self._backoff = Backoff()
        self._verdicts = TopicPartition(settings.topics.verdicts, 0)
        self._matches = partitions_of(settings.topics.matches, shards or 0)
        self._consumer: AIOKafkaConsumer = round_consumer(settings)
        self._passed = False
        self.log: LogIdentity | None = None
        """The log that all records must be about; None: identify() finds it when it is first needed"""

    async def start(self) -> None:
        """Connect. Reading begins with a seek. Raises KafkaError."""
        await self._consumer.start()
        assigned = [self._verdicts, *self._matches]
        self._consumer.assign(assigned)
        for partition in assigned:
            # Without a seek, aiokafka would query a committed offset, and there is none.
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._consumer)

    async def identify(self, seen: Sequence[bytes] = ()) -> LogIdentity:
        """The log that all records must be about: by its first record, or if that is gone, by a record of a round.

        seen: records of rounds  Raises OtherLogError if the log is empty, BrokerError, BrokerTrouble.
        """
        if self.log is None:
            place = f"topics.verdicts {self._settings.topics.verdicts!r} or topics.matches"
            found = await log_identity(self._settings, place)
            self.log = next(filter(None, map(log_of, seen)), NO_LOG) if found is None else found
        return self.log

    async def check_last(self) -> None:
        """Check that the last records of the topics are about this log, before this role writes anything.

        Reading must begin with a seek afterwards. Raises OtherLogError, KafkaError.
        """
        partitions = [self._verdicts, *self._matches]
        begins = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        for partition in partitions:
            self._consumer.seek(partition, max(begins[partition], ends[partition] - CHECKED_OFFSETS))
            self._consumer.resume(partition)
        while any([await self._consumer.position(one) < ends[one] for one in partitions]):
            await self.fetch()
        self._consumer.pause(*partitions)

    async def read_matches_of(self, shards: int) -> None:
        """Read the messages of this number of shards, for newly added shards from the present end on.

        Raises BrokerTrouble if the topic has fewer partitions, and KafkaError.
        """
        before = [self._verdicts, *self._matches]
        positions = {one: await self._consumer.position(one) for one in before}
        paused = self._consumer.paused()
        self._matches = partitions_of(self._settings.topics.matches, shards)
        added = [one for one in self._matches if one not in positions]
        try:
            positions |= await self._consumer.end_offsets(added) if added else {}
        except KafkaTimeoutError:
            raise BrokerTrouble(
                f"topics.matches {self._settings.topics.matches!r}",
                f"must have {shards} partitions, one per shard in the topic verdicts, but has fewer",
                None,
                f"add partitions, or recreate the topic with cluster.shards = {shards}",
            ) from None
        assigned = [self._verdicts, *self._matches]
        self._consumer.assign(assigned)
        for partition in assigned:
            self._consumer.seek(partition, positions[partition])
            if partition in paused:
                self._consumer.pause(partition)

    async def verdicts_span(self) -> tuple[int, int]:
        """First offset of `verdicts`, and its end for committed records. Raises KafkaError."""
        begin = (await self._consumer.beginning_offsets([self._verdicts]))[self._verdicts]
        end = (await self._consumer.end_offsets([self._verdicts]))[self._verdicts]
        return int(begin), int(end)

    async def matches_spans(self) -> list[tuple[int, int]]:
        """By shard, first offset and end of its partition of `matches`. Raises KafkaError."""
        begins = await self._consumer.beginning_offsets(self._matches)
        ends = await self._consumer.end_offsets(self._matches)
        return [(int(begins[one]), int(ends[one])) for one in self._matches]

    def seek_verdicts(self, offset: int) -> None:
        """Read `verdicts` from this offset on."""
        self._consumer.seek(self._verdicts, offset)
        self._consumer.resume(self._verdicts)

    def seek_matches(self, offsets: Sequence[int]) -> None:
        """Read the responses of each shard from its offset on. offsets: at least one per shard"""
        for partition, offset in zip(self._matches, offsets[: len(self._matches)], strict=True):
            self._consumer.seek(partition, offset)
            self._consumer.resume(partition)

    async def verdicts_position(self) -> int:
        """The next offset of `verdicts`. It moves past transaction markers."""
        position: int = await self._consumer.position(self._verdicts)
        return position

    async def matches_positions(self) -> tuple[int, ...]:
        """By shard, the next offset of its responses."""
        return tuple([int(await self._consumer.position(one)) for one in self._matches])

    async def fetch(self) -> list[RoundMessage]:
        """The next records, in order per partition; none after a wait of FETCH_TIMEOUT_MS.

        Raises StateError if a record of `verdicts` is damaged, belongs to another cluster, or is gone.
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
        if fetched and self.log is None:
            await self.identify([record.value or b"" for records in fetched.values() for record in records])
        for partition in sorted(fetched):
            found += filter(None, map(self._read, fetched[partition]))
        return found

    def _gone(self, error: OffsetOutOfRangeError) -> SpotsieveError:
        """The error for lost records. Shards repeat responses; verdicts cannot be repeated."""
        if all(partition.topic == self._settings.topics.matches for partition in error.args[0]):
            return BrokerTrouble(
                "topics.matches", "lost responses that were not read yet; the round is announced again"
            )
        return StateError(
            f"topics.verdicts {self._settings.topics.verdicts!r}",
            "no longer holds the next record: the topic was recreated, or its retention is too short",
            None,
            f"restore the topic; or {RECREATE_TOPICS}",
        )

    def _read(self, record: ConsumerRecord) -> RoundMessage | None:
        """Decode a record. Returns None for a record of `matches` from another cluster or for other readers.

        Raises OtherLogError for a record about another log, in both topics.
        """
        value: bytes = record.value or b""
        is_verdict = record.topic == self._verdicts.topic
        try:
            decoded = decode_round_record(value, self._digest, None, record.topic, record.offset, self.log)
            # Only the resolver sets the number of shards. Responses of a cluster with another number are ignored.
            if not is_verdict and self._shards not in (None, decoded.share.shards):
                if decoded.kind not in (KIND_REQUEST, KIND_FILL_PROGRESS):
                    check_shards(decoded.share, self._shards, record.topic, record.offset)
                # During a resize, future shards report their fill progress to the resolver here.
                return None
        except (DamagedRecord, SettingsMismatch, StateError) as error:
            if is_verdict or isinstance(error, OtherLogError):
                raise
            # A foreign record is not a response, and must not stop all readers. Its writer got an error at its start.
            if not self._passed:
                self._passed = True
                logger().warning(
                    "skipped a record of the topic matches that does not belong to this cluster; find out which "
                    "program writes to it",
                    error=str(error),
                )
            return None
        if not is_verdict and decoded.share.number != record.partition:
            return None
        return message_of(decoded, record)


def message_of(decoded: RoundRecord, record: ConsumerRecord) -> RoundMessage:
    """A decoded record with its topic, offset and checksum."""
    checksum = int.from_bytes((record.value or b"")[-CHECKSUM_BYTES:], "little")
    return RoundMessage(decoded, record.topic, record.offset, checksum, record.timestamp)


TAIL = 64
"""Number of offsets that are read first. A round takes four offsets or more."""


async def find_end(reader: RoundReader, topic: str) -> RoundsEnd:
    """Read the last rounds of `verdicts`. Raises KafkaError, and StateError if retention removed the last round."""
    begin, end = await reader.verdicts_span()
    messages, first = list[RoundMessage](), end
    while first > begin:
        first = max(begin, end - max(TAIL, 2 * (end - first)))
        reader.seek_verdicts(first)
        messages = []
        while await reader.verdicts_position() < end:
            messages += [message for message in await reader.fetch() if message.topic == topic]
        if any(message.record.kind == KIND_RANGE for message in messages):
            return end_of(messages)
    if begin:
        raise StateError(
            f"topics.verdicts {topic!r}",
            "no longer holds the last round, because its retention removed it",
            None,
            RECREATE_TOPICS,
        )
    return end_of(messages)
