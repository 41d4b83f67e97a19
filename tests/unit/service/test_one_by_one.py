"""Short pieces of work are done in the event loop, one at a time with those of the thread, unless the disk is slow."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.service.serial_executor import LONG_SECONDS, PAUSE_SECONDS, SerialExecutor


class TimedStage:
    """A stage whose clock stands still unless a piece says how long it takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stage = SerialExecutor("judge", Heartbeats(), lambda: self.now)

    def piece(self, seconds: float = 0.0) -> bool:
        """A piece of work; -> whether the event loop did it."""
        self.now += seconds
        return threading.current_thread() is threading.main_thread()

    async def in_loop(self, seconds: float = 0.0) -> bool:
        return await self.stage.do_short(self.piece, seconds)


@pytest.fixture
async def timed() -> AsyncIterator[TimedStage]:
    made = TimedStage()
    yield made
    await made.stage.close()


async def test_a_short_piece_is_done_in_the_event_loop_and_others_in_the_thread(timed: TimedStage) -> None:
    assert await timed.in_loop() is True
    assert await timed.stage.do(timed.piece) is False
    assert await timed.in_loop() is True


async def test_after_a_long_piece_the_thread_does_all_for_a_while(timed: TimedStage) -> None:
    assert await timed.in_loop(2 * LONG_SECONDS) is True
    assert await timed.in_loop() is False
    timed.now += PAUSE_SECONDS
    assert await timed.in_loop() is True


async def test_a_piece_that_fails_after_long_counts_as_long(timed: TimedStage) -> None:
    def fail() -> None:
        timed.now += 2 * LONG_SECONDS
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await timed.stage.do_short(fail)
    assert await timed.in_loop() is False


async def test_nothing_is_done_beside_a_piece_of_the_thread_even_if_nobody_waits_for_it(timed: TimedStage) -> None:
    begun, goes_on, done = threading.Event(), threading.Event(), list[str]()

    def long() -> None:
        begun.set()
        goes_on.wait(60)
        done.append("long")

    waiting = asyncio.create_task(timed.stage.do(long))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    short = asyncio.create_task(timed.stage.do_short(done.append, "short"))
    await asyncio.sleep(0)
    assert done == []
    goes_on.set()
    await short
    assert done == ["long", "short"]
