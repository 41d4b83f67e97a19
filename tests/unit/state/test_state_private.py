"""A state holds addresses: nobody but its owner can read it or a snapshot of it, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.state.directory import MANIFEST_FILE
from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import write_crawl
from tests.fixtures.states.local_states import apply_log, open_state
from tests.fixtures.states.state_owner import owner


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def readable(directory: Path) -> list[str]:
    """What others than the owner can reach and read below a directory; files below a closed folder count as closed."""
    if not mode(directory) & 0o077:
        return []
    found = [directory.name]
    for path in directory.iterdir():
        found += readable(path) if path.is_dir() else [path.name] if mode(path) & 0o077 else []
    return found


def open_files(directory: Path) -> dict[str, int]:
    """The files below a directory whose mode is not 0600."""
    return {path.name: mode(path) for path in directory.rglob("*") if path.is_file() and mode(path) != 0o600}


def filtered(tmp_path: Path, state: Path) -> Path:
    crawl = tmp_path / "crawl.jsonl"
    if not crawl.exists():
        write_crawl(crawl)
    assert main(["filter", str(crawl), "--state", str(state)]) == 0
    return state


@pytest.mark.guarantee("only their owner can read a state and its snapshots", fault="a umask that lets all read")
@pytest.mark.usefixtures("_any_umask")
def test_directories_have_0700_and_files_0600_whatever_the_umask(tmp_path: Path) -> None:
    state, snapshot, again = tmp_path / "state", tmp_path / "snapshot", tmp_path / "again"
    filtered(tmp_path, state)
    assert main(["backfill", str(tmp_path / "crawl.jsonl"), "--readers", "1", "--state", str(state)]) == 0
    assert open_files(state) == {}
    assert mode(state / "backfill") == 0o700
    assert main(["state", "snapshot", "--state", str(state), str(snapshot)]) == 0
    assert main(["state", "restore", str(snapshot), "--state", str(again)]) == 0
    export, imported = tmp_path / "export.jsonl", tmp_path / "imported"
    (tmp_path / "export.jsonl.partial").touch()
    assert main(["state", "export", "--state", str(state), "--out", str(export)]) == 0
    assert main(["state", "import", str(export), "--state", str(imported)]) == 0
    assert mode(export) == 0o600
    assert [open_files(directory) for directory in (state, snapshot, again, imported)] == [{}] * 4
    for directory in (state, snapshot, again):
        assert (mode(directory), mode(directory / "index"), mode(directory / "log")) == (0o700, 0o700, 0o600)
    assert mode(snapshot / MANIFEST_FILE) == 0o600
    assert mode(state / "snapshot") == 0o700
    for directory in (state, snapshot, again):
        directory.chmod(0o755)
        assert readable(directory) == [directory.name]


@pytest.mark.usefixtures("_any_umask")
def test_files_that_appear_while_a_state_is_open_are_closed_by_the_next_record(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with open_state(state) as opened:
        for first in range(3):
            apply_log(state, first, first + 1, opened)
            assert {mode(path) for path in (state / "index").iterdir()} == {0o600}
            opened.compact()  # writes new table files


def test_a_snapshot_of_a_state_that_others_may_read_leaves_the_files_of_both_so(tmp_path: Path) -> None:
    state = filtered(tmp_path, tmp_path / "state")
    (state / "index").chmod(0o750)
    for path in (state / "index").iterdir():
        path.chmod(0o640)
    assert main(["state", "snapshot", "--state", str(state), str(tmp_path / "snapshot")]) == 0
    assert {mode(path) for path in (state / "index").glob("*.sst")} == {0o640}


def test_a_directory_that_was_there_keeps_its_mode_and_what_is_made_in_it_is_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    filtered(tmp_path, state)
    assert mode(state) == 0o755
    assert readable(state) == ["state"]
    assert "chmod" not in capsys.readouterr().err


def test_a_state_that_others_can_read_is_told_once_at_every_opening_and_left_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = filtered(tmp_path, tmp_path / "state")
    (state / "log").chmod(0o644)
    filtered(tmp_path, state)
    assert "chmod" not in capsys.readouterr().err  # the directory lets nobody in
    state.chmod(0o750)
    (state / "index").chmod(0o755)
    filtered(tmp_path, state)
    printed = capsys.readouterr().err
    assert printed.count("can read index and log, which holds URLs; chmod -R go-rwx closes it") == 1
    assert (mode(state), mode(state / "index"), mode(state / "log")) == (0o750, 0o755, 0o644)


def test_a_snapshot_that_a_running_owner_makes_is_closed_too(tmp_path: Path) -> None:
    state, snapshot = tmp_path / "state", tmp_path / "snapshot"
    with open_state(state) as opened:
        apply_log(state, 0, 2, opened)
    with owner(state, responds=True) as process:
        assert main(["state", "snapshot", "--state", str(state), str(snapshot)]) == 0
        process.kill()
    assert (mode(snapshot), mode(snapshot / "index")) == (0o700, 0o700)
