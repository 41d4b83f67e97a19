"""Owns how long to wait before trying the broker again."""

import asyncio
import random

FIRST_SECONDS = 0.1
MOST_SECONDS = 10.0
FETCH_PAUSE_SECONDS = 0.2
"""After a fetch that failed and may be repeated, so that a loop without an answer does not spin."""


class Backoff:
    """Doubling waits with full jitter, so that workers do not come back all at once."""

    def __init__(self) -> None:
        self._most = FIRST_SECONDS

    async def wait(self) -> None:
        """Sleep, longer each time."""
        await asyncio.sleep(random.uniform(0, self._most))
        self._most = min(self._most * 2, MOST_SECONDS)
