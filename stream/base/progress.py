"""Shows the progress of long work: pages per second, share of dropped pages, bytes per second, remaining time.

On a terminal, one line is rewritten. Elsewhere, such as in the log of cron or of a container, work that takes longer
than QUIET_S prints a line, the next one after twice the time, and so on.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from spotsieve.stream.base.terminal import escape_control_characters

if TYPE_CHECKING:
    from rich.live import Live

INTERVAL_S = 0.5
QUIET_S = 5.0
MOST_QUIET_S = 600.0
COMPILING = "compiling the kernels; after the first time they are read from a cache"
OnProgress = Callable[[str, int, int], None]
"""on_progress(what, done, of): called from time to time by long work; of is 0 if the total is unknown."""
OnPages = Callable[[int, int, int], None]
"""on_pages(pages, dropped, bytes_read): the same for work on the pages of files, like ProgressLine.update."""


def ignore_progress(what: str, done: int, of: int) -> None:
    """Show nothing."""


class ProgressLine:
    """One line on a terminal, rewritten twice a second; without a terminal, separate lines from time to time."""

    def __init__(
        self,
        stream: TextIO,
        total_bytes: int | None,
        clock: Callable[[], float] = time.monotonic,
        quiet_s: float = QUIET_S,
    ) -> None:
        """total_bytes: size of all files, None if unknown  quiet_s: time until the first line without a terminal"""
        self._total = total_bytes
        self._clock = clock
        self._began = clock()
        self._last = float("-inf")
        rewrites = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lines = _TerminalLine(stream) if rewrites else _QuietLines(stream, quiet_s)

    def say(self, text: str) -> None:
        """Show this text now; without a terminal, when the next line is due."""
        self._lines.say(escape_control_characters(text))

    def update(self, pages: int, dropped: int, bytes_read: int) -> None:
        """Show the progress of work on files; cheap to call often."""
        if self._due():
            seconds = self._clock() - self._began
            self.say(progress_text(pages, dropped, bytes_read, self._total, seconds, self._lines.width))

    def update_records(self, records: int, of: int, pages: int) -> None:
        """Show the progress of reading a log again; cheap to call often."""
        if self._due():
            self.say(records_text(records, of, pages, self._clock() - self._began))

    def update_step(self, what: str, done: int, of: int) -> None:
        """Show the progress of a step, as an OnProgress; nothing in the first half second."""
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
        self._lines.close()


class _TerminalLine:
    """Rewrites one line of a terminal with rich, which knows its width and removes the line at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live: Live | None = None

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._started().console.width

    def say(self, text: str) -> None:
        """Show this text, cut to the width of the terminal."""
        from rich.text import Text

        self._started().update(Text(text, no_wrap=True, overflow="ellipsis", end=""), refresh=True)

    def close(self) -> None:
        """Remove the line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _started(self) -> "Live":
        if self._live is None:
            # Only long work shows progress, and short commands do without these 40 ms.
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, force_terminal=True, highlight=False)
            # Standard output may be a pipe full of pages, so rich must not take it over.
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        return self._live


class _QuietLines:
    """Writes the latest text when a line is due. A timer does it, because the work may be one long call."""

    def __init__(self, stream: TextIO, quiet_s: float) -> None:
        self.width = None
        self._stream = stream
        self._gap_s = quiet_s
        self._lock = threading.Lock()
        self._text = ""
        self._timer: threading.Timer | None = None

    def say(self, text: str) -> None:
        """Make this the text of the next line."""
        with self._lock:
            self._text = text
            if self._timer is None:
                self._start()

    def close(self) -> None:
        """Discard the text that was not written yet."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._text = None, ""

    def _start(self) -> None:
        self._timer = threading.Timer(self._gap_s, self._write)
        self._timer.daemon = True  # The process can end without waiting for it.
        self._timer.start()

    def _write(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # It was closed while this timer fired.
            text, self._text = self._text, ""
            self._gap_s = min(2 * self._gap_s, MOST_QUIET_S)
            self._timer = None
            if text:
                self._stream.write(f"{text}\n")
                self._stream.flush()


def progress_text(
    pages: int, dropped: int, bytes_read: int, total: int | None, seconds: float, width: int | None = None
) -> str:
    """The line for work on files, such as "12,345 pages  1,020 pages/s  31.4% dropped  21.3 MB/s  44% read,
    0:01:05 left".

    width: the columns of the terminal; parts that do not fit are left out, the least important ones first
    """
    seconds = max(seconds, 1e-9)
    parts = {
        "pages": f"{pages:,} pages",
        "speed": f"{pages / seconds:,.0f} pages/s",
        "dropped": f"{dropped / pages if pages else 0.0:.1%} dropped",
        "bytes": f"{bytes_read / seconds / 1e6:.1f} MB/s",
    }
    if total and bytes_read:
        left = max(0.0, seconds * (total - bytes_read) / bytes_read)
        parts["left"] = f"{min(1.0, bytes_read / total):.0%} read, {duration(left)} left"
    for name in ("bytes", "speed", "dropped", "left"):
        if width is not None and len("  ".join(parts.values())) > width:
            parts.pop(name, None)
    return "  ".join(parts.values())


def records_text(records: int, of: int, pages: int, seconds: float) -> str:
    """The line for reading a log again, such as "reading the log again: 1,234 of 5,678 records  80,000 pages  40,000
    pages/s, 0:00:07 left".
    """
    rate, left = pages / max(seconds, 1e-9), seconds * (of - records) / max(records, 1)
    return (
        f"reading the log again: {records:,} of {of:,} records  {pages:,} pages  {rate:,.0f} pages/s, "
        f"{duration(left)} left"
    )


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, such as 1:02:03."""
    rounded = round(seconds)
    return f"{rounded // 3600}:{rounded % 3600 // 60:02}:{rounded % 60:02}"
