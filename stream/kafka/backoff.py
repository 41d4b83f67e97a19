"""Owns how long to wait before trying the broker again."""

import asyncio
import random

FIRST_SECONDS = 0.1
MOST_SECONDS = 10.0


class Backoff:
    """Doubling waits with full jitter, so that workers do not come back all at once."""

    def __init__(self) -> None:
        self._most = FIRST_SECONDS

    async def wait(self) -> None:
        """Sleep, longer each time."""
        await asyncio.sleep(random.uniform(0, self._most))
        self._most = min(self._most * 2, MOST_SECONDS)

    def reset(self) -> None:
        """It went well: the next wait is a short one again."""
        self._most = FIRST_SECONDS
