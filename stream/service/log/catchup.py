"""Reports how far a state has caught up with its log, in log lines and on /readyz: records, pages, rate, time left."""

import time
from collections.abc import Callable

from spotsieve.stream.observe.logs import logger

PROGRESS_SECONDS = 5.0
NEAR_SECONDS = 2.0
"""What is left of the log may take so long when the worker joins its group: it is read while the group answers."""


class CatchUp:
    """The reading of the log from the state's position to its end, which moves on meanwhile."""

    def __init__(self, position: int, end: int, clock: Callable[[], float] = time.monotonic) -> None:
        """position: of the state  end: of the log; both are log offsets."""
        self._first, self._position, self._end = position, position, end
        self._clock = clock
        self._began = self._said = clock()
        self._records = self._pages = 0
        if end > position:
            what = "catching up with the log" if position else "rebuilding the state from the log"
            logger().info(what, position=position, end=end)

    def applied(self, position: int, records: int, pages: int) -> None:
        """Count the records and pages that were applied since the last call, and log the progress every few seconds."""
        self._position = position
        self._records += records
        self._pages += pages
        if self._clock() - self._said >= PROGRESS_SECONDS:
            self._said = self._clock()
            self._say("catching up with the log", seconds_left=self.seconds_left())

    def goes_on(self, end: int) -> bool:
        """The log now ends here: whether too much has come meanwhile for the worker to be of use to its group."""
        self._end = end
        return (self.seconds_left() or 0.0) > NEAR_SECONDS

    def done(self) -> None:
        """Log the time it took, if there was anything to read."""
        if self._records:
            self._say("caught up with the log", seconds=round(self._clock() - self._began, 1))

    def seconds_left(self) -> float | None:
        """The time left at the rate so far; None while there is no rate."""
        read = self._position - self._first
        if read <= 0:
            return None
        return round((self._clock() - self._began) * max(self._end - self._position, 0) / read, 1)

    def text(self) -> str:
        """A line for a person who asks whether the worker is ready."""
        wanted = self._end - self._first
        left = self.seconds_left()
        share = (self._position - self._first) / wanted if wanted > 0 else 1.0
        until = "" if left is None else f", about {left:.0f} s left"
        return f"catching up with the log: record {self._position} of {self._end}, {share:.0%}{until}"

    def _say(self, event: str, **more: float | None) -> None:
        seconds = max(self._clock() - self._began, 1e-9)
        logger().info(
            event,
            position=self._position,
            end=self._end,
            records=self._records,
            pages=self._pages,
            records_per_second=round(self._records / seconds, 1),
            pages_per_second=round(self._pages / seconds, 1),
            **more,
        )
