"""Waiting for a condition, with a deadline: tests never sleep in the hope that something is over by then."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

START_SECONDS = 240.0
SECONDS = 240.0
"""The deadlines fit a machine that is ten times slower and stalls for 20 s now and then. They cost time only if
something is wrong.
"""
T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], seconds: float, about: str, every: float = 0.05) -> T:
    """Poll until the condition is true, and return its value. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {about}"
        time.sleep(every)


async def wait_until_async(condition: Callable[[], Awaitable[T | None]], seconds: float, about: str) -> T:
    """Like wait_until, for an awaitable condition; other tasks of the event loop continue meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {about}"
        await asyncio.sleep(0.05)
