"""Does the work of a stage: one piece after the other, in a thread of its own or, where it is short, in the event loop.

A thread waits for the interpreter's lock while the event loop works: 3 ms of CPU took 30 ms. In the event loop a short
piece waits for nothing. A slow disk must not keep the event loop. So after a piece that took long there, all pieces go
to the thread for a while.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from spotsieve.stream.observe.health import Heartbeats

LONG_SECONDS = 0.05
"""A piece that took longer in the event loop was not short. 100 pages take 5 ms, beside threads that sign 15."""
PAUSE_SECONDS = 1.0
"""For so long nothing is short then: a slow disk keeps the event loop once a second."""
SHORT_BYTES = 1536 * 1024
"""Messages of so many bytes are signed in 5 ms, and written to an output in less. Under a load at which that would fill
the event loop, micro-batches are larger and signed beside it."""

P = ParamSpec("P")
T = TypeVar("T")


class SerialExecutor:
    """Call it from the event loop. No two pieces are done at a time."""

    def __init__(self, stage: str, heartbeats: Heartbeats, clock: Callable[[], float] = time.monotonic) -> None:
        """stage: what the health port and profiles call the work"""
        self._stage, self._heartbeats, self._clock = stage, heartbeats, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=stage)
        self._pending = list[Future[Any]]()
        self._pause_until = 0.0

    async def do(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do a piece of work in the thread; -> what it returns."""
        self._pending = [piece for piece in self._pending if not piece.done()]
        piece = self._thread.submit(lambda: self._heartbeats.watched(self._stage, work, *arguments, **named))
        self._pending.append(piece)
        return await asyncio.wrap_future(piece)

    async def do_short(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do a piece that should take some milliseconds, here if the thread has nothing to do."""
        begun = self._clock()
        # Who waited for a piece may have been cancelled, and the thread still does it.
        if begun < self._pause_until or not all(piece.done() for piece in self._pending):
            return await self.do(work, *arguments, **named)
        try:
            return self._heartbeats.watched(self._stage, work, *arguments, **named)
        finally:
            ended = self._clock()
            if ended - begun > LONG_SECONDS:
                self._pause_until = ended + PAUSE_SECONDS

    async def close(self) -> None:
        """Wait for the piece that is being done, and end the thread."""
        await asyncio.to_thread(self._thread.shutdown)
