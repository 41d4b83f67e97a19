"""Waits before the broker is tried again, longer each time."""

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
        """A try has succeeded: make the next wait a short one again."""
        self._most = FIRST_SECONDS
