"""`backfill --against`: the verdicts of `filter --against`, also if it is interrupted while the other states grow."""

import random
import shutil
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_SETTING, EXIT_SUSPICIOUS, SettingError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.local.against import keep_checkpoints
from spotsieve.stream.local.backfill.outcomes import DIRECTORY
from spotsieve.stream.local.backfill.run import AGAINST
from tests.fixtures.backfills import PAGES, after, backfilled, logged_pages, records_out, verdict_rows, write_inputs
from tests.fixtures.filter_crawl import break_queries, break_signing, filter_json, read_json

SETTINGS = Settings()


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    (tmp_path / "inputs").mkdir()
    return write_inputs(tmp_path / "inputs", "jsonl", files=4)


@pytest.fixture
def others(names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """A state with the pages of the last input, one of another page, and a snapshot of the first."""
    first, second, snapshot = (tmp_path / name for name in ("first", "second", "snapshot"))
    filter_json(capsys, names[3], "--state", first)
    filter_json(capsys, names[1], "--state", second, "--salt-from", first)
    assert main(["state", "snapshot", "--state", str(first), str(snapshot)]) == 0
    capsys.readouterr()
    return [snapshot, second]


@pytest.fixture
def expected(
    names: list[str], others: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[list[dict[str, object]], bytes, dict[str, int]]:
    """Verdicts, emitted records and counts of `filter --against`."""
    verdicts_file, out = tmp_path / "expected.jsonl", tmp_path / "expected-out.jsonl"
    summary = filter_json(capsys, *names, "--verdicts", verdicts_file, "--out", out, "--against", *others)
    assert 0 < summary["in_other_states"] < summary["duplicate"] < summary["pages"]
    counts = {name: summary[name] for name in ("pages", "duplicate", "novel", "in_other_states", "state_entries")}
    return read_json(verdicts_file), out.read_bytes(), counts


def test_a_checkpoint_is_never_written_into_files_that_remain(others: list[Path], tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"of a state")
    remaining = tmp_path / "kept" / "1"
    remaining.mkdir(parents=True)
    for file in (others[1] / "index").iterdir():
        (remaining / file.name).hardlink_to(table)
    with pytest.raises(StateError, match=r"--against cannot keep a checkpoint: File exists, got '.*/kept/1'; "):
        keep_checkpoints(others, tmp_path / "kept")
    assert table.read_bytes() == b"of a state"


def _times_of(snapshot: Path) -> dict[str, int]:
    """When each file of a snapshot was last written, in nanoseconds."""
    return {file.name: file.stat().st_mtime_ns for file in snapshot.rglob("*")}


Expected = tuple[list[dict[str, object]], bytes, dict[str, int]]


@pytest.mark.parametrize(("shards", "batch_pages"), [(1, 2), (2, 7)])
def test_verdicts_are_those_of_the_filter_though_readers_are_lost(
    names: list[str], others: list[Path], expected: Expected, tmp_path: Path, shards: int, batch_pages: int
) -> None:
    dice, losses = random.Random(batch_pages), iter(range(3))

    def lose(method: str, _: int) -> bool:
        return method in ("sign", "write") and dice.random() < 0.1 and next(losses, None) is not None

    place, before = tmp_path / "run", _times_of(others[0])
    summary = backfilled(names, place, SETTINGS, shards, lose=lose, batch_pages=batch_pages, against=others)
    assert _times_of(others[0]) == before, "a reader wrote to the snapshot, which others may check meanwhile"
    assert (verdict_rows(place), records_out(place)) == expected[:2]
    counts = {name: value for name, value in summary.as_json().items() if name in expected[2]}
    assert counts == expected[2]
    assert logged_pages(place) == summary.pages - summary.in_other_states
    assert summary.exact_copies.original
    assert not (place / "state" / DIRECTORY / AGAINST).exists(), "checkpoints stay until the run is complete"


def test_a_continued_run_keeps_the_states_of_its_beginning(
    names: list[str],
    others: list[Path],
    expected: Expected,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "run"
    for number in range(20):
        summary = backfilled(names, place, SETTINGS, stopped=after(12 + 12 * number), batch_pages=3, against=others)
        if not summary.interrupted:
            break
        kept = place / "state" / DIRECTORY / AGAINST
        assert [one.name for one in kept.iterdir()] == ["1"], "a snapshot is used in its place"
        if not number:
            # The service behind the state goes on with pages of the run.
            filter_json(capsys, names[0], "--state", others[1])
    assert number > 1
    assert (verdict_rows(place), records_out(place)) == expected[:2]
    counts = {name: value for name, value in summary.as_json().items() if name in expected[2]}
    assert counts == expected[2]


def test_an_interrupted_run_is_continued_against_the_same_states_only(
    names: list[str], others: list[Path], tmp_path: Path
) -> None:
    place = tmp_path / "run"
    assert backfilled(names, place, SETTINGS, stopped=after(6), batch_pages=3, against=others).interrupted
    for given in ([], others[:1], others[::-1]):
        with pytest.raises(SettingError, match=r"interrupted backfill with other states in --against: .*snapshot"):
            backfilled(names, place, SETTINGS, against=given)
    shutil.rmtree(place / "state" / DIRECTORY / AGAINST)
    with pytest.raises(StateError, match=r"must keep the checkpoint of .*second that the interrupted run made"):
        backfilled(names, place, SETTINGS, against=others)


def test_a_known_file_is_not_judged_again_without_the_states(
    names: list[str], others: list[Path], tmp_path: Path
) -> None:
    backfilled(names, tmp_path / "run", SETTINGS, against=others)
    with pytest.raises(SettingError, match=r"that were filtered against .*, .* \(log ids\)"):
        backfilled(names[:2], tmp_path / "run", SETTINGS)


def test_the_command_drops_pages_of_the_states_and_says_how_many(
    names: list[str],
    others: list[Path],
    expected: Expected,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = ("--out", tmp_path / "out", "--verdicts", tmp_path / "verdicts", "--state", tmp_path / "state")
    command = ["backfill", *names, *map(str, outputs), "--readers", "2", "--against", *map(str, others)]
    assert main(command) == 0
    assert f"{expected[2]['in_other_states']:,} of the duplicates are in the states" in capsys.readouterr().err
    assert (verdict_rows(tmp_path), records_out(tmp_path)) == expected[:2]
    assert main([*command, "--json"]) == 0
    assert "already complete" in capsys.readouterr().err


def test_a_page_that_breaks_a_query_is_reported_as_by_the_filter(
    names: list[str],
    others: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_queries(monkeypatch, [1])
    verdicts_file, notices = tmp_path / "v.jsonl", list[str]()
    expected = filter_json(capsys, *names, "--verdicts", verdicts_file, "--against", *others, code=EXIT_SUSPICIOUS)
    assert expected["reasons"]["internal_error"] > 0
    place = tmp_path / "run"
    summary = backfilled(names, place, SETTINGS, batch_pages=3, against=others, tell=notices.append)
    assert verdict_rows(place) == read_json(verdicts_file)
    assert summary.exit_code == EXIT_SUSPICIOUS
    assert summary.suspicion == expected["suspicion"]
    failed = [row["id"] for row in verdict_rows(place) if row["reason"] == "internal_error"]
    assert failed
    assert all(any(f"for {one}: each is emitted unchecked" in notice for notice in notices) for one in failed)
    assert all("(ZeroDivisionError: a page that breaks the query at filter_crawl.py:" in notice for notice in notices)


@pytest.mark.parametrize("with_others", [False, True])
def test_a_page_that_breaks_signing_is_reported_as_by_the_filter(
    with_others: bool,
    names: list[str],
    others: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_signing(monkeypatch, *(PAGES[row].body.decode("utf-8", "replace") for row in (5, 42)))
    against = others if with_others else []
    verdicts_file, notices = tmp_path / "v.jsonl", list[str]()
    options = ("--against", *against) if against else ()
    expected = filter_json(capsys, *names, "--verdicts", verdicts_file, *options, code=EXIT_SUSPICIOUS)
    place = tmp_path / "run"
    summary = backfilled(names, place, SETTINGS, batch_pages=3, against=against, tell=notices.append)
    assert verdict_rows(place) == read_json(verdicts_file)
    assert (summary.exit_code, summary.suspicion) == (EXIT_SUSPICIOUS, expected["suspicion"])
    failed = [row["id"] for row in verdict_rows(place) if row["reason"] == "internal_error"]
    assert failed
    assert all(any(f"for {one}: each is emitted unchecked" in notice for notice in notices) for one in failed)


def test_cluster_ids_are_those_of_the_filter(
    names: list[str], others: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts_file = tmp_path / "v.jsonl"
    filter_json(capsys, *names, "--verdicts", verdicts_file, "--cluster-ids", "--against", *others)
    outputs = ("--verdicts", tmp_path / "verdicts", "--state", tmp_path / "state", "--cluster-ids")
    command = ["backfill", *names, *map(str, outputs), "--readers", "2", "--against", *map(str, others)]
    assert main(command) == 0
    rows = verdict_rows(tmp_path)
    assert rows == read_json(verdicts_file)
    assert [row["cluster"] for row in rows] == [row["duplicate_of"] or row["id"] for row in rows]
    capsys.readouterr()
    assert main([*command[:-3], "--set", "policy.keep=longest"]) == EXIT_SETTING
    assert '--cluster-ids needs policy.keep = "first"' in capsys.readouterr().err


def test_only_the_same_command_repeats_a_run_with_a_damaged_input(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = Path(names[1])
    damaged.write_bytes(damaged.read_bytes()[:-9])
    outputs = ("--verdicts", tmp_path / "verdicts", "--state", tmp_path / "state", "--readers", "1")
    command = ["backfill", names[1], *map(str, outputs)]
    assert main(command) == EXIT_INPUT
    assert main([*command, "--cluster-ids"]) == EXIT_SETTING
    assert "--force" in capsys.readouterr().err
    assert main(command) == EXIT_INPUT
