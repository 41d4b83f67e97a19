"""Snapshots are taken and restored: with and without an owner, damaged, interrupted, over something, continued."""

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE, MANIFEST_FILE
from spotsieve.state.format.meta import StatePart
from spotsieve.state.snapshot import checkpoints
from spotsieve.state.snapshot.snapshots import read_manifest, take_snapshot
from spotsieve.state.still.reading import describe, identity_of, read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_STATE, CorruptRecord, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.cli import main
from spotsieve.stream.engine import open_engine
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import filter_json, write_crawl
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import RECORDS, TEXT, apply_log, flip, listing, open_state
from tests.fixtures.states.state_owner import owner
from tests.fixtures.waiting import SECONDS, wait_until


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    with open_state(directory) as state:
        apply_log(directory, 0, RECORDS, state)
    return directory


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "state"))


@pytest.fixture
def owned(directory: Path) -> Iterator[Path]:
    """A state that another process works on. That process serves requests."""
    with owner(directory, responds=True) as process:
        yield directory
        process.kill()


def restored_equals(snapshot: Path, directory: Path, into: Path) -> None:
    assert main(["state", "restore", str(snapshot), "--state", str(into)]) == 0
    with open_state(into) as restored, open_state(directory) as original:
        assert first_difference(restored, original) is None
    assert (into / LOG_FILE).read_bytes() == (directory / LOG_FILE).read_bytes()


def leftovers(directory: Path) -> set[str]:
    return {path.name for path in (directory / checkpoints.FOLDER).iterdir()} - {checkpoints.LOCK}


def test_a_state_at_rest_is_snapshot_verified_and_restored_equal(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "deep" / "snapshot"
    assert main(["state", "snapshot", "--state", str(directory), str(snapshot)]) == 0
    shown = capsys.readouterr()
    assert f"from record {RECORDS} of the log 'local'" in shown.out
    assert shown.err == ""
    manifest = read_manifest(snapshot)
    assert (manifest.log_position, manifest.log_records, manifest.settings) == (RECORDS, RECORDS, TEXT)
    found = {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()}
    assert found == {facts.name for facts in manifest.files} | {MANIFEST_FILE}
    assert main(["state", "verify", str(snapshot)]) == 0
    assert leftovers(directory) == set()
    restored_equals(snapshot, directory, tmp_path / "restored")
    assert verify(tmp_path / "restored").damaged == 0
    assert main(["state", "info", str(snapshot), "--json"]) == 0


def test_reading_a_snapshot_writes_nothing_there(directory: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    take_snapshot(directory, snapshot)

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (snapshot, *snapshot.rglob("*"))}

    before = times()
    with read_only_state(snapshot) as state:
        assert state.position == RECORDS
    assert identity_of(snapshot).settings == TEXT
    assert describe(snapshot)["log_position"] == RECORDS
    assert times() == before


def test_a_state_that_a_process_works_on_is_snapshot_by_asking_it(
    owned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "snapshot"
    assert main(["state", "snapshot", "--state", str(owned), str(snapshot), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["log_position"] == RECORDS
    assert printed["settings"]["scheme.name"] == "spotsieve"
    assert leftovers(owned) == set()
    # Once more: nothing that the first left is in the way.
    assert main(["state", "snapshot", "--state", str(owned), str(tmp_path / "second")]) == 0
    assert [read_manifest(tmp_path / name).log_position for name in ("snapshot", "second")] == [RECORDS] * 2


def test_a_snapshot_stays_as_it_is_while_the_state_goes_on(directory: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    take_snapshot(directory, snapshot)
    before = listing(snapshot)
    with open_state(directory) as state:
        apply_log(directory, RECORDS, RECORDS + 20, state)
        state.compact()
    assert listing(snapshot) == before
    # Restored beside a log that went on, the state catches up and is equal.
    into = tmp_path / "restored"
    into.mkdir()
    shutil.copy(directory / LOG_FILE, into / LOG_FILE)
    assert main(["state", "restore", str(snapshot), "--state", str(into)]) == 0
    with open_state(into) as restored, open_state(directory) as original:
        assert restored.position == RECORDS
        apply_log(into, restored.position, RECORDS + 20, restored)
        assert first_difference(restored, original) is None


def test_an_owner_that_is_killed_over_the_request_leaves_it_to_the_one_who_asks(
    directory: Path, tmp_path: Path
) -> None:
    with owner(directory, responds=False) as process:
        threading.Timer(0.7, process.kill).start()
        began = time.monotonic()
        take_snapshot(directory, tmp_path / "snapshot")
        assert time.monotonic() - began > 0.6
    restored_equals(tmp_path / "snapshot", directory, tmp_path / "restored")


def test_what_a_killed_owner_had_begun_is_made_again_by_the_next(directory: Path, tmp_path: Path) -> None:
    def kill_and_leave_a_part() -> None:
        (name,) = [(directory / checkpoints.FOLDER / checkpoints.REQUEST).read_text()]
        (directory / checkpoints.FOLDER / name).mkdir()
        (directory / checkpoints.FOLDER / f"{name}.tmp").mkdir()
        process.kill()

    with owner(directory, responds=False) as process:
        threading.Timer(0.7, kill_and_leave_a_part).start()
        take_snapshot(directory, tmp_path / "snapshot")
    assert verify(tmp_path / "snapshot").damaged == 0
    assert leftovers(directory) == set()


def test_an_owner_that_does_not_answer_in_time_is_told_and_nothing_is_left(directory: Path, tmp_path: Path) -> None:
    with owner(directory, responds=False) as process:
        with pytest.raises(StateError, match=r"must get a checkpoint within 0\.6 s"):
            take_snapshot(directory, tmp_path / "snapshot", timeout_s=0.6)
        process.kill()
    assert leftovers(directory) == set()
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


def test_an_owner_that_cannot_make_a_checkpoint_says_why_and_goes_on(directory: Path) -> None:
    class Refusing:
        def checkpoint(self, path: Path) -> None:
            raise StateError("index.directory", "must have room to grow", str(path))

    folder = directory / checkpoints.FOLDER
    folder.mkdir()
    answering = checkpoints.Requests(directory, Refusing())  # type: ignore[arg-type]
    with (folder / checkpoints.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / checkpoints.REQUEST).write_text("ab" * 16)
        assert answering.waiting()
        assert answering.answer() == "ab" * 16
        assert (
            (folder / checkpoints.ANSWER).read_text().startswith("ab" * 16 + " index.directory must have room to grow")
        )
        assert not answering.waiting()
    # Nobody holds the lock any more: the owner passes over a request that was left.
    (folder / checkpoints.REQUEST).write_text("cd" * 16)
    assert answering.answer() is None
    assert not answering.waiting()


@pytest.mark.parametrize("text", ["../../../elsewhere" + "a" * 14, "", "AB" * 16, "\xff"])
def test_a_request_that_is_no_name_is_removed(text: str, directory: Path) -> None:
    folder = directory / checkpoints.FOLDER
    folder.mkdir()
    with (folder / checkpoints.LOCK).open("w") as lock, open_state(directory) as state:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / checkpoints.REQUEST).write_text(text)
        assert checkpoints.Requests(directory, state).answer() is None
        assert leftovers(directory) == set()


def test_a_snapshot_waits_for_another_one_until_the_timeout(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = ["state", "snapshot", "--state", str(directory), str(tmp_path / "snapshot"), "--timeout"]
    (directory / checkpoints.FOLDER).mkdir()
    with (directory / checkpoints.FOLDER / checkpoints.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main([*snapshot, "0.3"]) == EXIT_STATE
        assert "another one is under way for 0.3 s" in capsys.readouterr().err
        assert {path.name for path in tmp_path.iterdir()} == {"state"}
        release = threading.Timer(0.3, fcntl.flock, (lock, fcntl.LOCK_UN))
        release.start()
        assert main([*snapshot, f"{SECONDS}"]) == 0
        release.join()
    assert verify(tmp_path / "snapshot").damaged == 0


@pytest.mark.parametrize("runs", [False, True], ids=["at rest", "owned"])
def test_many_processes_open_a_state_at_a_time(runs: bool, directory: Path) -> None:
    # Forks of a process that has loaded all: each opens the state itself.
    program = (
        "import gc, os, sys; from pathlib import Path; from numba.core.registry import cpu_target\n"
        "from spotsieve.state.still.reading import read_only_state\n"
        "cpu_target.target_context.refresh(); gc.freeze()\n"
        "forks = []\n"
        "for _ in range(4):\n"
        "    forks.append(os.fork())\n"
        "    if not forks[-1]:\n"
        "        with read_only_state(Path(sys.argv[1])) as state:\n"
        "            print(state.position, flush=True); sys.stdin.read()\n"
        "        sys.exit()\n"
        "sys.exit(any([os.waitpid(fork, 0)[1] for fork in forks]))"
    )
    command = [sys.executable, "-c", program, str(directory)]
    with owner(directory, responds=True) if runs else contextlib.nullcontext() as process:
        readers = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert readers.stdout is not None
        # All are open before the first one ends.
        assert [readers.stdout.readline() for _ in range(4)] == [b"%d\n" % RECORDS] * 4
        readers.communicate()
        assert readers.returncode == 0
        if process is not None:
            process.kill()


def test_a_target_that_exists_or_a_state_that_does_not_is_refused(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    assert main(["state", "snapshot", "--state", str(directory), str(tmp_path / "taken")]) == 4
    assert "TARGET must not exist yet" in capsys.readouterr().err
    assert main(["state", "snapshot", "--state", str(tmp_path / "taken"), str(tmp_path / "new")]) == 4
    assert "--state must hold a state" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["state", "snapshot", "--state", str(directory), str(tmp_path / "file" / "below")]) == 4
    assert "must be a directory that can be made" in capsys.readouterr().err


def test_a_snapshot_is_never_opened_for_writing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawled, state, snapshot = tmp_path / "crawl.jsonl", tmp_path / "filtered", tmp_path / "snapshot"
    write_crawl(crawled)
    filter_json(capsys, crawled, "--state", state)
    assert main(["state", "snapshot", "--state", str(state), str(snapshot)]) == 0
    before = listing(snapshot)
    into, out = ["--state", str(snapshot)], ["--out", str(tmp_path / "out")]
    copied = ["state", "snapshot", *into, str(tmp_path / "copy")]
    for command in (["filter", str(crawled), *into], ["backfill", str(crawled), *into, *out], copied):
        assert main(command) == EXIT_STATE
        assert "must not be a snapshot, which any change makes unusable" in capsys.readouterr().err
    settings = Settings()
    with pytest.raises(StateError, match="must not be a snapshot"):
        open_engine(settings.model_copy(update={"index": IndexSettings(directory=snapshot)}), "log")
    assert listing(snapshot) == before
    assert main(["state", "restore", str(snapshot), "--state", str(tmp_path / "restored")]) == 0


def test_a_damaged_state_gives_no_snapshot(directory: Path, tmp_path: Path) -> None:
    next((directory / INDEX_FOLDER).glob("MANIFEST-*")).unlink()
    with pytest.raises(CorruptRecord, match="MANIFEST"):
        take_snapshot(directory, tmp_path / "snapshot")
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


@pytest.mark.parametrize("harm", ["flipped", "cut", "missing", "manifest", "version", "no manifest"])
def test_a_damaged_snapshot_is_refused_and_nothing_is_restored(
    harm: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, into = tmp_path / "snapshot", tmp_path / "restored"
    take_snapshot(directory, snapshot)
    table = max((snapshot / INDEX_FOLDER).glob("*.sst"), key=lambda path: path.stat().st_size)
    manifest = snapshot / MANIFEST_FILE
    shutil.copy(table, tmp_path / "kept")
    table.unlink()  # A hard link: the state's own file must stay.
    shutil.copy(tmp_path / "kept", table)
    if harm == "flipped":
        flip(table, 2000)
    elif harm == "cut":
        table.write_bytes(table.read_bytes()[:-1])
    elif harm == "missing":
        table.unlink()
    elif harm == "manifest":
        flip(manifest, 60)
    elif harm == "version":
        manifest.write_bytes(manifest.read_bytes().replace(b"snapshot 1", b"snapshot 2", 1))
    else:
        manifest.unlink()
    assert main(["state", "restore", str(snapshot), "--state", str(into)]) == 4
    line = capsys.readouterr().err
    named = {"manifest": "xxh3-64", "version": "must be of version 1, got '2'", "no manifest": MANIFEST_FILE}
    assert named.get(harm, table.name) in line
    assert not list(into.glob("*"))


def test_nothing_is_overwritten_by_a_restore(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "snapshot"
    take_snapshot(directory, snapshot)
    before = listing(directory)
    assert main(["state", "restore", str(snapshot), "--state", str(directory)]) == 4
    assert "nothing is overwritten" in capsys.readouterr().err
    assert listing(directory) == before
    other = tmp_path / "other"
    other.mkdir()
    (other / LOG_FILE).write_bytes((directory / LOG_FILE).read_bytes()[:-9])
    assert main(["state", "restore", str(snapshot), "--state", str(other)]) == 4
    assert "must hold no local log, or the one" in capsys.readouterr().err
    assert {path.name for path in other.iterdir()} == {LOG_FILE}


@pytest.mark.timeout(180)
def test_a_running_filter_is_snapshot_killed_restored_and_catches_up_equal(tmp_path: Path) -> None:
    directory, snapshot, into = (tmp_path / name for name in ("state", "snapshot", "restored"))
    lines = [message.value + b"\n" for message in crawl(4_000, seed=3).messages if message.value]
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "spotsieve.stream",
            "filter",
            "-",
            "--stdin-name",
            "crawl",
            "--state",
            str(directory),
            "--set",
            "service.batch_pages=64",
        ],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as filtering:
        assert filtering.stdin is not None

        def feed() -> None:
            assert filtering.stdin is not None
            with contextlib.suppress(OSError):  # killed
                while True:
                    for line in lines:
                        filtering.stdin.write(line)

        feeding = threading.Thread(target=feed)
        feeding.start()
        log = directory / LOG_FILE

        def grown_to(size: int) -> bool:
            assert filtering.poll() is None, filtering.stderr and filtering.stderr.read()
            return log.exists() and log.stat().st_size >= size

        wait_until(lambda: grown_to(100_000), SECONDS, "the log to grow")
        manifest = take_snapshot(directory, snapshot, 60)
        size = log.stat().st_size
        wait_until(lambda: grown_to(size + 100_000), SECONDS, "the log to grow after the snapshot")
        filtering.kill()
        feeding.join()
        with contextlib.suppress(OSError):
            filtering.stdin.close()
    assert manifest.entries > 0
    shutil.copytree(directory, into, ignore=shutil.ignore_patterns(INDEX_FOLDER, checkpoints.FOLDER))
    assert main(["state", "restore", str(snapshot), "--state", str(into)]) == 0
    settings = Settings()
    scheme = scheme_of(settings.scheme)
    with LocalEngine(into, settings, scheme) as restored, LocalEngine(directory, settings, scheme) as original:
        assert restored.engine.state.position > manifest.log_position
        assert first_difference(restored.engine.state, original.engine.state) is None


def test_a_snapshot_after_an_outcome_needs_a_shard(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["state", "snapshot", "--state", str(directory), str(tmp_path / "snapshot"), "--after-outcome"]
    with pytest.raises(SystemExit):
        main([*wanted, "soon"])
    assert "must be an offset of topics.verdicts (spotsieve shards status), got 'soon'" in capsys.readouterr().err
    rule = "--after-outcome needs the state of a shard, and this state is no shard of a service"
    assert main([*wanted, "7"]) == 4
    assert rule in capsys.readouterr().err
    with owner(directory, responds=True) as process:
        code = main([*wanted, "7"])
        process.kill()
    assert code == 4
    assert rule in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


def test_a_snapshot_after_an_outcome_needs_a_running_shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = tmp_path / "shard"
    disk_state(shard, verdict_settings_text(Settings()), "log", IndexSettings(), StatePart(0, 2)).close()
    wanted = ["state", "snapshot", "--state", str(shard), str(tmp_path / "new"), "--after-outcome", "7"]
    assert main([*wanted, "--timeout", "0.6"]) == 4
    shown = capsys.readouterr().err
    assert "--after-outcome must be reached by the shard of" in shown
    assert "start the shard if it does not run" in shown
    assert leftovers(shard) == set()
    assert {path.name for path in tmp_path.iterdir()} == {"shard"}


def test_a_snapshot_of_a_state_without_an_owner_waits_for_nobody(directory: Path, tmp_path: Path) -> None:
    assert main(["state", "snapshot", "--state", str(directory), str(tmp_path / "new"), "--timeout", "0"]) == 0
