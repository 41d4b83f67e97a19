"""Owns the order in which a partition is taken, and that what was begun under an older epoch has no effect."""

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from spotsieve.stream.kafka.waits import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service import partitions
from spotsieve.stream.service.failure import Failure
from spotsieve.stream.service.partitions import OwnedPartition, Partitions
from spotsieve.stream.settings.model import Settings

PARTITION = TopicPartition("pages", 3)


class Broker:
    """Producer and consumer in one; writes down what it is asked. `slow` holds producers up while they start."""

    def __init__(self, committed: int | None) -> None:
        self.steps: list[str] = []
        self.slow = asyncio.Event()
        self.slow.set()
        self._committed = committed

    async def start(self) -> None:
        await self.slow.wait()
        self.steps.append("fenced")

    async def stop(self) -> None:
        self.steps.append("stopped")

    async def committed(self, _: TopicPartition) -> int | None:
        self.steps.append("committed")
        return self._committed

    async def beginning_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {PARTITION: 5}

    async def end_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {PARTITION: 90}


def partitions_of(broker: Broker, monkeypatch: pytest.MonkeyPatch, start: str = "earliest") -> Partitions:
    monkeypatch.setattr(partitions, "output_producer", lambda *_: broker)
    settings = Settings.model_validate({"kafka": {"start": start}})
    metrics = Metrics()
    return Partitions(settings, cast("AIOKafkaConsumer", broker), metrics, Waits(metrics), Failure())


async def test_former_owners_are_fenced_before_the_committed_offset_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, owned = Broker(committed=40), OwnedPartition(PARTITION)
    await partitions_of(broker, monkeypatch).open(owned)
    assert broker.steps == ["fenced", "committed"]
    assert (owned.seek_to, owned.committed, owned.epoch) == (40, 40, 1)


@pytest.mark.parametrize(("start", "offset"), [("earliest", 5), ("latest", 90)])
async def test_where_nothing_is_committed_the_setting_says_where_to_begin(
    start: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, owned = Broker(committed=None), OwnedPartition(PARTITION)
    await partitions_of(broker, monkeypatch, start).open(owned)
    assert owned.seek_to == offset


async def test_an_opening_that_ends_after_a_later_one_began_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, owned = Broker(committed=40), OwnedPartition(PARTITION)
    broker.slow.clear()
    opening = asyncio.create_task(partitions_of(broker, monkeypatch).open(owned))
    await asyncio.sleep(0)
    owned.epoch += 1
    broker.slow.set()
    await opening
    assert owned.producer is None
    assert owned.seek_to is None
    assert broker.steps[:2] == ["fenced", "stopped"]


async def test_a_partition_handed_over_has_a_new_epoch_and_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(committed=40)
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await asyncio.sleep(0.01)
    epoch = owned.epoch
    await taken.on_partitions_revoked([PARTITION])
    assert owned.epoch > epoch
    assert owned.lost.is_set()
    assert owned.producer is None
    assert not taken.all()
