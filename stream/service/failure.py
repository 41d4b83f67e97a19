"""Owns the one error that ends the work, whichever task beside the stages met it first."""

import asyncio
from typing import Any


class Failure:
    """Tasks that nobody awaits report here; whoever waits for the work waits for `future` too.

    `future` is never done but with an exception.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Report what the task ends with, unless it succeeds or is cancelled."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # Asked for: a second failure while closing is no news on standard error.
