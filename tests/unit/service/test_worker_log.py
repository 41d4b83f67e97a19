"""A worker without a state keeps the verdicts of others only while its own record is on its way, and only so many."""

import asyncio
import random

import pytest
from aiokafka import TopicPartition

from spotsieve.state.horizon import NO_TIME
from spotsieve.state.identity import OtherLogError
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import checksum_of, decode
from spotsieve.stream.base.errors import BrokerTrouble
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles import worker_log
from spotsieve.stream.service.roles.worker_log import WorkerLog
from spotsieve.stream.sharding import steps
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME, KIND_RANGE, RoundRange, RoundRecord
from spotsieve.stream.sharding.records.resolver import (
    AnnouncedRecord,
    RoundAnnouncement,
    write_announcement,
    write_outcome,
)
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Share
from tests.fixtures.pages.generated import any_look, pages_of, signatures_of
from tests.fixtures.states.round_records import FIRST, RESOLVED

PAGES = len(RESOLVED.verdicts)


class Broker:
    """Accepts a record when it gets the offset, and gives outcomes of rounds of one record each."""

    def __init__(self) -> None:
        self.offsets = asyncio.Queue[int]()
        self.batches = asyncio.Queue[list[RoundMessage]]()
        self.checksum = 0
        self.written = b""

    async def write(self, value: bytes) -> int:
        self.checksum, self.written = checksum_of(value), value
        return await self.offsets.get()

    async def fetch(self) -> list[RoundMessage]:
        return await self.batches.get()

    async def resolve(self, *records: int) -> None:
        for record in records:
            range_ = RoundRange(LogPlace(record, 0), LogPlace(record + 1, 0), FIRST, 0, NO_TIME)
            named = write_announcement(RoundAnnouncement(1, (), (0,), (AnnouncedRecord(record, PAGES, self.checksum),)))
            self.batches.put_nowait([_message(KIND_RANGE, range_, named)])
            self.batches.put_nowait([_message(KIND_OUTCOME, range_, write_outcome(RESOLVED))])
        for _ in range(2 * len(records) + 1):
            # The follower takes one of them in at each turn of the event loop.
            await asyncio.sleep(0)


def _message(kind: int, range_: RoundRange, body: bytes) -> RoundMessage:
    return RoundMessage(RoundRecord(kind, bytes(16), Share(0, 1), range_, body), "verdicts", 0, 0)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(worker_log, "RecordWriter", lambda *_: found)
    monkeypatch.setattr(worker_log, "RoundReader", lambda *_: found)
    return found


def new_log() -> WorkerLog:
    metrics = Metrics()
    return WorkerLog(Settings(), bytes(16), metrics, Waits(metrics))


def three_pages() -> Signatures:
    return signatures_of(pages_of([any_look(random.Random(n), False) for n in range(PAGES)]))


async def test_a_record_gets_verdicts_that_came_before_the_broker_told_its_offset(broker: Broker) -> None:
    log = new_log()
    following = asyncio.create_task(log.follow())
    appending = asyncio.create_task(log.append(three_pages()))
    await asyncio.sleep(0)
    await broker.resolve(7, 8, 9)
    broker.offsets.put_nowait(8)
    (future,) = await appending
    assert len((await asyncio.wait_for(future, 5)).verdicts) == PAGES
    following.cancel()


async def test_verdicts_of_another_record_at_this_offset_are_refused(broker: Broker) -> None:
    log = new_log()
    following = asyncio.create_task(log.follow())
    appending = asyncio.create_task(log.append(three_pages()))
    await asyncio.sleep(0)
    broker.offsets.put_nowait(7)
    (future,) = await appending
    broker.checksum ^= 1
    await broker.resolve(7)
    with pytest.raises(OtherLogError, match="belong to another history of the log; restore the log"):
        await asyncio.wait_for(following, 5)
    assert not future.done()


async def test_a_send_that_hangs_does_not_keep_the_verdicts_of_everybody(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "UNCLAIMED_PAGES", 4 * PAGES)
    log = new_log()
    following = asyncio.create_task(log.follow())
    for offset in range(0, 12, 4):
        # What comes while nothing is sent, or came during an earlier send, does not count.
        await broker.resolve(offset)
        appending = asyncio.create_task(log.append(three_pages()))
        await asyncio.sleep(0)
        await broker.resolve(offset + 1, offset + 2, offset + 3)
        broker.offsets.put_nowait(offset + 3)
        (future,) = await appending
        assert (await asyncio.wait_for(future, 5)).poison == {}
    hanging = asyncio.create_task(log.append(three_pages()))
    await asyncio.sleep(0)
    await broker.resolve(*range(12, 16))
    assert not following.done()
    await broker.resolve(16)
    with pytest.raises(BrokerTrouble, match=r"topics\.log .* took a record of this worker too slowly: more than 12 v"):
        await asyncio.wait_for(following, 5)
    hanging.cancel()


async def test_a_partition_is_voided_by_a_record_with_its_own_number(broker: Broker) -> None:
    log = new_log()
    for sequence in range(2):
        broker.offsets.put_nowait(sequence)
        await log.void(TopicPartition("pages", 5))
        record = decode(broker.written)
        assert (record.sequence, record.committed) == (sequence, (CommitMark("pages", 5, 2**63 - 1),))
