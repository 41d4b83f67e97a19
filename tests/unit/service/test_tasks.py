"""A scope's tasks end with its block, and its first error comes out as it is."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from spotsieve.stream.base.errors import BrokerTrouble, StateError
from spotsieve.stream.base.tasks import TaskScope, race
from tests.fixtures.source_tree import tracked

pytestmark = pytest.mark.usefixtures("no_task_is_left")


async def fail(error: BaseException, turns: int = 1) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    raise error


async def fail_when_cancelled(error: Exception) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise error


async def answer() -> str:
    await asyncio.sleep(0)
    return "answer"


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def block_with(*works: Coroutine[Any, Any, None], body: Coroutine[Any, Any, Any] | None = None) -> None:
    """Start these in a scope whose block does the work of `body`, or waits for ever."""
    async with TaskScope() as tasks:
        for work in works:
            tasks.start(work)
        await (body or wait_for_ever())


def state_error() -> StateError:
    return StateError("state", "is closed")


def trouble(name: str = "broker") -> BrokerTrouble:
    return BrokerTrouble(name, "does not answer")


async def test_tasks_that_still_run_are_cancelled_at_the_end_of_the_block() -> None:
    async with TaskScope() as tasks:
        waiting = tasks.create_task(wait_for_ever())
        done = tasks.create_task(answer())
        assert await done == "answer"
    assert waiting.cancelled()


async def test_an_error_of_a_task_ends_the_block_and_is_raised_as_it_is() -> None:
    error, cause = trouble(), ValueError("cause")
    error.__cause__ = cause
    cancelled = list[int]()

    async def note_the_end(number: int) -> None:
        try:
            await wait_for_ever()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    with pytest.raises(BrokerTrouble) as raised:
        await block_with(note_the_end(1), fail(error), body=note_the_end(2))
    assert raised.value is error
    assert (error.__cause__, error.__context__) == (cause, None), "no trace of the group or of the cancelled block"
    assert sorted(cancelled) == [1, 2]
    asking = asyncio.current_task()
    assert asking is not None
    assert asking.cancelling() == 0, "aiokafka's clients are stopped differently by a task that is being cancelled"


async def test_the_first_error_is_raised_and_errors_of_cancelled_tasks_are_dropped() -> None:
    with pytest.raises(BrokerTrouble):
        await block_with(fail_when_cancelled(state_error()), fail(trouble()))
    await block_with(fail_when_cancelled(state_error()), body=asyncio.sleep(0))
    asking = asyncio.current_task()
    assert asking is not None
    assert asking.cancelling() == 0


async def test_an_error_of_the_block_is_raised_though_a_cancelled_task_fails_later() -> None:
    with pytest.raises(BrokerTrouble):
        await block_with(fail_when_cancelled(state_error()), body=fail(trouble()))


async def test_an_error_that_came_just_before_the_end_of_the_block_is_raised() -> None:
    with pytest.raises(BrokerTrouble):
        await block_with(fail(trouble(), turns=0), body=asyncio.sleep(0))


async def test_of_two_errors_the_earlier_one_is_raised() -> None:
    with pytest.raises(BrokerTrouble, match="early"):
        await block_with(fail(trouble("late"), turns=3), fail(trouble("early"), turns=1))


async def test_nothing_starts_once_the_scope_is_over() -> None:
    begun = False

    async def begin() -> None:
        nonlocal begun
        begun = True

    async with TaskScope() as tasks:
        pass
    tasks.start(begin())

    async def start_while_the_block_ends(scope: TaskScope) -> None:
        try:
            await wait_for_ever()
        finally:
            scope.start(begin())

    async with TaskScope() as tasks:
        tasks.start(start_while_the_block_ends(tasks))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not begun


async def test_nothing_starts_while_an_error_ends_the_other_tasks() -> None:
    late = list[asyncio.Task[None]]()

    async def start_late() -> None:
        async with TaskScope() as tasks:
            tasks.start(fail(trouble()))
            try:
                await wait_for_ever()
            finally:
                tasks.start(start_nothing())

    async def start_nothing() -> None:
        late.append(asyncio.create_task(wait_for_ever()))

    with pytest.raises(BrokerTrouble):
        await start_late()
    assert not late


@pytest.mark.parametrize("raises", [False, True])
async def test_a_cancelled_block_cancels_its_tasks_and_stays_cancelled(raises: bool) -> None:
    async def block() -> None:
        await block_with(fail_when_cancelled(state_error()) if raises else wait_for_ever())

    working = asyncio.create_task(block())
    await asyncio.sleep(0.01)  # Time itself: it must still wait after this.
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_a_time_out_around_a_scope_is_a_time_out() -> None:
    async def in_time() -> None:
        async with asyncio.timeout(0.01):
            await block_with(fail_when_cancelled(state_error()))

    with pytest.raises(TimeoutError):
        await in_time()


async def test_a_cancellation_that_comes_while_the_tasks_end_is_not_lost() -> None:
    """A task group forgets it, and the code after the block would go on."""
    ending, may_end = asyncio.Event(), asyncio.Event()
    went_on = False

    async def end_slowly() -> None:
        try:
            await wait_for_ever()
        finally:
            ending.set()
            await may_end.wait()

    async def work() -> None:
        nonlocal went_on
        await block_with(end_slowly(), body=asyncio.sleep(0))
        went_on = True

    working = asyncio.create_task(work())
    await ending.wait()
    working.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not went_on


async def test_an_error_of_an_outer_scope_ends_an_inner_one() -> None:
    with pytest.raises(BrokerTrouble):
        await block_with(fail(trouble(), turns=3), body=race(wait_for_ever(), wait_for_ever()))


async def test_a_race_ends_with_the_first_that_ends_and_raises_its_error() -> None:
    await race(asyncio.sleep(0), wait_for_ever())
    with pytest.raises(BrokerTrouble):
        await race(wait_for_ever(), fail(trouble()))


async def test_a_race_does_not_go_on_without_a_task_that_cancelled_itself() -> None:
    """Aiokafka lets the cancellation of its own tasks out: a stage that ends so must not be missing unnoticed."""

    async def leak() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await race(leak(), wait_for_ever())


def test_each_task_outside_a_scope_says_why() -> None:
    bare = list[str]()
    for path in tracked("stream/*.py"):
        lines = path.read_text().splitlines()
        bare += [
            f"{path}:{number + 1}"
            for number, line in enumerate(lines)
            if "asyncio.create_task(" in line and not lines[number - 1].strip().startswith("#")
        ]
    assert not bare, (
        "use TaskScope or race() of stream/base/tasks.py, or say in a comment above why the task needs no scope"
    )
