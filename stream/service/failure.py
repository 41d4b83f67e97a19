"""Collects the first error of the tasks that nobody awaits, for the one who waits for the work."""

import asyncio
from typing import Any


class Failure:
    """Tasks that nobody awaits report here. Who waits for the work also waits for `future`.

    `future` ends only with an exception.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Report the error that the task ends with, if it ends with one."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # Retrieved here, so that asyncio does not complain of it.
