"""The short form of `make soak`: kills under load cost nothing."""

from pathlib import Path

import pytest

from bench.soak.report import MOST_RSS_MIB
from bench.soak.run import SoakPlan, soak
from tests.conftest import Broker

SHORT = SoakPlan(pages=4_000, wave=2_000, kill_every=(2.0, 4.0), least_kills=2, most_seconds=600.0, lanes=2)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="kill -9 of a random worker, again and again"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_killed_under_load_lose_and_double_no_page_and_the_lag_returns_to_0(
    kafka: Broker, tmp_path: Path
) -> None:
    messages: list[str] = []
    soaked = soak(kafka.bootstrap_servers, tmp_path, SHORT, messages.append)
    checked = soaked.checked
    assert checked.holds, checked
    assert checked.pages == soaked.pages >= SHORT.pages * SHORT.lanes
    assert checked.duplicate > checked.pages // 5
    assert len(soaked.kills) >= SHORT.least_kills * SHORT.lanes, "each kill must be followed by a lag of 0"
    assert all(kill.lag for kill in soaked.kills), "pages must have been flowing, or the test shows nothing"
    assert len(soaked.lives) >= len(soaked.kills) + 2 * SHORT.lanes
    assert max(life.rss_mib for life in soaked.lives) < MOST_RSS_MIB
    assert len(messages) == soaked.pages // SHORT.wave + SHORT.lanes
