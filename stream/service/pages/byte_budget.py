"""Bounds the bytes that are on their way to the broker, so that each commit can be sent before its time-out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SLOWEST_BYTES_PER_SECOND = 2**20
"""A network that takes 1 MiB a second (8 Mbit/s) is fast enough for every commit."""


def most_bytes(timeout_ms: int) -> int:
    """Bytes of outputs that may be on their way: half of a commit's time-out at the slowest network; 30 MiB for 60 s.

    The other half is left for what the broker itself does. Without a bound 8 micro-batches of 16 MiB each could be one
    commit: 128 MiB, which take 128 s at that speed, would be aborted after 60, and would be tried again for ever.
    """
    return max(1, timeout_ms * SLOWEST_BYTES_PER_SECOND // 2000)


class ByteBudget:
    """So many bytes at a time, in the order of asking. What is larger than all of it goes alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Hold so many bytes while the block runs; wait for them before."""
        async with self._turn:
            while self._used and self._used + size > self.most:
                self._given_back.clear()
                await self._given_back.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._given_back.set()
