"""Shows the progress of long work: pages a second, share dropped, bytes a second, time left.

On a terminal it is one line that is rewritten. Elsewhere, as in a log of cron or of a container, whatever takes longer
than QUIET_S says what it does on a line of its own, and again after twice the time, and so on.
"""

import threading
import time
from collections.abc import Callable
from typing import TextIO

from spotsieve.stream.base.terminal import escape_control_characters

INTERVAL_S = 0.5
QUIET_S = 5.0
MOST_QUIET_S = 600.0
COMPILING = "compiling the kernels; after the first time they are read from a cache"
OnProgress = Callable[[str, int, int], None]
"""on_progress(what, done, of): long work calls it now and then to say how far it has come; of is 0 if unknown."""
OnPages = Callable[[int, int, int], None]
"""on_pages(pages, dropped, bytes_read): the same for work on the pages of files, as ProgressLine.update takes it."""


def ignore_progress(what: str, done: int, of: int) -> None:
    """Take what long work says of its progress, and show nothing."""


class ProgressLine:
    """One line on a terminal, rewritten twice a second; where `stream` is no terminal, now and then a line."""

    def __init__(
        self,
        stream: TextIO,
        total_bytes: int | None,
        clock: Callable[[], float] = time.monotonic,
        quiet_s: float = QUIET_S,
    ) -> None:
        """total_bytes: size of all files on disk, None if unknown  quiet_s: until the first line without a terminal"""
        self._stream = stream
        self._total = total_bytes
        self._clock = clock
        self._began = clock()
        self._last = float("-inf")
        self._lines = None if stream.isatty() else _QuietLines(stream, quiet_s)
        self._width = 0

    def say(self, text: str) -> None:
        """Show this text now; without a terminal, once it is time for a line and the work still goes on."""
        text = escape_control_characters(text)
        if self._lines is not None:
            self._lines.say(text)
            return
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def update(self, pages: int, dropped: int, bytes_read: int) -> None:
        """Show how far the work has come; cheap to call often."""
        if self._due():
            self.say(progress_text(pages, dropped, bytes_read, self._total, self._clock() - self._began))

    def update_records(self, records: int, of: int, pages: int) -> None:
        """Show how much of a log was read again; cheap to call often."""
        if self._due():
            self.say(records_text(records, of, pages, self._clock() - self._began))

    def update_step(self, what: str, done: int, of: int) -> None:
        """Show how far a step of the work has come, as an OnProgress; not before the first half second."""
        if self._clock() - self._began >= INTERVAL_S and self._due():
            self.say(f"{what}: {done:,} of {of:,}")

    def _due(self) -> bool:
        now = self._clock()
        if now - self._last < INTERVAL_S:
            return False
        self._last = now
        return True

    def close(self) -> None:
        """Remove the line, so that other text can be written."""
        if self._lines is not None:
            self._lines.close()
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


class _QuietLines:
    """Writes the text that was said last once it is time for a line. A timer does it: the work may be one long call."""

    def __init__(self, stream: TextIO, quiet_s: float) -> None:
        self._stream = stream
        self._gap_s = quiet_s
        self._lock = threading.Lock()
        self._text = ""
        self._timer: threading.Timer | None = None

    def say(self, text: str) -> None:
        """Let this text be the one that is written next."""
        with self._lock:
            self._text = text
            if self._timer is None:
                self._start()

    def close(self) -> None:
        """Write nothing more of what was said so far."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._text = None, ""

    def _start(self) -> None:
        self._timer = threading.Timer(self._gap_s, self._write)
        self._timer.daemon = True  # A process that ends does not wait for it.
        self._timer.start()

    def _write(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # It was closed while this timer woke.
            text, self._text = self._text, ""
            self._gap_s = min(2 * self._gap_s, MOST_QUIET_S)
            self._timer = None
            if text:
                self._stream.write(f"{text}\n")
                self._stream.flush()


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
