"""Makes and publishes the records of `verdicts`: announcements, excluded pages, speculations, outcomes and resizes.

Publisher writes several records in one transaction, whose producer fences an earlier resolver. ResizeState keeps the
resize requests and the shards that are ready to take over.
"""

import asyncio
from collections.abc import Iterator, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import NO_LOG
from spotsieve.stream.base.errors import BrokerTrouble
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import output_producer, stop_client
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.roles.resolver.rounds import OpenRound, RoundPlanner
from spotsieve.stream.service.roles.responses import poison_body
from spotsieve.stream.service.roles.round_messages import RoundMessage, RoundReader
from spotsieve.stream.sharding.records.frame import (
    KIND_FILL_PROGRESS,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_REQUEST,
    KIND_RESIZE,
    RoundRange,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import RoundAnnouncement, write_announcement, write_resize
from spotsieve.stream.sharding.shares import ClusterSize, Resize, ResizeEvent, Share

READY_SECONDS = 10.0
"""A shard counts as ready for this time after its last report. Ready shards report every second."""


class ResizeState:
    """Resize requests and ready shards, in the order of `matches`."""

    def __init__(self, cluster_size: ClusterSize, old: Sequence[int] = ()) -> None:
        """cluster_size: from `verdicts`

        old: by partition, the offset before which a report of readiness is outdated
        """
        self.cluster_size = cluster_size
        self._old = old
        self._asks = list[tuple[int, int]]()
        self._ready = dict[int, float]()

    def hear(self, message: RoundMessage, now: float) -> None:
        """Process a record of `matches`. now: monotonic time in seconds"""
        record = message.told
        if record.kind == KIND_REQUEST and not record.share.number:
            self._asks.append((message.offset, message.ask()))
        elif (
            record.kind == KIND_FILL_PROGRESS
            and record.share.shards == self.cluster_size.asked
            and not self._is_old(message)
        ):
            if message.filled().ready:
                self._ready[record.share.number] = now
            else:
                self._ready.pop(record.share.number, None)

    def answers(self) -> Iterator[Resize]:
        """Yield the responses to resize requests since the last call, and apply them to cluster_size."""
        asks, self._asks = self._asks, []
        for offset, wanted in asks:
            step = self.cluster_size.answer(wanted, offset)
            if step is None:
                continue
            self._ready.clear()
            self.cluster_size = self.cluster_size.told(self.cluster_size.shards, step)
            if step.change == ResizeEvent.ASKED:
                logger().info("a resize begins; it waits until the new shards are ready", shards=step.shards)
            else:
                logger().info("the resize was cancelled on request", shards=step.shards)
            yield step

    def due(self, now: float) -> bool:
        """Whether all requested shards have reported readiness within READY_SECONDS."""
        ready = [number for number, at in self._ready.items() if now - at <= READY_SECONDS]
        return 0 < self.cluster_size.asked == len(ready)

    def switch(self) -> Resize:
        """Let the requested shards take over. Returns the record content that says so."""
        step, before = self.cluster_size.switch(), self.cluster_size.shards
        self.cluster_size = self.cluster_size.told(step.shards, step)
        self._ready.clear()
        logger().info("the resize ends: the new shards take over", shards=step.shards, before=before)
        return step

    def _is_old(self, message: RoundMessage) -> bool:
        number = message.told.share.number
        return number < len(self._old) and message.offset < self._old[number]


class ResolverRecords:
    """Makes the records of one resolver. resizing: state of a resize"""

    def __init__(self, settings: Settings, rounds: RoundReader, naming: RoundPlanner) -> None:
        self._digest = settings_digest(verdict_settings_text(settings))
        self._setting = settings.cluster.shards
        self._rounds, self._naming = rounds, naming
        self.resizing = ResizeState(ClusterSize())

    def begin_with(self, cluster_size: ClusterSize, ends: list[int]) -> None:
        """Set the shards of the cluster. ends: present end offsets of the partitions of `matches`"""
        self.resizing = ResizeState(cluster_size, ends)
        if cluster_size.shards != self._setting:
            logger().warning(
                "cluster.shards differs from the number of shards in the topic verdicts, which applies; change the "
                "setting, or request a resize (spotsieve shards resize)",
                setting=self._setting,
                shards=cluster_size.shards,
            )

    def record(self, kind: int, range_: RoundRange, body: bytes) -> bytes:
        """Encode a record about a round. The reader of the rounds must know the log (identify)."""
        share = Share(0, self.resizing.cluster_size.shards)
        return encode_round_record(kind, self._digest, share, range_, body, self._rounds.log or NO_LOG)

    def resize(self, step: Resize) -> bytes:
        """Encode the response to a resize request."""
        return self.record(KIND_RESIZE, self._naming.here(), write_resize(step))

    def broken(self, opened: OpenRound) -> bytes:
        """Encode the record of the pages that are excluded from the open round."""
        return self.record(KIND_POISON_ROWS, opened.range, poison_body(opened.round, opened.errors))

    async def answer_asks(self) -> list[bytes]:
        """The responses to new resize requests. From now on, the messages of the requested shards are read."""
        step = [self.resize(one) for one in self.resizing.answers()]
        if step:
            await self._rounds.read_matches_of(self.resizing.cluster_size.most)
        return step

    async def from_now_on(self, named: RoundAnnouncement) -> RoundAnnouncement:
        """The announcement with the present read positions of `matches` as the first offsets of its responses."""
        return named._replace(answers=await self._rounds.matches_positions())

    async def name(self, opened: OpenRound) -> list[bytes]:
        """The records that announce a round. Its responses follow the present read positions of `matches`.

        A pending resize and the excluded pages are repeated after the announcement, because a new resolver reads only
        the end of `verdicts`.
        """
        opened.named = await self.from_now_on(opened.named)
        # Requests before these positions get their response here, because the next resolver does not read them.
        resizes = await self.answer_asks()
        pending = self.resizing.cluster_size.pending()
        if pending is not None:
            resizes.append(self.resize(pending))
        broken = [self.broken(opened)] if opened.errors else []
        return [self.record(KIND_RANGE, opened.range, write_announcement(opened.named)), *resizes, *broken]


class Publisher:
    """The transactional producer of one resolver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Fence the previous resolver, and end its open transaction. Raises KafkaError."""
        # The id contains the topic, so that a resolver with a wrong kafka.group_id cannot write beside another one.
        self._producer = output_producer(self._settings, f"{self._settings.topics.verdicts}:resolver")
        await self._producer.start()

    async def publish(self, *records: bytes) -> None:
        """Write records in one transaction. Raises BrokerTrouble if it failed or its outcome is unknown."""
        producer, topic = self._producer, self._settings.topics.verdicts
        assert producer is not None
        if not records:
            return
        try:
            async with asyncio.timeout(self._settings.kafka.transaction_timeout_ms / 1000):
                await producer.begin_transaction()
                for sent in [await producer.send(topic, record, partition=0) for record in records]:
                    await sent
                await producer.commit_transaction()
        except KafkaError as error:
            raise final_error(error, self._settings, "publishing verdicts") from error
        except TimeoutError:
            raise BrokerTrouble(
                "resolver", "got no response to a commit in time; it restarts with new clients"
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            await stop_client(self._producer)
