"""The progress line of long work."""

import io

from spotsieve.stream.progress import ProgressLine, duration, progress_text


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
    line.close()
    assert terminal.getvalue().count("5 pages") == 2
    assert terminal.getvalue().endswith(" \r")


def test_what_is_no_terminal_sees_no_line() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, None)
    line.say("x")
    line.update(1, 1, 1)
    line.close()
    assert stream.getvalue() == ""


def test_durations_are_hours_minutes_seconds() -> None:
    assert duration(3723.4) == "1:02:03"
