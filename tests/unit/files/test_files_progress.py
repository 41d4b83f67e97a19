"""The progress line of long work."""

import io
import re
import time
from collections import Counter

import pytest

from spotsieve.stream.base.progress import ProgressLine, duration, progress_text
from spotsieve.stream.base.terminal import table_lines
from tests.fixtures.waiting import SECONDS, wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_says_how_fast_how_many_dropped_and_how_long_yet() -> None:
    text = progress_text(12_345, 3876, 250_000_000, 1_000_000_000, 12.1)
    assert text == "12,345 pages  1,020 pages/s  31.4% dropped  20.7 MB/s  25% read, 0:00:36 left"


def test_without_a_known_size_nothing_is_said_of_the_time_left() -> None:
    assert progress_text(0, 0, 0, None, 0.0) == "0 pages  0 pages/s  0.0% dropped  0.0 MB/s"


def test_the_line_is_rewritten_twice_a_second_and_taken_away_at_the_end() -> None:
    now = [0.0]
    terminal = Terminal()
    line = ProgressLine(terminal, None, lambda: now[0])
    for _ in range(10):
        now[0] += 0.1
        line.update(5, 0, 0)
    assert terminal.getvalue().count("5 pages") == 2
    line.close()
    assert terminal.getvalue().endswith("\r\x1b[1A\x1b[2K")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, "1,234,567 pages  1,020 pages/s  31.4% dropped  20.7 MB/s  25% read, 1:00:31 left"),
        (79, "1,234,567 pages  1,020 pages/s  31.4% dropped  25% read, 1:00:31 left"),
        (40, "1,234,567 pages  25% read, 1:00:31 left"),
        (20, "1,234,567 pages"),
        (5, "1,234,567 pages"),
    ],
)
def test_a_narrow_terminal_shows_the_parts_of_the_line_that_fit(width: int, shown: str) -> None:
    text = progress_text(1_234_567, 387_654, 250_000_000 * 100, 1_000_000_000 * 100, 1210.36, width)
    assert text == shown


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_line_of_a_terminal_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("TERM", raising=False)
    terminal = Terminal()
    line = ProgressLine(terminal, 10**12, lambda: 1e6)
    line.update(1_234_567, 387_654, 10**9)
    line.say("reading a log with a name that is longer than any terminal of the world " + "x" * 100)
    line.close()
    visible = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    shown = [part for part in re.split(r"[\r\n]", visible) if part]
    assert len(set(shown)) == 2
    assert max(map(len, shown)) <= columns


def test_a_terminal_without_cursor_movement_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    line = ProgressLine(terminal, None)
    line.say("reading")
    line.close()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("width", [10, 20, 30])
def test_a_table_that_is_too_wide_is_folded_without_losing_text(width: int) -> None:
    rows = [["scheme", "precision", "recall"], ["spotsieve of all", "0.9876543", "1.0"]]
    lines = table_lines(rows, width)
    assert max(map(len, lines)) <= width
    letters = Counter("".join(lines).replace(" ", ""))
    assert letters == Counter("schemeprecisionrecallspotsieveofall0.98765431.0")


def test_a_table_that_fits_is_not_folded() -> None:
    assert (
        table_lines([["a", "bb"], ["ccc", "d"]], 40)
        == table_lines([["a", "bb"], ["ccc", "d"]])
        == ["a    bb", "ccc   d"]
    )


def test_without_a_terminal_what_is_over_soon_shows_nothing() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, None)
    line.say("x")
    line.update(1, 1, 1)
    line.close()
    assert stream.getvalue() == ""


def test_without_a_terminal_one_long_call_says_what_it_does_and_then_is_silent() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, None, quiet_s=0.01)
    line.say("compiling \x1b[2J")
    wait_until(stream.getvalue, SECONDS, "a line")
    line.close()
    assert stream.getvalue() == "compiling \\x1b[2J\n"


def test_without_a_terminal_lines_come_at_doubling_gaps_with_the_latest_text() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, None, quiet_s=0.01)
    began, number = time.monotonic(), 0

    def three_lines() -> bool:
        nonlocal number
        number += 1
        line.say(f"page {number}")
        return stream.getvalue().count("\n") >= 3

    wait_until(three_lines, SECONDS, "three lines", every=0.001)
    assert time.monotonic() - began >= 0.01 + 0.02 + 0.04
    line.close()
    shown = [int(text.removeprefix("page ")) for text in stream.getvalue().splitlines()]
    assert shown == sorted(set(shown))


def test_durations_are_hours_minutes_seconds() -> None:
    assert duration(3723.4) == "1:02:03"
