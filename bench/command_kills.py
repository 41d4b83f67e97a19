"""Kills every command that writes at random moments, fills its disk, and runs it again: `make kills`.

Writes docs/measured/command-kills.md. A command runs in a process of its own, which gets SIGKILL after a random time or
at one of its changes of the file system (an audit hook counts them), or its disk is full. Then the same command runs to
its end. Its result must equal that of an undisturbed run, or it must be refused, with a next step that leads there.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

from bench.command import MEASURED
from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.meta import StatePart
from spotsieve.state.portable.export import export_lines
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_INTERRUPTED, EXIT_OK, SpotsieveError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.cli import main as spotsieve
from spotsieve.stream.local.backfill.processes.server import PRELOADED_MODULES
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.filter_crawl import article
from tests.fixtures.migrations import PAGES as PAGES_OF_SHARDS
from tests.fixtures.small_disk import SmallDisk
from tests.fixtures.states.shards import OneProcess, Shards

DOCUMENT = MEASURED / "command-kills.md"
PAGES, SHARDS, SPLIT_SHARDS = 120, 2, 3
SMALL = "--set service.batch_pages=8 --set index.write_buffer_mb=1"
NEW_STATE = f"{SMALL} --set index.salt_from={{given}}/state"
"""The salt of a new state is drawn at random, and keys what it remembers: two runs compare only with the same one."""
MIN_CONTAINMENT = 0.9
DISK_KIB = 65_536
MOST_SECONDS = 120.0
PRELOADED = [
    *PRELOADED_MODULES,
    "spotsieve.stream.cli.filter",
    "tests.fixtures.states.shards",
    "tests.fixtures.loaded_kernels",
]
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


# ---- processes ------------------------------------------------------------------------------------------------------


class ProcessEnd(NamedTuple):
    """The end of a process. code: exit code, negative for a signal  error: standard error  changes: of files"""

    code: int
    error: str
    changes: int


def run_and_exit(arguments: Sequence[str], work: str, change: int, report: str) -> None:
    """Run a command in this process. change: the number of the change below `work` at which it is killed; 0: none"""
    changes = 0

    def count(event: str, given: tuple[Any, ...]) -> None:
        nonlocal changes
        opens = event == "open" and isinstance(given[2], int) and bool(given[2] & _WRITES)
        if (opens or event in _CHANGES) and str(given[0]).startswith(work):
            changes += 1
            if changes == change:
                os.kill(os.getpid(), signal.SIGKILL)

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(f"{report}/error", os.O_WRONLY | os.O_CREAT), 2)
    sys.addaudithook(count)
    code = spotsieve(arguments)
    sys.stderr.flush()
    Path(report, "changes").write_text(str(changes), "utf-8")
    os._exit(code)


class Runner:
    """Runs commands in processes that are forked from one that has loaded everything."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)

    def run(self, line: str, work: Path, change: int = 0, after_s: float = MOST_SECONDS) -> ProcessEnd:
        """Run a command to its end, or kill it. change: number of a change below `work`  after_s: a time"""
        with tempfile.TemporaryDirectory() as report:
            given = (line.split(), str(work), change, report)
            process: ForkServerProcess = self._context.Process(target=run_and_exit, args=given)
            process.start()
            process.join(after_s)
            if process.exitcode is None:
                process.kill()
                process.join()
            error, changes = Path(report, "error"), Path(report, "changes")
            return ProcessEnd(
                process.exitcode or 0,
                error.read_text("utf-8") if error.exists() else "",
                int(changes.read_text("utf-8")) if changes.exists() else 0,
            )

    def must(self, line: str, work: Path) -> ProcessEnd:
        """Run a command. Raises RuntimeError if it fails."""
        ended = self.run(line, work)
        if ended.code != EXIT_OK:
            raise RuntimeError(f"spotsieve {line} ended with {ended.code}: {ended.error}")
        return ended


# ---- inputs ---------------------------------------------------------------------------------------------------------


def write_inputs(given: Path, runner: Runner) -> None:
    """Write pages, a state over them, an export, a snapshot, and the states of shards."""
    lines = list[str]()
    for number in range(PAGES):
        text = article(number if number % 3 else number // 2)
        lines.append(json.dumps({"url": f"https://h{number % 4}.example/{number}", "body": f"Page {number}. {text}"}))
    for name, part in ("pages", lines), ("half-0", lines[::2]), ("half-1", lines[1::2]):
        (given / f"{name}.jsonl").write_text("\n".join(part) + "\n", "utf-8")
    runner.must(f"filter {given}/pages.jsonl --state {given}/state {SMALL}", given)
    runner.must(f"state export --state {given}/state --out {given}/export.jsonl", given)
    runner.must(f"state snapshot {given}/snapshot --state {given}/state", given)
    settings = Settings()
    one = OneProcess(scheme_in_scope(settings), settings.index)
    one.sign(one.scheme.sign(PAGES_OF_SHARDS))
    cluster = Shards(one, SHARDS)
    for number in range(SHARDS):
        part_of = StatePart(number, SHARDS)
        stored = disk_state(given / f"shard-{number}", verdict_settings_text(settings), "log", IndexSettings(), part_of)
        cluster.put(number, stored)
    cluster.apply(one.log, [40])
    for state in cluster.states:
        state.close()


# ---- results --------------------------------------------------------------------------------------------------------


def content_of(state: Path) -> list[bytes]:
    """All that a state remembers. Raises AssertionError if the state is damaged."""
    found = verify(state)
    assert not found.damaged, found.damages
    with read_only_state(state, MOST_SECONDS) as still:
        lines = b"\n".join(export_lines(still)).split(b"\n")
    # The header and the trailer hold the position in the log, which may have more records after a kill.
    return [line for line in lines[1:] if b"xxh3_128" not in line]


def caught_up(work: Path, settings: Settings | None = None) -> list[bytes]:
    """All that a state with a local log remembers after its next start."""
    settings = settings or Settings()
    with LocalEngine(work / "state", settings, scheme_in_scope(settings)):
        pass
    return content_of(work / "state")


def filter_result(work: Path) -> object:
    """State, verdicts and output of a filter. The reason is left out: a page that is judged again has another one."""
    verdicts = [json.loads(line) for line in (work / "verdicts").read_text("utf-8").splitlines()]
    judged = [(line["id"], line["verdict"], line["duplicate_of"]) for line in verdicts]
    return caught_up(work), judged, (work / "out").read_bytes()


def backfill_result(work: Path) -> object:
    """State and outputs of a backfill."""
    return caught_up(work), {path.name: path.read_bytes() for path in (work / "out").iterdir()}


def migrate_result(work: Path) -> object:
    """State, counts and differences of a migration."""
    folder = work / "state" / "migration"
    differences = [json.loads(line) for line in (folder / "differences.jsonl").read_text("utf-8").splitlines()]
    pages = [(line["page"], line["old"]["verdict"], line["new"]["verdict"]) for line in differences]
    settings = Settings.model_validate({"scheme": {"min_containment": MIN_CONTAINMENT}})
    return caught_up(work, settings), json.loads((folder / "journal.json").read_bytes())["counts"], pages


def split_result(work: Path) -> object:
    """Content of all shards that a split made. No other file may be left of them."""
    assert sorted(path.name for path in (work / "split").iterdir()) == [f"shard-{n}" for n in range(SPLIT_SHARDS)]
    contents = list[object]()
    for number in range(SPLIT_SHARDS):
        assert not verify(work / "split" / f"shard-{number}").damaged
        with read_only_state(work / "split" / f"shard-{number}", MOST_SECONDS, part=True) as still:
            contents.append((list(still.items()), still.last_outcome, still.identity))
    return contents


def state_result(work: Path) -> object:
    """Content of a new state."""
    return content_of(work / "state")


def import_result(work: Path) -> object:
    """Content of an imported state. The command leaves it to its user to copy the log."""
    shutil.copy(work / LOG_FILE, work / "state" / LOG_FILE)
    return content_of(work / "state")


class WritingCommand(NamedTuple):
    """A command that writes.

    line: its arguments; {given} is the folder of the inputs, {work} the folder that it may write to
    result: content of its result, without differences between equal runs
    copies: the inputs that are copied to {work} before, by their names there
    """

    line: str
    result: Callable[[Path], object]
    copies: Mapping[str, str] = {}


COMMANDS = {
    "filter": WritingCommand(
        "filter {given}/pages.jsonl --state {work}/state --out {work}/out --verdicts {work}/verdicts " + NEW_STATE,
        filter_result,
    ),
    "backfill": WritingCommand(
        "backfill {given}/half-0.jsonl {given}/half-1.jsonl --readers 1 --state {work}/state --out {work}/out "
        + NEW_STATE,
        backfill_result,
    ),
    "migrate": WritingCommand(
        f"migrate --from-state {{work}}/old --state {{work}}/state --set scheme.min_containment={MIN_CONTAINMENT}",
        migrate_result,
        {"old": "state"},
    ),
    "state snapshot": WritingCommand(
        "state snapshot {work}/snapshot --state {work}/state",
        lambda work: content_of(work / "snapshot"),
        {"state": "state"},
    ),
    "state restore": WritingCommand("state restore {given}/snapshot --state {work}/state", state_result),
    "state export": WritingCommand(
        "state export --state {given}/state --out {work}/export.jsonl",
        lambda work: (work / "export.jsonl").read_bytes(),
    ),
    "state import": WritingCommand(
        "state import {given}/export.jsonl --state {work}/state", import_result, {LOG_FILE: f"state/{LOG_FILE}"}
    ),
    "state forget": WritingCommand(
        "state forget --state {work}/state --url https://h1.example/1 --url https://h2.example/2",
        caught_up,
        {"state": "state"},
    ),
    "state merge": WritingCommand(
        f"state merge {' '.join(f'{{given}}/shard-{number}' for number in range(SHARDS))} --state {{work}}/state",
        state_result,
    ),
    "state split": WritingCommand(
        f"state split {' '.join(f'{{given}}/shard-{number}' for number in range(SHARDS))} --shards {SPLIT_SHARDS} "
        "--out {work}/split",
        split_result,
    ),
}


# ---- disturbances ---------------------------------------------------------------------------------------------------

BEFORE, RESUMED, REFUSED, WRONG = "ended before", "equal after a second run", "refused, equal", "wrong"
"""The outcomes of a disturbed run: the command was faster; a second run made the same result; the second run said what
to do instead, and the result is the same; anything else."""
OUTCOMES = (BEFORE, RESUMED, REFUSED, WRONG)
AT_TIME, AT_CHANGE, FULL = "killed after a random time", "killed at a change of files", "full disk"


class CommandTrial:
    """One command, its undisturbed result, and the results of disturbed runs.

    seconds, changes: duration of the undisturbed run, and the number of its changes of files
    faults: for people, what went wrong
    """

    def __init__(self, name: str, given: Path, runner: Runner, scratch: Path) -> None:
        self.faults = list[str]()
        self._name, self._command, self._given = name, COMMANDS[name], given
        self._runner, self._scratch = runner, scratch
        with self._folder(scratch) as work:
            before, began = _kib(work), time.monotonic()
            self.changes = runner.must(self._line(work), work).changes
            self.seconds = time.monotonic() - began
            self._written_kib = max(8, _kib(work) - before)
            self._expected = self._command.result(work)

    def kill(self, change: int = 0, after_s: float = MOST_SECONDS) -> str:
        """Kill the command and run it again. Returns the outcome."""
        with self._folder(self._scratch) as work:
            first = self._runner.run(self._line(work), work, change, after_s)
            how = f"killed at change {change} of {self.changes}" if change else f"killed after {after_s:.3f} s"
            if first.code > 0:
                return self._fault(f"{how}: ended with {first.code}: {first.error}")
            return self._judged(work, first, BEFORE, how) if first.code == EXIT_OK else self._again(work, how)

    def fill(self, disk: SmallDisk, share: float) -> str:
        """Run the command on a full disk, then with room. share: from 0 (4 KiB of room) to 1 (as its files)"""
        room_kib = int(2 ** (2 + share * math.log2(self._written_kib / 4)))
        with self._folder(disk.path) as work:
            ballast = disk.fill(room_kib)
            first = self._runner.run(self._line(work), work)
            ballast.unlink()
            how = f"{room_kib} KiB of {self._written_kib} ({first.error.strip()})"
            if first.code == EXIT_OK:
                return self._judged(work, first, BEFORE, how)
            if first.code < 0 or not first.error.strip() or "Traceback" in first.error:
                return self._fault(f"{how}: ended with {first.code}")
            return self._again(work, how)

    def _again(self, work: Path, how: str) -> str:
        second = self._runner.run(self._line(work), work)
        if second.code == EXIT_OK:
            return self._judged(work, second, RESUMED, how)
        if second.code < 0 or second.code == EXIT_INTERRUPTED or ";" not in second.error or "Traceback" in second.error:
            return self._fault(f"{how}: the second run ended with {second.code}: {second.error}")
        return self._judged(work, second, REFUSED, how)

    def _judged(self, work: Path, ended: ProcessEnd, outcome: str, how: str) -> str:
        try:
            same = self._command.result(work) == self._expected
        except (AssertionError, OSError, SpotsieveError, ValueError) as error:
            return self._fault(f"{how}: {outcome}, {ended.error.strip()}: {error!r}")
        return outcome if same else self._fault(f"{how}: {outcome}, and the result differs: {ended.error.strip()}")

    def _fault(self, text: str) -> str:
        self.faults.append(f"{self._name}: {text}")
        return WRONG

    def _line(self, work: Path) -> str:
        return self._command.line.format(given=self._given, work=work)

    @contextlib.contextmanager
    def _folder(self, parent: Path) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=parent) as made:
            for name, source in self._command.copies.items():
                copy = shutil.copytree if (self._given / source).is_dir() else shutil.copy
                copy(self._given / source, Path(made, name))
            yield Path(made)


def _kib(folder: Path) -> int:
    return sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file()) // 2


def disturb(
    trial: CommandTrial, chance: random.Random, runs: Mapping[str, int], disk: SmallDisk
) -> dict[str, Counter[str]]:
    """Disturb a command. runs: number of runs of each kind"""
    found = {how: Counter[str]() for how in runs}
    for _ in range(runs[AT_TIME]):
        found[AT_TIME][trial.kill(after_s=chance.uniform(0.02, trial.seconds))] += 1
    for _ in range(runs[AT_CHANGE]):
        found[AT_CHANGE][trial.kill(change=chance.randint(1, trial.changes))] += 1
    for _ in range(runs[FULL]):
        found[FULL][trial.fill(disk, chance.random())] += 1
    return found


# ---- document -------------------------------------------------------------------------------------------------------

ABOUT = """# Commands that are killed, or meet a full disk

Each command that writes runs over {pages} pages, in a process that gets SIGKILL after a random time or at one of its
changes of the file system, or on a disk that gets full. Then the same command runs again. "Equal": the result equals
that of an undisturbed run. "Refused": the command says that its result is complete, and what to do instead. Written by
`make kills` on {date}, seed {seed}.
"""


def document(counts: Mapping[tuple[str, str], Counter[str]], date: str, seed: int) -> str:
    """The text of the document."""
    rows = [["command", "disturbance", *OUTCOMES], ["---", "---", *("---:" for _ in OUTCOMES)]]
    rows += [[f"`{name}`", how, *(str(found[key]) for key in OUTCOMES)] for (name, how), found in counts.items()]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{ABOUT.format(pages=PAGES, date=date, seed=seed)}\n{table}\n"


def main(arguments: list[str] | None = None) -> int:
    """Disturb all commands and write the document. Returns 1 if a result was wrong."""
    parser = argparse.ArgumentParser("python -m bench.command_kills", description="Kill every command that writes.")
    parser.add_argument("--runs", type=int, default=40, help="runs of each command and kind of disturbance (40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=COMMANDS, help="one command; the document stays as it is")
    parser.add_argument("--short", action="store_true", help="a kill at a change, a full disk, and no document")
    options = parser.parse_args(arguments)
    runs = (
        {AT_TIME: 0, AT_CHANGE: 1, FULL: 1}
        if options.short
        else dict.fromkeys((AT_TIME, AT_CHANGE, FULL), options.runs)
    )
    counts, faults = dict[tuple[str, str], Counter[str]](), list[str]()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # So that the disk is unmounted.
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        disk = stack.enter_context(SmallDisk(scratch / "disk", DISK_KIB))
        runner, given = Runner(), scratch / "given"
        given.mkdir()
        write_inputs(given, runner)
        for name in [options.only] if options.only else COMMANDS:
            trial = CommandTrial(name, given, runner, scratch)
            for how, found in disturb(trial, random.Random(f"{options.seed} {name}"), runs, disk).items():
                counts[name, how] = found
                print(json.dumps({"command": name, "disturbance": how, **found}), flush=True)
            print(*trial.faults, sep="\n", file=sys.stderr, flush=True)
            faults += trial.faults
    if not options.only and not options.short:
        DOCUMENT.write_text(document(counts, time.strftime("%Y-%m-%d", time.gmtime()), options.seed), "utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
