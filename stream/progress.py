"""Shows the progress of long work on one line: pages a second, share dropped, bytes a second, time left."""

import time
from collections.abc import Callable
from typing import TextIO

from spotsieve.stream.text_safety import escape_control_characters

INTERVAL_S = 0.5
OnProgress = Callable[[str, int, int], None]
"""on_progress(what, done, of): long work calls it now and then to say how far it has come; of is 0 if unknown."""
OnPages = Callable[[int, int, int], None]
"""on_pages(pages, dropped, bytes_read): the same for work on the pages of files, as ProgressLine.update takes it."""


def ignore_progress(what: str, done: int, of: int) -> None:
    """Take what long work says of its progress, and show nothing."""


class ProgressLine:
    """One line on a terminal, rewritten twice a second. It shows nothing if `stream` is no terminal."""

    def __init__(self, stream: TextIO, total_bytes: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        """total_bytes: size of all files on disk, None if unknown"""
        self._stream = stream
        self._total = total_bytes
        self._clock = clock
        self._began = clock()
        self._last = float("-inf")
        self._shown = stream.isatty()
        self._width = 0

    def say(self, text: str) -> None:
        """Show this text now."""
        if self._shown:
            text = escape_control_characters(text)
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)

    def update(self, pages: int, dropped: int, bytes_read: int) -> None:
        """Show how far the work has come; cheap to call often."""
        now = self._clock()
        if self._shown and now - self._last >= INTERVAL_S:
            self._last = now
            self.say(progress_text(pages, dropped, bytes_read, self._total, now - self._began))

    def update_records(self, records: int, of: int, pages: int) -> None:
        """Show how much of a log was read again; cheap to call often."""
        now = self._clock()
        if self._shown and now - self._last >= INTERVAL_S:
            self._last = now
            self.say(records_text(records, of, pages, now - self._began))

    def update_step(self, what: str, done: int, of: int) -> None:
        """Show how far a step of the work has come, as an OnProgress; not before the first half second."""
        now = self._clock()
        if self._shown and now - max(self._last, self._began) >= INTERVAL_S:
            self._last = now
            self.say(f"{what}: {done:,} of {of:,}")

    def close(self) -> None:
        """Remove the line, so that other text can be written."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def progress_text(pages: int, dropped: int, bytes_read: int, total: int | None, seconds: float) -> str:
    """Return what the line says of files, such as "12,345 pages  1,020 pages/s  31.4% dropped  21.3 MB/s  44% read,
    0:01:05 left".
    """
    seconds = max(seconds, 1e-9)
    share = dropped / pages if pages else 0.0
    text = (
        f"{pages:,} pages  {pages / seconds:,.0f} pages/s  {share:.1%} dropped  {bytes_read / seconds / 1e6:.1f} MB/s"
    )
    if total and bytes_read:
        left = max(0.0, seconds * (total - bytes_read) / bytes_read)
        text += f"  {min(1.0, bytes_read / total):.0%} read, {duration(left)} left"
    return text


def records_text(records: int, of: int, pages: int, seconds: float) -> str:
    """Return what the line says of a log, such as "reading the log again: 1,234 of 5,678 records  80,000 pages  40,000
    pages/s, 0:00:07 left".
    """
    rate, left = pages / max(seconds, 1e-9), seconds * (of - records) / max(records, 1)
    return (
        f"reading the log again: {records:,} of {of:,} records  {pages:,} pages  {rate:,.0f} pages/s, "
        f"{duration(left)} left"
    )


def duration(seconds: float) -> str:
    """Return hours, minutes and seconds, as 1:02:03."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
