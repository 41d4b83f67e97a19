"""Waiting for a condition, with a deadline: tests never sleep in the hope that something is over by then."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

START_SECONDS = 240.0
SECONDS = 240.0
"""Deadlines are for a machine that is ten times as slow and stands still for 20 s now and then. They cost time only
where something is wrong."""
T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], seconds: float, about: str, every: float = 0.05) -> T:
    """Ask until the answer is true, and return it. Raises AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {about}"
        time.sleep(every)


async def wait_until_async(condition: Callable[[], Awaitable[T | None]], seconds: float, about: str) -> T:
    """As wait_until, for a condition that is itself awaited; what else runs in the event loop goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {about}"
        await asyncio.sleep(0.05)
