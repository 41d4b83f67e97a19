"""Runs the tasks of a stage one at a time, in a separate thread or, if they are short, in the event loop.

A thread waits for the interpreter lock while the event loop works: 3 ms of CPU took 30 ms. A short task in the event
loop does not wait. A slow disk must not block the event loop, so after a slow task all tasks go to the thread for a
while.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from spotsieve.stream.observe.health import Heartbeats

LONG_SECONDS = 0.05
"""A task that takes longer in the event loop is slow. 100 pages take 5 ms, or 15 ms beside threads that sign."""
PAUSE_SECONDS = 1.0
"""Time for which all tasks go to the thread after a slow one. A slow disk blocks the event loop once a second at
most."""
SHORT_BYTES = 1536 * 1024
"""Up to this size, messages are signed in 5 ms and encoded for an output in less. Under a load that would fill the
event loop, micro-batches are larger, so the thread signs them."""

P = ParamSpec("P")
T = TypeVar("T")


class SerialExecutor:
    """Runs at most one task at a time. Call it from the event loop."""

    def __init__(self, stage: str, heartbeats: Heartbeats, clock: Callable[[], float] = time.monotonic) -> None:
        """stage: name of the work on the health port and in profiles"""
        self._stage, self._heartbeats, self._clock = stage, heartbeats, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=stage)
        self._pending = list[Future[Any]]()
        self._pause_until = 0.0

    async def do(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run work in the thread. Returns its result."""
        self._pending = [task for task in self._pending if not task.done()]
        task = self._thread.submit(lambda: self._heartbeats.watched(self._stage, work, *arguments, **named))
        self._pending.append(task)
        return await asyncio.wrap_future(task)

    async def do_short(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run work of a few milliseconds, in the event loop if the thread is idle. Returns its result."""
        start = self._clock()
        # The thread may still run a task whose caller was cancelled.
        if start < self._pause_until or not all(task.done() for task in self._pending):
            return await self.do(work, *arguments, **named)
        try:
            return self._heartbeats.watched(self._stage, work, *arguments, **named)
        finally:
            end = self._clock()
            if end - start > LONG_SECONDS:
                self._pause_until = end + PAUSE_SECONDS

    async def close(self) -> None:
        """Wait for the running task, and end the thread."""
        await asyncio.to_thread(self._thread.shutdown)
