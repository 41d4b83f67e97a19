"""Makes the records of `verdicts`: which round is next, without which pages, and what becomes of asks for shards.

Writes what the resolver says to `verdicts`: several records in one transaction, which fences an earlier resolver.

Keeps the resolver's part of a resize: who asks for other shards, and whether these are ready to take over.
"""

import asyncio
from collections.abc import Iterator, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

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
"""A shard that was silent for so long is not handed the rounds: it tells every second that it is ready."""


class ResizeState:
    """What was asked for and told, in the order of `matches`."""

    def __init__(self, cluster_size: ClusterSize, old: Sequence[int] = ()) -> None:
        """cluster_size: as `verdicts` has it  old: by partition, who was ready before this offset may be gone"""
        self.cluster_size = cluster_size
        self._old = old
        self._asks = list[tuple[int, int]]()
        self._ready = dict[int, float]()

    def hear(self, heard: RoundMessage, now: float) -> None:
        """Take in a record of `matches`. now: seconds of a clock that only goes on"""
        told = heard.told
        if told.kind == KIND_REQUEST and not told.share.number:
            self._asks.append((heard.offset, heard.ask()))
        elif (
            told.kind == KIND_FILL_PROGRESS and told.share.shards == self.cluster_size.asked and not self._is_old(heard)
        ):
            if heard.filled().ready:
                self._ready[told.share.number] = now
            else:
                self._ready.pop(told.share.number, None)

    def answers(self) -> Iterator[Resize]:
        """What is to be said to the asks since the last call. The sizing is then that behind these words."""
        asks, self._asks = self._asks, []
        for offset, wanted in asks:
            said = self.cluster_size.answer(wanted, offset)
            if said is None:
                continue
            self._ready.clear()
            self.cluster_size = self.cluster_size.told(self.cluster_size.shards, said)
            if said.change == ResizeEvent.ASKED:
                logger().info("a resize begins: the new shards are waited for", shards=said.shards)
            else:
                logger().info("the resize is cancelled", shards=said.shards)
            yield said

    def due(self, now: float) -> bool:
        """Whether all shards that were asked for have said of late that they are ready."""
        ready = [number for number, at in self._ready.items() if now - at <= READY_SECONDS]
        return 0 < self.cluster_size.asked == len(ready)

    def switch(self) -> Resize:
        """Let the shards that were asked for take over; -> what is to be said."""
        said, before = self.cluster_size.switch(), self.cluster_size.shards
        self.cluster_size = self.cluster_size.told(said.shards, said)
        self._ready.clear()
        logger().info("the new shards take over", shards=said.shards, before=before)
        return said

    def _is_old(self, heard: RoundMessage) -> bool:
        number = heard.told.share.number
        return number < len(self._old) and heard.offset < self._old[number]


class ResolverRecords:
    """The records that one resolver writes. resizing: what it knows of other shards"""

    def __init__(self, settings: Settings, rounds: RoundReader, naming: RoundPlanner) -> None:
        self._digest = settings_digest(verdict_settings_text(settings))
        self._setting = settings.cluster.shards
        self._rounds, self._naming = rounds, naming
        self.resizing = ResizeState(ClusterSize())

    def begin_with(self, cluster_size: ClusterSize, ends: list[int]) -> None:
        """Speak for these shards. ends: of the partitions of `matches`, now"""
        self.resizing = ResizeState(cluster_size, ends)
        if cluster_size.shards != self._setting:
            logger().warning(
                "cluster.shards is not what verdicts says, which counts; set it, or ask for another number "
                "(spotsieve shards resize)",
                setting=self._setting,
                shards=cluster_size.shards,
            )

    def record(self, kind: int, range_: RoundRange, body: bytes) -> bytes:
        """A record about a round."""
        return encode_round_record(kind, self._digest, Share(0, self.resizing.cluster_size.shards), range_, body)

    def resize(self, said: Resize) -> bytes:
        """The record of what becomes of an ask."""
        return self.record(KIND_RESIZE, self._naming.here(), write_resize(said))

    def broken(self, opened: OpenRound) -> bytes:
        """The record of the pages that the open round goes on without."""
        return self.record(KIND_POISON_ROWS, opened.range, poison_body(opened.round, opened.errors))

    async def answer_asks(self) -> list[bytes]:
        """What becomes of asks for other shards. Who is to take over is listened to from now on."""
        said = [self.resize(one) for one in self.resizing.answers()]
        if said:
            await self._rounds.read_matches_of(self.resizing.cluster_size.most)
        return said

    async def from_now_on(self, named: RoundAnnouncement) -> RoundAnnouncement:
        """The same, with answers that stand behind what was read of `matches` by now."""
        return named._replace(answers=await self._rounds.matches_positions())

    async def name(self, opened: OpenRound) -> list[bytes]:
        """The records that name a round whose answers stand behind what was read of `matches` by now.

        A resize that is under way is told behind it: who looks at the end of `verdicts` alone must come to know of it.
        The pages that it spares are told once more, for the same reason.
        """
        opened.named = await self.from_now_on(opened.named)
        # Asks that were read up to these positions are answered here, or the next resolver would not hear of them.
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
        """Fence the resolver before, and end its open transaction. Raises KafkaError."""
        # By the topic: a resolver whose kafka.group_id is misspelt must not write beside another one.
        self._producer = output_producer(self._settings, f"{self._settings.topics.verdicts}:resolver")
        await self._producer.start()

    async def publish(self, *records: bytes) -> None:
        """Write records, all or none; there may be none. Raises BrokerTrouble where that failed or nobody knows."""
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
            raise BrokerTrouble("resolver", "had no answer to a commit in time; it begins anew") from None

    async def close(self) -> None:
        """End the connections."""
        if self._producer is not None:
            await stop_client(self._producer)
