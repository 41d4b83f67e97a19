"""Fixtures for tests of tasks."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def no_task_is_left() -> AsyncIterator[None]:
    """Fails a test that leaves a task behind, or an unretrieved error."""
    complaints = list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    before = asyncio.all_tasks()
    gc.freeze()  # Only what the test makes is looked through: all the compiler's objects take 0.5 s.
    yield
    left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
    gc.collect()
    gc.unfreeze()
    assert not left
    assert not complaints
