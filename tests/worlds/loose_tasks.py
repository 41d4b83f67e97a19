"""Starts tasks that no scope owns, for tests of tasks that normally belong to a worker's scope."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_running = set[asyncio.Task[None]]()


def start_alone(work: Coroutine[Any, Any, None]) -> None:
    """Start a task; the end of the test's event loop cancels it."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
