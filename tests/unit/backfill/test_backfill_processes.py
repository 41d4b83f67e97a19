"""Readers are processes of this machine: a killed one is replaced, none outlives the command, verdicts stay."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.local.backfill.parts import Parts
from spotsieve.stream.local.backfill.processes.readers import ProcessReaders
from spotsieve.stream.local.backfill.processes.server import PRELOADED_MODULES
from spotsieve.stream.local.backfill.run import Backfill, BackfillProgress
from spotsieve.stream.local.backfill.schedule import LostReader
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.backfills import backfilled, records_out, verdict_rows, write_inputs
from tests.fixtures.waiting import SECONDS, wait_until

OUTPUTS = ("out", "verdicts", "rejected")


def test_every_module_that_readers_are_forked_with_exists() -> None:
    assert [name for name in PRELOADED_MODULES if importlib.util.find_spec(name) is None] == []


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`", fault="a reader's process is killed"
)
def test_a_reader_that_is_killed_changes_no_verdict(tmp_path: Path) -> None:
    names, settings = write_inputs(tmp_path, "warc", files=4), Settings()
    backfilled(names, tmp_path / "alone", settings)
    directory = tmp_path / "processes"
    outputs = {name: str(directory / name) for name in OUTPUTS}
    for name in outputs.values():
        Path(name).mkdir(parents=True)
    batches, messages = list[BackfillProgress](), list[str]()

    def kill(so_far: BackfillProgress) -> None:
        batches.append(so_far)
        if len(batches) == 2:
            readers.processes[0].process.kill()

    with contextlib.ExitStack() as stack:
        scheme = scheme_in_scope(settings)
        backfill = stack.enter_context(Backfill(directory / "state", settings, scheme, check_inputs(names), outputs))
        backfill.open(lambda *_: None, None)
        readers = stack.enter_context(ProcessReaders(2, settings))
        summary = backfill.run(readers, lambda: False, kill, messages.append)
    assert not summary.interrupted
    assert batches[-1].pages == summary.pages, "pages that were read once more count once"
    assert [text.split(",")[0] for text in messages] == ["reader 0 is lost"]
    assert verdict_rows(directory) == verdict_rows(tmp_path / "alone")
    assert records_out(directory) == records_out(tmp_path / "alone")


def test_what_a_reader_raises_is_raised_and_calls_of_a_lost_one_say_so(tmp_path: Path) -> None:
    (name,) = write_inputs(tmp_path, "jsonl", files=1)
    (file,) = check_inputs([name])
    parts = Parts(str(tmp_path / "no" / "such" / "part.jsonl.gz"), None, None)
    with ProcessReaders(1, Settings()) as readers:
        opened, signed = readers.call(0, "open", 0, file, parts), readers.call(0, "sign", 7)
        with pytest.raises(SettingError, match="part"):
            opened.result()
        assert signed.result() is None
        process = readers.processes[0].process
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        waits = readers.call(0, "open", 0, file, Parts(None, None, None))
        assert not waits.ready()
        process.kill()
        process.join()
        late = readers.call(0, "sign", 0)
        for call in (waits, late):
            with pytest.raises(LostReader):
                call.result()
        readers.renew(0)
        assert readers.call(0, "sign", 7).result() is None


def test_calls_and_answers_that_fill_both_pipes_come_through() -> None:
    with ProcessReaders(1, Settings()) as readers:
        large = "no input " * 100_000
        calls = [readers.call(0, "__getattribute__", large) for _ in range(20)]
        for call in calls:
            with pytest.raises(AttributeError, match="no input"):
                call.result()


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGINT], ids=["killed", "stopped"])
def test_no_reader_outlives_the_command_and_the_next_one_goes_on(tmp_path: Path, fault: signal.Signals) -> None:
    names = write_inputs(tmp_path, "jsonl", files=3)
    backfilled(names, tmp_path / "alone", Settings())
    command = [sys.executable, "-m", "spotsieve.stream", "backfill", *names, "--state", str(tmp_path / "state")]
    for output in OUTPUTS:
        command += [f"--{output}", str(tmp_path / output)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    readers = list[psutil.Process]()

    def has_written() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            readers[:] = psutil.Process(running.pid).children(recursive=True)
        return running.poll() is not None or any((tmp_path / "out").glob("0*"))

    wait_until(has_written, SECONDS, "the first part")
    os.killpg(running.pid, fault) if fault == signal.SIGINT else running.kill()
    running.wait(SECONDS)
    wait_until(lambda: not any(map(is_alive, readers)), SECONDS, "the readers to end")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert verdict_rows(tmp_path) == verdict_rows(tmp_path / "alone")
    assert records_out(tmp_path) == records_out(tmp_path / "alone")
