"""Waits for works that go on at a time, until the first one ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*waited: asyncio.Future[Any]) -> None:
    """Wait until one of them is done. Raises the error of one that failed."""
    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    for future in done:
        future.result()


async def together(*works: Coroutine[Any, Any, Any]) -> None:
    """Do all of these at a time, until one ends or raises; the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await first_of(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
