"""Seconds that the machine withholds do not count in a promise of seconds. These tests sleep: time is their subject."""

import time

import pytest

from tests.worlds import given_seconds
from tests.worlds.given_seconds import GivenSeconds


class StoodStill:
    """The clock of a machine that stands still for 100 s on request."""

    def __init__(self) -> None:
        self.stalled = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.stalled


def test_seconds_that_pass_count() -> None:
    with GivenSeconds() as took:
        time.sleep(0.5)
    assert took.seconds > 0.1


@pytest.mark.parametrize("after", [0.0, 0.3], ids=["at the end", "in the middle"])
def test_seconds_in_which_nobody_was_woken_do_not_count(monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    clock = StoodStill()
    monkeypatch.setattr(given_seconds, "time", clock)
    with GivenSeconds() as took:
        time.sleep(0.3)
        clock.stalled = 100.0
        time.sleep(after)
    assert took.seconds < 50
