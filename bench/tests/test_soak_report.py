"""A soak that lost, doubled or changed a verdict, or whose memory grew, reports it in its document."""

from dataclasses import replace

import pytest

from bench.soak.check import VerdictCounts
from bench.soak.pages import LEAST_BYTES, MOST_BYTES, soak_pages
from bench.soak.report import broken, document
from bench.soak.run import Kill, Life, SoakPlan, SoakResult

PLAN = SoakPlan(pages=100, wave=50, kill_every=(1.0, 2.0), least_kills=1, most_seconds=10.0)
CHECKED = VerdictCounts(
    pages=100, missing=0, strange=0, doubled=0, differing=0, novel=70, duplicate=30, submitted_again=5
)
LIVES = [
    Life("worker-1", 10.0, 200.0, 200.0),
    Life("worker-2", 10.0, 210.0, 210.0),
    Life("worker-1", 10.0, 220.0, 220.0),
]
SOAKED = SoakResult(
    100, 400_000, 5.0, [Kill("worker-1", 4.0, 10, 3.0, 40), Kill("worker-2", 19.0, 10, 3.0, 40)], LIVES, 50, CHECKED
)
MACHINE = {"cores": 2, "cpu": "a CPU", "system": "Linux", "python": "3.11", "kafka": "4.1.0"}


@pytest.mark.parametrize(
    "worse",
    [
        replace(SOAKED, checked=replace(CHECKED, missing=1)),
        replace(SOAKED, checked=replace(CHECKED, strange=1)),
        replace(SOAKED, checked=replace(CHECKED, doubled=1)),
        replace(SOAKED, checked=replace(CHECKED, differing=1)),
        replace(SOAKED, lives=[*LIVES[:2], Life("worker-1", 10.0, 260.0, 260.0)]),
        replace(SOAKED, lives=[LIVES[0], Life("worker-2", 10.0, 900.0, 900.0), LIVES[2]]),
        replace(SOAKED, lives=[*LIVES, Life("worker-1", 1_200.0, 225.0, 170.0)]),
    ],
)
def test_each_thing_that_a_soak_must_keep_is_told_where_it_is_broken(worse: SoakResult) -> None:
    assert len(broken(worse)) == 1
    assert f"DOES NOT HOLD: {broken(worse)[0]}." in document(worse, PLAN, "make soak", MACHINE, 0.5)


def test_a_soak_that_kept_everything_says_so() -> None:
    assert not broken(SOAKED)
    text = document(SOAKED, PLAN, "make soak", MACHINE, 0.5)
    assert "All holds. Measured by `make soak`" in text
    assert "| workers killed | 2 times; over all services 15 to 15 s apart, 15 s in the median |" in text


def test_a_number_gives_the_same_page_whatever_it_is_asked_with_and_sizes_are_spread() -> None:
    pages = list(soak_pages(0, 3_000, 4))
    assert list(soak_pages(1_000, 50, 4)) == pages[1_000:1_050]
    sizes = sorted(len(page.value or b"") for page in pages)
    assert sizes[0] > LEAST_BYTES / 2
    assert sizes[-1] < MOST_BYTES * 1.1
    assert sizes[len(sizes) * 99 // 100] > 5 * sizes[len(sizes) // 2]
