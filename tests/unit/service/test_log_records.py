"""A role's task reads the log ahead, up to a bound, and further where a round needs it."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from unittest.mock import AsyncMock

import pytest

from spotsieve.state.log.record import encode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles import log_records
from spotsieve.stream.service.roles.log_records import LogRecords
from tests.fixtures.pages.generated import any_look, pages_of, signatures_of
from tests.fixtures.waiting import SECONDS, wait_until_async
from tests.reference.signatures import without_sketches

SETTINGS = Settings()
DIGEST = digest_of_settings(SETTINGS)
PAGES = 3
"""The number of pages in a record."""


class Record(NamedTuple):
    offset: int
    value: bytes


class Follower:
    """Gives one record a fetch; at the end of the log it waits for more, and gives none after a while."""

    def __init__(self, *_: object) -> None:
        self.log = list[bytes]()
        self.at = 0
        self.broken = False
        self.more = asyncio.Event()

    async def fetch(self) -> Sequence[Record]:
        if self.at == len(self.log):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.more.wait(), 0.05)
            self.more.clear()
            if self.broken:
                raise StateError("topics.log", "must be whole", None, "bring it back")
            if self.at == len(self.log):
                return []
        self.at += 1
        return [Record(self.at - 1, self.log[self.at - 1])]

    async def position(self) -> int:
        return self.at

    async def end(self) -> int:
        return len(self.log)

    def note_end(self) -> None:
        pass

    def append(self, records: int) -> None:
        dice = random.Random(len(self.log))
        for _ in range(records):
            signatures = signatures_of(pages_of([any_look(dice, False) for _ in range(PAGES)]))
            self.log.append(encode(without_sketches(signatures), bytes(16), len(self.log), DIGEST))
        self.more.set()


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Follower:
    made = Follower()
    monkeypatch.setattr(log_records, "LogFollower", lambda *_: made)
    return made


@asynccontextmanager
async def followed(pages: int) -> AsyncIterator[tuple[LogRecords, asyncio.Task[None]]]:
    metrics = Metrics()
    records = LogRecords(SETTINGS, metrics, Waits(metrics))
    following = asyncio.create_task(records.follow(pages))
    yield records, following
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def settled() -> None:
    """Let every task go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_pages_are_kept_at_hand_up_to_the_bound_and_again_when_some_are_dropped(follower: Follower) -> None:
    follower.append(9)
    async with followed(2 * PAGES) as (records, _):
        await asyncio.wait_for(records.first_from(1), 10)
        await settled()
        assert (records.weight(), follower.at) == (2 * PAGES, 2)
        records.drop_before(1)
        await asyncio.wait_for(records.first_from(2), 10)
        assert [offset for offset, _ in records.records] == [1, 2]


@pytest.mark.asyncio
async def test_pages_to_forget_are_kept_at_hand_up_to_the_bound_too(follower: Follower) -> None:
    forgotten = [ForgottenPage(number, "pages", 0, number, ()) for number in range(PAGES)]
    follower.log += [encode_forget(forgotten, bytes(16), number, DIGEST) for number in range(9)]
    async with followed(2 * PAGES) as (records, _):
        await asyncio.wait_for(records.first_from(1), 10)
        await settled()
        assert follower.at == 2
        await asyncio.wait_for(records.until(4), 10)
        assert [offset for offset, _ in records.records] == [0, 1, 2, 3]


@pytest.mark.asyncio
async def test_the_first_record_from_an_offset_is_found_behind_gaps(follower: Follower) -> None:
    """Transactions of strangers leave gaps."""
    follower.append(1)
    async with followed(1) as (records, _):
        _, record = await asyncio.wait_for(records.first_from(0), 10)
        records.records.extend((offset, record) for offset in (3, 4, 9))
        found = [(await records.first_from(offset))[0] for offset in range(10)]
        assert found == [0, 3, 3, 3, 4, 9, 9, 9, 9, 9]


@pytest.mark.asyncio
async def test_a_round_beyond_the_bound_is_read(follower: Follower) -> None:
    follower.append(9)
    async with followed(PAGES) as (records, _):
        await asyncio.wait_for(records.first_from(0), 10)
        await asyncio.wait_for(records.until(5), 10)
        assert [offset for offset, _ in records.records] == [0, 1, 2, 3, 4]


@pytest.mark.asyncio
async def test_whoever_waits_for_a_record_gets_it_when_it_comes(follower: Follower) -> None:
    async with followed(9 * PAGES) as (records, _):
        waiting = asyncio.create_task(records.first_from(2))
        follower.append(2)
        await asyncio.wait_for(records.first_from(1), 10)
        await settled()
        assert not waiting.done()
        follower.append(1)
        offset, record = await asyncio.wait_for(waiting, 10)
        assert (offset, len(record.signatures)) == (2, PAGES)
        assert (await records.first_from(1))[0] == 1


@pytest.mark.asyncio
async def test_an_error_of_the_log_ends_the_task_that_reads(follower: Follower) -> None:
    async with followed(PAGES) as (_, following):
        follower.broken = True
        follower.more.set()
        with pytest.raises(StateError, match="must be whole"):
            await asyncio.wait_for(following, 10)


@pytest.mark.asyncio
@pytest.mark.parametrize("is_followed", [False, True])
async def test_a_log_that_lost_records_of_a_round_is_not_waited_for(
    follower: Follower, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_records, "LOST_SECONDS", 0.05)
    follower.append(2)
    async with followed(9 * PAGES) as (records, following):
        if not is_followed:
            following.cancel()
        with pytest.raises(StateError, match="up to 3, but it ends at 2"):
            await asyncio.wait_for(records.until(3), 10)


@pytest.mark.asyncio
async def test_a_log_that_holds_the_records_of_a_round_is_waited_for(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are on their way, from a slow broker."""
    monkeypatch.setattr(log_records, "LOST_SECONDS", 0.02)
    end = AsyncMock(return_value=9)

    async def requested_again() -> bool:
        return end.await_count > 2

    monkeypatch.setattr(follower, "end", end)
    async with followed(9 * PAGES) as (records, _):
        waiting = asyncio.create_task(records.until(2))
        await wait_until_async(requested_again, SECONDS, "the log's end to be requested again")
        assert not waiting.done()
        follower.append(2)
        await asyncio.wait_for(waiting, 10)
