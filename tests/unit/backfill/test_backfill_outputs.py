"""Parts of a backfill lie where nothing else does, are named as of what they hold, and survive what else writes."""

import contextlib
import errno
import fcntl
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import psutil
import pytest

from spotsieve.state.directory import LOG_FILE
from spotsieve.stream.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_SETTING,
    EXIT_STATE,
    InputError,
    SettingError,
    StateError,
    StateLockedError,
)
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.files import check_inputs
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.local.backfill.batch_queue import BatchQueue
from spotsieve.stream.local.backfill.outcomes import DIRECTORY
from spotsieve.stream.local.backfill.parts import (
    CLAIM,
    Parts,
    VerdictRows,
    claim_directory,
    parts_of,
    release_directory,
)
from spotsieve.stream.local.backfill.reader import Reader
from spotsieve.stream.local.batch_reader import FileBatch
from tests.fixtures.backfills import after, backfilled, logged_pages, records_out, write_inputs
from tests.fixtures.waiting import SECONDS, wait_until

LINE = json.dumps({"url": "https://a.example/1", "body": "a page of some words"}).encode() + b"\n"


def refused(capsys: pytest.CaptureFixture[str], *given: str | Path) -> str:
    """What a command that is refused says."""
    assert main(list(map(str, ("backfill", *given)))) == 2
    return capsys.readouterr().err


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    file = tmp_path / "pages.jsonl"
    file.write_bytes(LINE)
    return file


def test_outputs_lie_outside_of_the_state(tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    for name in ("", DIRECTORY, "out", "../state/out"):
        message = refused(capsys, pages, "--out", state / name, "--state", state)
        assert f"--out must be outside of the state {state}" in message
    assert not state.exists()


@pytest.mark.parametrize(("name", "rule"), [("-", "must be a directory"), ("memory://out", "must outlive the process")])
def test_outputs_that_could_not_remain_are_refused(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str], name: str, rule: str
) -> None:
    assert f"--out {rule}" in refused(capsys, pages, "--out", name, "--state", tmp_path / "state")


@pytest.mark.parametrize("name", ["00000-pages.jsonl", "00000-pages.jsonl.partial"])
def test_no_part_is_written_over_an_input(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "out").mkdir()
    other = tmp_path / "out" / name
    other.write_bytes(LINE)
    given = (pages, other, "--out", tmp_path / "out", "--state", tmp_path / "state", "--force")
    assert "--out must not overwrite an input" in refused(capsys, *given)
    assert other.read_bytes() == LINE


def test_outputs_may_be_named_as_file_urls(tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["backfill", str(pages), "--out", f"file://{tmp_path}/out", "--state", str(tmp_path / "state")]
    assert main(given) == EXIT_OK
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["00000-pages.jsonl"]
    assert not list(tmp_path.glob("file:*"))


def test_readers_elsewhere_write_where_the_command_was_given(
    tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checked = list[Parts]()
    monkeypatch.setattr(
        "spotsieve.stream.cli.backfill._check_inputs_stay", lambda backfill, _: checked.extend(backfill.parts)
    )
    assert main(["backfill", str(pages), "--out", "out", "--state", str(tmp_path / "state")]) == EXIT_OK
    assert [parts.out for parts in checked] == [str(tmp_path / "out" / "00000-pages.jsonl")]


def test_a_complete_run_says_so_and_reads_nothing_again(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["backfill", str(pages), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state"), "--json"]
    assert main(given) == EXIT_OK
    first = json.loads(capsys.readouterr().out)
    part = tmp_path / "out" / "00000-pages.jsonl"
    before = part.read_bytes(), part.stat().st_mtime_ns
    with monkeypatch.context() as unread:
        unread.setattr("spotsieve.stream.local.backfill.run.Backfill.open", None)
        assert main(given) == EXIT_OK
    printed = capsys.readouterr()
    assert "this run is already complete" in printed.err
    again = json.loads(printed.out)
    for name in ("pages", "novel", "duplicate", "reasons", "bytes_read", "state_entries"):
        assert again[name] == first[name]
    assert (part.read_bytes(), part.stat().st_mtime_ns) == before
    pages.write_bytes(pages.read_bytes().replace(b"words", b"verse"))
    os.utime(pages, (time.time() + 9, time.time() + 9))
    assert main(given) == EXIT_SETTING, "the input was written since"
    assert main([*given, "--force"]) == EXIT_OK
    assert part.stat().st_mtime_ns > before[1]


def test_a_forced_run_that_is_killed_as_it_begins_is_not_taken_for_complete(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["backfill", str(pages), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state"), "--json"]
    assert main(given) == EXIT_OK

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr("spotsieve.stream.local.backfill.run_file.RunFile._write", kill)
        main([*given, "--force"])
    capsys.readouterr()
    assert main(given) == EXIT_SETTING
    assert "already complete" not in capsys.readouterr().err
    assert main([*given, "--force"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["pages"] == 1


@pytest.mark.parametrize(
    ("number", "then"), [(errno.ENOSPC, "free disk space"), (errno.EROFS, "make it writable for this user")]
)
@pytest.mark.parametrize("step", ["begin", "complete"])
def test_a_run_file_that_cannot_be_written_is_an_error_of_the_state(
    step: str, number: int, then: str, tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["backfill", str(pages), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state")]
    left, replace = {"begin": 0, "complete": 1}[step], Path.replace

    def replace_or_fail(path: Path, target: Path) -> Path:
        nonlocal left
        if target.name == "run.json":
            if not left:
                raise OSError(number, os.strerror(number))
            left -= 1
        return replace(path, target)

    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(Path, "replace", replace_or_fail)
        assert main(given) == EXIT_STATE
    assert f"run.json cannot be written: {os.strerror(number)}; {then}, and run again" in capsys.readouterr().err
    assert not list((tmp_path / "state" / DIRECTORY).glob("*.partial"))
    assert main(given) == EXIT_OK


def test_a_list_of_finished_inputs_that_cannot_be_removed_is_an_error_of_the_state(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["backfill", str(pages), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state")]
    assert main(given) == EXIT_OK
    unlink = Path.unlink

    def unlink_or_fail(path: Path, missing_ok: bool = False) -> None:
        if path.name == "done.jsonl":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        unlink(path, missing_ok)

    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(Path, "unlink", unlink_or_fail)
        assert main([*given, "--force"]) == EXIT_STATE
    assert "done.jsonl cannot be written: Read-only file system; make it writable for" in capsys.readouterr().err


def test_an_input_that_is_named_twice_is_read_once(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["backfill", str(pages), str(pages), "--state", str(tmp_path / "state")]
    assert main(given) == EXIT_OK
    assert "a file is named twice; it is read once" in capsys.readouterr().err


@pytest.mark.parametrize("stem", ["n" * 246, "ü" * 123, "\x01" * 246, os.fsdecode(b"\xff" * 246)])
def test_an_input_of_the_longest_name_has_parts_of_shorter_names(tmp_path: Path, pages: Path, stem: str) -> None:
    long = pages.rename(tmp_path / f"{stem}.jsonl.gz")
    long.write_bytes(gzip.compress(LINE))
    outputs = [word for flag in ("out", "verdicts", "rejected") for word in (f"--{flag}", str(tmp_path / flag))]
    assert main(["backfill", str(long), "--state", str(tmp_path / "state"), *outputs]) == EXIT_OK
    for flag, ending in (("out", ".jsonl.gz"), ("verdicts", ".parquet"), ("rejected", ".jsonl")):
        (part,) = (tmp_path / flag).iterdir()
        assert part.name.startswith("00000-")
        assert part.name.endswith(ending)
        assert 220 < len(os.fsencode(part.name)) <= 247


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("pages.csv", "00001-pages"),
        ("pages.2024.csv.gz", "00001-pages.2024.gz"),
        ("pages.html.jsonl", "00001-pages.jsonl"),
        ("pages.2024.jsonl", "00001-pages.2024.jsonl"),
        ("pages", "00001-pages"),
        ("crawl.arc.gz", "00001-crawl.warc.gz"),
    ],
)
def test_a_part_is_named_as_of_what_it_may_hold(tmp_path: Path, name: str, part: str) -> None:
    found = parts_of(1, 2, Input(tmp_path / name, name, None), str(tmp_path), None, None)
    assert found.out == str(tmp_path / part)
    OutputFile(found.out).discard()


@pytest.mark.parametrize("count", [1, 100_000, 100_001, 2_000_000])
def test_parts_sort_in_the_order_of_any_number_of_inputs(tmp_path: Path, count: int) -> None:
    numbers = sorted({0, 1, 9_999, 10_001, 99_999, 100_000, count - 1} & set(range(count)))
    file = Input(tmp_path / "a.jsonl", "a.jsonl", None)
    parts = [parts_of(number, count, file, "out", "verdicts", "rejected") for number in numbers]
    assert sorted(parts) == parts
    assert parts[0].out == ("out/00000-a.jsonl" if count <= 100_000 else f"out/{'0' * len(str(count))}-a.jsonl")


def test_an_input_of_a_wrong_name_is_told_before_a_page_of_it_is_judged(tmp_path: Path, pages: Path) -> None:
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(LINE.replace(b"/1", b"/2"))
    with pytest.raises(InputError, match="must be named by its format, because its part") as caught:
        backfilled([str(pages), str(wrong)], tmp_path, Settings())
    assert caught.value.name == str(wrong)
    assert logged_pages(tmp_path) == 0
    (tmp_path / "state" / DIRECTORY / "run.json").unlink()
    assert backfilled([str(pages), str(wrong.rename(tmp_path / "right.jsonl"))], tmp_path, Settings()).pages == 2


def test_a_writer_of_an_earlier_run_does_not_touch_what_this_one_writes(tmp_path: Path) -> None:
    """It hung while its run was killed, and the run was started again."""
    name = str(tmp_path / "part.jsonl.gz")
    empty, earlier, later = OutputFile(name), OutputFile(name), OutputFile(name)
    empty.abandon()
    for number, output in enumerate((later, earlier)):
        output.write_line(b"%d" % number * 99)
    with pytest.raises(StateError, match="another run has started to write it"):
        earlier.complete()
    later.complete()
    whole = (tmp_path / "part.jsonl.gz").read_bytes()
    one_more = OutputFile(name)
    one_more.write_line(b"more")
    one_more.abandon()
    assert (tmp_path / "part.jsonl.gz").read_bytes() == whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_verdicts_is_told(tmp_path: Path) -> None:
    rows = VerdictRows("/dev/full", "spotsieve")
    with pytest.raises(StateError, match="/dev/full cannot be written: No space left on device; free disk space"):
        rows.complete()
    parts, file = Parts(None, "/dev/full", None), check_inputs([str(write_inputs(tmp_path, "jsonl", 1)[0])])[0]
    reader = Reader(Settings())
    reader.open(0, file, parts)
    reader.close()  # It ends for another reason: one more error would hide that.


def test_records_that_cannot_be_held_are_told(tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (file,) = check_inputs([str(pages)])
    with FileReader(file, Settings().input) as reader:
        batch = FileBatch(file, list(reader), len(LINE))
    queue = BatchQueue(file, keep_records=False, most_bytes=0)
    with pytest.raises(StateError, match="gone must hold the records that wait for their verdicts"):
        queue.put(batch)
    queue.close()


def test_a_second_command_leaves_the_run_of_the_first_alone(tmp_path: Path) -> None:
    names, settings = write_inputs(tmp_path, "jsonl"), Settings()
    backfilled(names, tmp_path, settings)
    kept = (tmp_path / "state" / DIRECTORY / LOG_FILE).read_bytes()
    with (tmp_path / "state" / LOG_FILE).open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(StateLockedError):
            backfilled(names, tmp_path, settings)
    assert (tmp_path / "state" / DIRECTORY / LOG_FILE).read_bytes() == kept


def test_a_directory_takes_the_parts_of_one_run_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, settings = write_inputs(tmp_path, "jsonl"), Settings()
    one = tmp_path / "one"
    assert backfilled(names, one, settings, stopped=after(2), batch_pages=3).interrupted
    for flag in ("out", "verdicts", "rejected"):
        others: list[str | Path] = [names[0], f"--{flag}", one / flag, "--state", tmp_path / "two", "--force"]
        message = refused(capsys, *others)
        assert (
            f"--{flag} has the parts of another backfill that is not complete, of the state {one / 'state'}" in message
        )
        assert f"remove {one / flag / '.spotsieve-backfill'}" in message
    assert not backfilled(names, one, settings, batch_pages=3).interrupted
    assert not [path for flag in ("out", "verdicts", "rejected") for path in (one / flag).glob(".*")]
    assert main(["backfill", names[0], "--out", str(tmp_path / "new"), "--state", str(tmp_path / "two")]) == EXIT_OK


@pytest.mark.parametrize("step", ["release_directory", "RunFile.complete"])
def test_a_run_that_is_killed_at_its_end_leaves_no_claim_behind(
    step: str, tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    given = ["backfill", str(pages), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state")]
    with monkeypatch.context() as killing:
        killing.setattr(f"spotsieve.stream.local.backfill.run.{step}", kill)
        assert main(given) == EXIT_INTERRUPTED
    assert main(given) == EXIT_OK
    assert not list((tmp_path / "out").glob(".*"))


def test_a_directory_at_a_url_takes_the_parts_of_one_run_at_a_time(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    one, two = tmp_path / "one", tmp_path / "two"
    assert claim_directory("out", "memory://out/", "1", one)
    assert not claim_directory("out", "memory://out", "1", tmp_path / "moved")  # The same run.
    assert not claim_directory("out", "memory://out", "2", one)  # The same state.
    rule = "--out has the parts of another backfill that is not complete, of the state .*one on .*memory://out"
    with pytest.raises(SettingError, match=rule):
        claim_directory("out", "memory://out", "2", two)
    release_directory("memory://out", "2", two)
    with pytest.raises(SettingError, match=rule):
        claim_directory("out", "memory://out", "2", two)
    release_directory("memory://out", "1", one)
    release_directory("memory://out", "1", one)
    assert claim_directory("out", "memory://out", "2", two)
    memory.pipe("/out/.spotsieve-backfill", b"{}")
    with pytest.raises(SettingError, match="of the state unknown on unknown"):
        claim_directory("out", "memory://out", "2", two)
    memory.store.clear()


@pytest.mark.parametrize("content", [b"", b'{"run": "1", "host": '])
@pytest.mark.parametrize("place", ["local", "memory://out"])
def test_a_claim_that_a_killed_run_left_incomplete_is_replaced(place: str, content: bytes, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / CLAIM).write_bytes(content)
    memory.pipe(f"/out/{CLAIM}", content)
    directory = place if ":" in place else str(tmp_path / place)
    assert claim_directory("out", directory, "1", tmp_path / "one")
    with pytest.raises(SettingError, match=f"of the state {tmp_path / 'one'}"):
        claim_directory("out", directory, "2", tmp_path / "two")
    memory.store.clear()


def test_a_run_whose_claim_is_incomplete_continues(tmp_path: Path) -> None:
    names, settings = write_inputs(tmp_path, "jsonl"), Settings()
    assert backfilled(names, tmp_path, settings, stopped=after(2), batch_pages=3).interrupted
    for flag in ("out", "verdicts", "rejected"):
        (tmp_path / flag / CLAIM).write_bytes(b"")
    assert not backfilled(names, tmp_path, settings, batch_pages=3).interrupted
    assert not [path for flag in ("out", "verdicts", "rejected") for path in (tmp_path / flag).glob(".*")]


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Fail writes of more than ten bytes to a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_claim_that_a_full_disk_cuts_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "--out cannot be written: File too large"
    with full_disk(), pytest.raises(SettingError, match=rule):
        claim_directory("out", str(tmp_path), "1", tmp_path / "one")
    assert not list(tmp_path.iterdir())
    with contextlib.ExitStack() as filling:

        def fill_disk(*_: object) -> None:
            filling.enter_context(full_disk())
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", fill_disk)
        with pytest.raises(SettingError, match=rule):
            claim_directory("out", str(tmp_path), "1", tmp_path / "one")
    assert not list(tmp_path.iterdir())


def test_a_run_claims_a_directory_on_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert claim_directory("out", str(tmp_path), "1", tmp_path / "one")
    assert not claim_directory("out", str(tmp_path), "1", tmp_path / "one")
    with pytest.raises(SettingError, match="of another backfill"):
        claim_directory("out", str(tmp_path), "2", tmp_path / "two")
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM]


def test_a_refused_run_releases_the_directories_that_it_claimed(
    tmp_path: Path, pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, claimed = tmp_path / "out", tmp_path / "claimed"
    claimed.mkdir()
    claim_directory("verdicts", str(claimed), "1", tmp_path / "one")
    given = (pages, "--out", out, "--verdicts", claimed, "--state", tmp_path / "two")
    assert "--verdicts has the parts of another backfill" in refused(capsys, *given)
    assert not list(out.iterdir())
    assert [path.name for path in claimed.iterdir()] == [CLAIM]
    assert main(["backfill", str(pages), "--out", str(out), "--state", str(tmp_path / "three")]) == EXIT_OK


def test_a_run_releases_its_own_claims_only(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    claim_directory("out", str(tmp_path), "1", one)
    release_directory(str(tmp_path), "2", two)
    assert (tmp_path / CLAIM).exists()
    release_directory(str(tmp_path), "2", one)  # A later run of the same state.
    release_directory(str(tmp_path), "2", one)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("library", ["numpy", "rocksdict"])
def test_an_interrupt_while_it_loads_shows_no_traceback(tmp_path: Path, pages: Path, library: str) -> None:
    command = [sys.executable, "-m", "spotsieve.stream", "backfill", str(pages), "--state", str(tmp_path / "state")]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def has_loaded() -> bool:
        try:
            return any(library in part.path for part in psutil.Process(running.pid).memory_maps())
        except psutil.ZombieProcess:
            return True  # This process stood still for longer than the command took.

    wait_until(has_loaded, SECONDS, f"{library} to be loaded", every=0.01)
    os.killpg(running.pid, signal.SIGINT)
    message = running.communicate(timeout=SECONDS)[1]
    assert "Traceback" not in message
    # On a busy machine it may be at its end already: there Python has given the signal its default back.
    assert running.returncode in (EXIT_INTERRUPTED, EXIT_OK, -signal.SIGINT)


def test_a_snapshot_is_answered_while_records_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = list[int]()
    monkeypatch.setattr("spotsieve.stream.local.engines.LocalEngine.answer_requests", lambda _: answered.append(1))
    backfilled(write_inputs(tmp_path, "jsonl"), tmp_path, Settings())
    assert len(answered) > 3
    assert records_out(tmp_path)
