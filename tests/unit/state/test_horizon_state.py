"""A state with a horizon: looked at, verified, snapshot and restored; and files whose pages leave the horizon."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.buckets import NUMBER_BYTES
from spotsieve.state.format.meta import encode_marks
from spotsieve.state.horizon import StepMark
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import encode
from spotsieve.state.snapshot.snapshots import restore_snapshot, take_snapshot
from spotsieve.state.still.reading import describe
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import PAGES, different_pages

HOUR_MS = 3_600_000
SETTINGS = Settings.model_validate({"index": {"horizon_hours": 640 / HOUR_MS}})
"""Pages of local_states are a millisecond apart: a horizon is 640 of them, a step 10."""
TEXT = verdict_settings_text(SETTINGS)
DIGEST = settings_digest(TEXT)
RECORDS = 60


def open_state(directory: Path) -> State:
    return disk_state(directory, TEXT, LocalLog.name, SETTINGS.index)


def engine_over(state: State) -> Engine:
    return Engine(scheme_of(SETTINGS.scheme), state, SETTINGS.index, DIGEST, LocalLog.name)


def record(number: int) -> bytes:
    return encode(different_pages(number), bytes(16), number, DIGEST)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a state of 60 records of 40 pages, nearly four horizons, with its log."""
    directory = tmp_path_factory.mktemp("made")
    with open_state(directory) as state, LocalLog(directory) as log:
        engine = engine_over(state)
        for number in range(RECORDS):
            engine.apply(record(number), log.append(record(number)))
    return directory


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "state"))


def change(directory: Path, family: str, act: Callable[[Any], None]) -> None:
    """Write a wrong value under a right checksum, as a defect of ours would."""
    database = Rdict(str(directory / INDEX_FOLDER), database_options(), column_families(None))
    opened = database if family == "default" else database.get_column_family(family)
    act(opened)
    if opened is not database:
        opened.close()
    database.close()


def rules(directory: Path) -> list[str]:
    return [f"{damage.place} {damage.rule}" for damage in verify(directory).damages]


def test_a_state_with_a_horizon_is_whole_and_says_how_far_event_time_has_come(directory: Path) -> None:
    with open_state(directory) as state:
        floor, count = state.clock.floor, state.entry_count
        memory = memory_state()
        engine = engine_over(memory)
        for number in range(RECORDS):
            engine.apply(record(number), number)
        assert first_difference(state, memory) is None
        assert state.stats()["entries"] == memory.stats()["entries"] == count - floor
        assert state.stats()["watermark_ms"] == 1_700_000_000_000 + RECORDS * PAGES - 1
        assert memory.stats()["swept_buckets"] > 0
    found = verify(directory)
    assert (found.damaged, found.checked["entries"]) == (0, count - floor)
    assert 600 < count - floor < 651
    facts = describe(directory)
    assert (facts["entries"], facts["first_entry"]) == (count - floor, floor)
    assert facts["watermark"] == "2023-11-14T22:13:22.399Z"


def test_a_state_killed_with_removals_only_in_write_ahead_logs_is_whole_and_goes_on(
    tmp_path: Path,
) -> None:
    memory = memory_state()
    by_memory = engine_over(memory)
    with open_state(tmp_path / "running") as state, LocalLog(tmp_path / "running") as log:
        engine = engine_over(state)
        for number in range(RECORDS):
            engine.apply(record(number), log.append(record(number)))
            by_memory.apply(record(number), number)
            if number == 10:
                state.compact()
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
        assert describe(tmp_path / "running")["first_entry"] == state.clock.floor > 500
    assert verify(tmp_path / "killed").damaged == 0
    with open_state(tmp_path / "killed") as state:
        assert first_difference(state, memory) is None
        for engine in (engine_over(state), by_memory):
            engine.apply(record(RECORDS), RECORDS)
        assert first_difference(state, memory) is None


def test_a_snapshot_of_a_state_with_a_horizon_goes_on_where_it_was(directory: Path, tmp_path: Path) -> None:
    manifest = take_snapshot(directory, tmp_path / "snapshot")
    restore_snapshot(tmp_path / "snapshot", tmp_path / "restored")
    with open_state(directory) as state, open_state(tmp_path / "restored") as restored:
        assert manifest.entries == state.entry_count - state.clock.floor
        for one in (state, restored):
            engine_over(one).apply(record(RECORDS), RECORDS)
        assert first_difference(state, restored) is None


def put_dead_entry(entries: Any) -> None:
    at = entries.iter()
    at.seek_to_first()
    first = int.from_bytes(at.key(), "big")
    entries[(first - 1).to_bytes(8, "big")] = at.value()


def put_dead_posting(buckets: Any) -> None:
    at = buckets.iter()
    at.seek_to_first()
    value = at.value()
    # The posting of entry 0, put before the first one. The sweep removed it long ago.
    buckets[at.key()] = value[:1] + bytes(NUMBER_BYTES) + value[1 + NUMBER_BYTES :]


def drop_first_entry(entries: Any) -> None:
    at = entries.iter()
    at.seek_to_first()
    entries.delete(at.key())


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="expired entries are there again")
@pytest.mark.parametrize(
    ("family", "act", "rule"),
    [
        ("entries", put_dead_entry, "which live by the meta values"),
        ("entries", drop_first_entry, "is missing: by the meta values entries"),
        ("buckets", put_dead_posting, "as the sweep has passed"),
        ("default", lambda meta: meta.delete(b"marks"), "must exist if the progress has a watermark"),
    ],
)
def test_verify_names_what_a_horizon_should_have_removed_or_kept(
    directory: Path, family: str, act: Callable[[Any], None], rule: str
) -> None:
    change(directory, family, act)
    assert [found for found in rules(directory) if rule in found], rules(directory)


def test_a_state_whose_marks_are_lost_or_wrong_is_not_opened(directory: Path) -> None:
    far = encode_marks((StepMark(1, 10**6),))
    for act in (lambda meta: meta.delete(b"marks"), lambda meta: meta.__setitem__(b"marks", far)):
        change(directory, "default", act)
        with pytest.raises(CorruptRecord, match=b"marks".hex()):
            open_state(directory)


def at(day: int, seed: int, name: str) -> dict[str, Any]:
    fetched = datetime.fromtimestamp(1_700_000_000 + day * 86_400, UTC).isoformat()
    return {**page(seed, name, note=name), "fetched_at": fetched}


def write(path: Path, pages: list[dict[str, Any]]) -> Path:
    path.write_bytes(lines(pages))
    os.utime(path, (1_800_000_000, 1_800_000_000))
    return path


@pytest.mark.guarantee(
    "only event times decide how long a page counts as an original", fault="pages older than the deduplication window"
)
def test_a_copy_within_the_horizon_is_dropped_and_one_beyond_it_let_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = write(
        tmp_path / "crawl.jsonl",
        [at(0, 1, "first"), at(29, 1, "copy"), at(31, 1, "later"), at(32, 2, "other"), at(33, 1, "last")],
    )
    runs = []
    for number, batch in enumerate((1, 2, 512)):
        verdicts = tmp_path / f"v{number}.jsonl"
        filter_json(
            capsys,
            crawl,
            "--state",
            tmp_path / f"state{number}",
            "--verdicts",
            verdicts,
            "--set",
            "index.horizon_hours=720",
            "--set",
            f"service.batch_pages={batch}",
        )
        runs.append([(line["id"], line["duplicate_of"]) for line in read_json(verdicts)])
    assert runs[0] == [("first", None), ("copy", "first"), ("later", None), ("other", None), ("last", "later")]
    assert runs[1:] == runs[:1] * 2


@pytest.mark.guarantee(
    "only event times decide how long a page counts as an original", fault="a page from the year 2100"
)
def test_a_time_from_the_future_makes_nothing_forgotten_and_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {**page(7, "hostile"), "fetched_at": "2100-01-01T00:00:00Z"}
    now = {**at(0, 1, "first"), "fetched_at": "2027-01-14T00:00:00Z"}
    crawl = write(tmp_path / "crawl.jsonl", [now, hostile, {**now, "id": "copy"}])
    verdicts = tmp_path / "v.jsonl"
    summary = filter_json(capsys, crawl, "--verdicts", verdicts, "--set", "index.horizon_hours=720")
    assert [line["duplicate_of"] for line in read_json(verdicts)] == [None, None, "first"]
    assert summary["future_times"] == 1
