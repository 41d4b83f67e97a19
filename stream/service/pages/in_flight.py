"""Counts the micro-batches between fetch and commit, and says when the next one may begin."""

import asyncio
from contextlib import suppress

MOST = 8
"""Enough to keep every stage busy, few enough to keep memory flat."""
FEW = 3
"""Of small ones. Each costs the worker and the broker some milliseconds of CPU whatever its size, so where pages come
slower than they could be judged, the next batch rather grows: at 200 pages/s, exactly once, the median page took 144 ms
in place of 176, and 171 of 202 (two rounds side by side on a busy machine; with 2 no less than with 3)."""


class InFlight:
    """The number of micro-batches on their way. One task begins them, any number end them, all in one event loop."""

    def __init__(self) -> None:
        self._number = 0
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Count one more, as soon as there is room for it."""
        while self._number >= MOST:
            await self._one_more_ended()
        self._number += 1

    def end(self) -> None:
        """One was committed or dropped."""
        self._number -= 1
        self._ended.set()

    async def few(self, most_seconds: float) -> None:
        """Wait while FEW or more are on their way, but not for longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                while self._number >= FEW:
                    await self._one_more_ended()

    async def _one_more_ended(self) -> None:
        self._ended.clear()
        await self._ended.wait()
