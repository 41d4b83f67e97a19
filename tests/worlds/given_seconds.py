"""A clock for guarantees in seconds: it leaves out the time in which the machine ran nothing."""

import threading
import time
from typing import Self

WAKE_SECONDS = 0.02
PROMISED_STOP_SECONDS = 15.0
"""docs/operations.md guarantees 10 s. The rest is for a machine that is busy with other work."""


class GivenSeconds:
    """Seconds of a block, without those in which a stalled machine did not wake this process."""

    def __enter__(self) -> Self:
        self.seconds = 0.0
        self._over = threading.Event()
        self._withheld = 0.0
        self._began = time.monotonic()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = time.monotonic()
        self._over.set()
        self._watching.join()
        self.seconds = self._ended - self._began - self._withheld

    def _watch(self) -> None:
        # The beginning, not the current time: a stall may come before this thread has run at all.
        asked = self._began
        over = False
        while not over:
            over = self._over.wait(WAKE_SECONDS)
            # After a stall at the end of the block, this thread may wake later than the one that ended it.
            now = self._ended if over else time.monotonic()
            self._withheld += max(0.0, now - asked - WAKE_SECONDS)
            asked = now
