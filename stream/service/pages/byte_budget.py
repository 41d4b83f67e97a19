"""Bounds the bytes that are on their way to the broker, so that each commit can be sent before its time-out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SLOWEST_BYTES_PER_SECOND = 2**20
"""A network that takes 1 MiB a second (8 Mbit/s) is fast enough for every commit."""


def most_bytes(transaction_timeout_ms: int, request_timeout_ms: int) -> int:
    """Bytes of outputs that may be on their way at the slowest network; 30 MiB for 60 s and 40 s.

    They take half of a commit's time-out, the other half is left for what the broker itself does; and three quarters of
    a request's, since requests share a connection and each waits for those before it. Without a bound 8 micro-batches
    of 16 MiB each could be one commit: 128 MiB, which take 128 s at that speed, would be aborted after 60, and would be
    tried again for ever.
    """
    most_ms = min(transaction_timeout_ms // 2, request_timeout_ms * 3 // 4)
    return max(1, most_ms * SLOWEST_BYTES_PER_SECOND // 1000)


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
