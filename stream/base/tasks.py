"""Tasks that live as long as a block, and waiting for the first of several tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
StartTask = Callable[[Coroutine[Any, Any, None]], None]
"""Starts a task without an awaiting caller: TaskScope.start."""


class TaskScope:
    """The tasks of a block: a task group that cancels its running tasks when the block ends.

    The first error of a task or of the block ends them all. It is raised itself, not in an ExceptionGroup, because its
    class decides what happens next. Later errors, from tasks that are being cancelled, are dropped.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running = set[asyncio.Task[Any]]()
        self._first_error: BaseException | None = None
        self._over = False

    def create_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of the block."""
        task = self._group.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task without an awaiting caller. After the end of the scope this does nothing."""
        if self._over:
            work.close()
        else:
            self.create_task(work)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in tuple(self._running):
            if task.done():
                self._ended(task)  # Its callback has not run yet.
        self._over = True
        first = self._first_error or error
        parent = asyncio.current_task()
        cancels = 0 if parent is None else parent.cancelling()
        with suppress(BaseExceptionGroup):
            # After an error of its block, a task group cancels its tasks; after a normal end it would wait for them.
            ending = (kind, error, traceback) if error is not None else (_End, _End(), None)
            await self._group.__aexit__(*ending)
        if first is None and parent is not None and parent.cancelling() > cancels:
            raise asyncio.CancelledError  # It arrived while the tasks were ending, and the group drops it.
        if first is not None and first is not error:
            context = first.__context__
            try:
                raise first
            finally:
                first.__context__ = context  # Otherwise the context would be the cancellation of the block.

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over:
            self._over, self._first_error = True, error


class _End(Exception):
    """Ends a task group after the normal end of its block."""


async def first_of(*waited: asyncio.Future[Any]) -> None:
    """Wait until one of these futures is done. Raises its error if it failed."""
    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    for future in done:
        # aiokafka leaks the cancellation of its own tasks. It must end the wait, too, and be raised.
        future.result()


async def race(*works: Coroutine[Any, Any, Any]) -> None:
    """Run these coroutines until the first one ends, and cancel the others. Raises the error of the first one."""
    async with TaskScope() as tasks:
        await first_of(*[tasks.create_task(work) for work in works])
