"""Owns the proof that a commit without an answer holds nothing up once its partition is handed over."""

import asyncio
from collections import Counter
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ProducerFenced
from aiokafka.structs import ConsumerRecord

from stream.config import Settings
from stream.service.commit import Committer
from stream.service.metrics import Metrics
from stream.service.microbatch import MicroBatch, micro_batches
from stream.service.outputs import OutputBuilder, Outputs
from stream.service.partitions import OwnedPartition, Partitions

PARTITION = TopicPartition("pages", 0)


class SilentProducer:
    """A producer that was stopped in the middle of a transaction: aiokafka never answers what waits for it."""

    def __init__(self, sends_offsets: bool = True) -> None:
        self._sends_offsets = sends_offsets

    async def begin_transaction(self) -> None:
        pass

    async def send_batch(self, *_: object, **__: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def send_offsets_to_transaction(self, *_: object) -> None:
        if not self._sends_offsets:
            raise ProducerFenced

    async def commit_transaction(self) -> None:
        await asyncio.Event().wait()


class OneBatch:
    """Builds one batch of anything."""

    def build(self, *_: object) -> Outputs:
        return Outputs([("pages.novel", 0, cast("Any", None))], Counter(), 0)


class Reopened:
    """Remembers which partitions were to be opened again."""

    def __init__(self) -> None:
        self.partitions: list[OwnedPartition] = []

    def reopen(self, owned: OwnedPartition) -> None:
        owned.epoch += 1
        self.partitions.append(owned)


def batch_of(owned: OwnedPartition) -> MicroBatch:
    message = ConsumerRecord("pages", 0, 7, 0, 0, None, b"{}", None, 0, 2, ())
    (batch,) = micro_batches({PARTITION: [message]}, {PARTITION: owned}, 512, 2**20)
    return batch


def committer_of(reopened: Reopened, finished: list[None]) -> Committer:
    consumer = cast("AIOKafkaConsumer", None)
    partitions, builder = cast("Partitions", reopened), cast("OutputBuilder", OneBatch())
    return Committer(Settings(), consumer, partitions, builder, Metrics(), lambda: finished.append(None))


@pytest.mark.timeout(10)
async def test_a_commit_that_is_never_answered_frees_its_batches_when_the_partition_is_handed_over() -> None:
    finished: list[None] = []
    reopened = Reopened()
    committer = committer_of(reopened, finished)
    owned = OwnedPartition(PARTITION)
    owned.producer = SilentProducer()
    for _ in range(3):
        committer.submit(batch_of(owned))
    await asyncio.sleep(0.05)
    assert not finished
    owned.epoch += 1
    owned.lost.set()
    await asyncio.sleep(0.05)
    assert len(finished) == 3
    assert await owned.drained(1)
    assert not reopened.partitions, "the next owner begins at the committed offset, not this one"
    assert not committer.failure.done()


@pytest.mark.timeout(10)
async def test_a_fenced_producer_reopens_the_partition_though_its_deliveries_are_never_answered() -> None:
    finished: list[None] = []
    reopened = Reopened()
    committer = committer_of(reopened, finished)
    owned = OwnedPartition(PARTITION)
    owned.producer = SilentProducer(sends_offsets=False)
    committer.submit(batch_of(owned))
    await asyncio.sleep(0.05)
    assert reopened.partitions == [owned]
    assert len(finished) == 1
