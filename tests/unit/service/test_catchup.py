"""While a worker reads its log again, it says how far it is, how fast it reads and how long it will take."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.stream.base.progress import records_text
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.service.log import follower
from spotsieve.stream.service.log.follower import CatchUp
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.states.local_states import SETTINGS, apply_log, open_state


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    lines: list[tuple[str, dict[str, Any]]] = []

    class RecordingLogger:
        def info(self, event: str, **fields: object) -> None:
            lines.append((event, fields))

    monkeypatch.setattr(follower, "logger", RecordingLogger)
    return lines


def test_a_rebuild_tells_records_pages_rate_and_time_left(logged: list[tuple[str, dict[str, Any]]]) -> None:
    now = [100.0]
    catching_up = CatchUp(0, 1_000, lambda: now[0])
    assert logged.pop() == ("rebuilding the state from the log", {"position": 0, "end": 1_000})
    assert catching_up.text() == "catching up with the log: record 0 of 1000, 0%"
    now[0] += 4
    catching_up.applied(100, 100, 6_400)
    assert logged == []
    assert catching_up.text() == "catching up with the log: record 100 of 1000, 10%, about 36 s left"
    now[0] += 6
    catching_up.applied(200, 100, 6_400)
    assert logged.pop() == (
        "catching up with the log",
        {
            "position": 200,
            "end": 1_000,
            "records": 200,
            "pages": 12_800,
            "records_per_second": 20.0,
            "pages_per_second": 1_280.0,
            "seconds_left": 40.0,
        },
    )
    now[0] += 30
    catching_up.applied(1_000, 800, 100)
    logged.clear()
    catching_up.done()
    event, fields = logged.pop()
    assert event == "caught up with the log"
    assert (fields["records"], fields["pages"], fields["seconds"]) == (1_000, 12_900, 40.0)


def test_reading_goes_on_until_what_has_come_meanwhile_takes_seconds_at_most() -> None:
    now = [0.0]
    catching_up = CatchUp(0, 1_000, lambda: now[0])
    now[0] += 10
    catching_up.applied(1_000, 1_000, 64_000)
    assert catching_up.goes_on(1_400)
    assert catching_up.text() == "catching up with the log: record 1000 of 1400, 71%, about 4 s left"
    now[0] += 4
    catching_up.applied(1_400, 400, 0)
    assert not catching_up.goes_on(1_500)
    assert not CatchUp(7, 7).goes_on(8), "without anything read there is no rate, and nothing was missed"


def test_a_state_that_is_up_to_date_has_nothing_to_tell(logged: list[tuple[str, dict[str, Any]]]) -> None:
    catching_up = CatchUp(7, 7)
    catching_up.done()
    assert logged == []
    assert catching_up.text() == "catching up with the log: record 7 of 7, 100%"
    CatchUp(7, 9)
    assert logged.pop()[0] == "catching up with the log"


def test_a_filter_rebuilds_a_deleted_index_from_its_log_and_says_how_much_it_read(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        apply_log(tmp_path, 0, 6, state)
        entries = state.entry_count
    shutil.rmtree(tmp_path / INDEX_FOLDER)
    reports: list[tuple[int, int, int]] = []
    scheme = scheme_of(SETTINGS.scheme)
    with LocalEngine(tmp_path, SETTINGS, scheme, lambda *figures: reports.append(figures)) as rebuilt:
        assert rebuilt.entry_count == entries
        assert rebuilt.notices == ["the state was rebuilt from its log: 6 records with 240 pages were read again"]
    assert reports == [(records, 6, 40 * records) for records in range(1, 7)]
    with LocalEngine(tmp_path, SETTINGS, scheme) as whole:
        assert whole.notices == []


def test_the_line_of_a_filter_that_reads_its_log_again() -> None:
    assert records_text(1_000, 4_000, 64_000, 2.0) == (
        "reading the log again: 1,000 of 4,000 records  64,000 pages  32,000 pages/s, 0:00:06 left"
    )
