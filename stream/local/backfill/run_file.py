"""The run file of a state directory: which backfill is in progress, and which of its inputs are done.

DIR/backfill/run.json    {"version", "settings": digest, "input": {setting: value, ...}, "inputs": [[source, size],
                         ...], "outputs": {...}, "against": [directory, ...], "cluster_ids", "text", "id": prefix of the
                         writer of its records, "log_id", "first_round", "complete", "faults": number of inputs that
                         were not read to their end, "entries"}
DIR/backfill/against/    checkpoints of the states in "against" that are no snapshots, until the run is complete
DIR/backfill/done.jsonl  {"input": number, "counts": {...}, "exact_copies": {...}, "faults": [{...}, ...]}, one line per
                         finished input
"""

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE, write_durably
from spotsieve.state.format.meta import LogIdentity
from spotsieve.stream.base.errors import InputError, SettingError, StateError
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.targets import place_of
from spotsieve.stream.local.backfill.outcomes import DIRECTORY
from spotsieve.stream.local.input_ledger import (
    append_json_line,
    as_json,
    difference,
    line_errors,
    read_json_lines,
    write_errors,
)
from spotsieve.stream.local.summary import ExactCopies, FilterSummary

VERSION = 4
_ID_DIGITS = 16
_RUN, _DONE = "run.json", "done.jsonl"
_SAME = ("settings", "input", "inputs", "outputs", "against", "cluster_ids", "text")
"""Fields that identify a run."""
_OTHERWISE_WRITTEN = ("exact_copies", "faults")
"""Fields of a summary that are no counts."""
_NAMES = {"input": "input settings", "against": "states in --against", "cluster_ids": "--cluster-ids", "text": "--text"}


class RunFile:
    """The run file of a state directory. done: summaries of the finished inputs, by input number"""

    def __init__(self, directory: Path, run: dict[str, Any]) -> None:
        """directory: of the state, with a folder for backfills  run: content of run.json"""
        self._directory, self._run = directory / DIRECTORY, run
        self.done = _read_done(self._directory / _DONE)

    @property
    def first_round(self) -> int:
        """Number of the run's first round in the outcome store."""
        return int(self._run["first_round"])

    def check_log(self, log: LogIdentity) -> None:
        """Check that the interrupted run judged by this log. Raises StateError."""
        begun = self._run.get("log_id")
        if begun != log.id.hex():
            raise StateError(
                "--state",
                f"has the log {log}, and its interrupted backfill belongs to the log {str(begun)[:12]}",
                str(self._directory.parent),
                f"restore the log and the index of that run; {_GIVE_UP.format(self._directory / _RUN)}",
            )

    def begin(self, first_round: int, log: LogIdentity) -> None:
        """Record the start of the run over this log. Raises StateError if the file cannot be written."""
        with write_errors(self._directory / _DONE):
            (self._directory / _DONE).unlink(missing_ok=True)
        self.done = {}
        self._run |= {"first_round": first_round, "log_id": log.id.hex()}
        self._write()

    def finish(self, number: int, summary: FilterSummary) -> None:
        """Record that an input is finished. Raises StateError if the file cannot be written."""
        append_json_line(self._directory / _DONE, {"input": number, **_as_json(summary)})
        self.done[number] = summary

    def complete(self, entries: int, faults: int) -> None:
        """Record that all inputs are finished.

        entries: number of entries in the state  faults: number of inputs that could not be read to their end
        Raises StateError if the file cannot be written.
        """
        self._run |= {"complete": True, "entries": entries, "faults": faults}
        self._write()

    def _write(self) -> None:
        with write_errors(self._directory / _RUN):
            write_durably(self._directory / _RUN, json.dumps(self._run, indent=1).encode())


def find_unfinished_run(directory: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The interrupted run of a state directory, which this run continues, or None.

    wanted: this run, from run_description
    Raises SettingError if the interrupted run differs from this one, StateError if the run file cannot be read.
    """
    path = directory / DIRECTORY / _RUN
    try:
        run = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise StateError("--state", "has an unreadable run file", str(path), _GIVE_UP.format(path)) from None
    if isinstance(run, dict) and run.get("complete"):
        return None
    if not isinstance(run, dict) or run.get("version") != VERSION:
        raise StateError("--state", "has the run file of another release", str(path), _GIVE_UP.format(path))
    for name in _SAME:
        if run.get(name) != wanted[name]:
            raise SettingError(
                "--state",
                f"has an interrupted backfill with other {_NAMES.get(name, name)}"
                f"{_difference(name, run.get(name), wanted[name])}",
                str(directory),
                f"repeat that command; {_GIVE_UP.format(path)}",
            )
    return run


def find_complete_run(directory: Path, wanted: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Any] | None:
    """The last run of a state directory, if it is this run, has read all inputs, and none has changed since; else None.

    wanted: this run, from run_description  inputs: files to check for later changes
    """
    run = _ended_run(directory, wanted, _SAME)
    try:
        ended = (directory / DIRECTORY / _RUN).stat().st_mtime
        unchanged = all(file.path is not None and file.path.stat().st_mtime <= ended for file in inputs)
    except OSError:
        return None
    has_state = (directory / LOG_FILE).is_file() and (directory / INDEX_FOLDER).is_dir()
    is_whole = run is not None and not run.get("faults") and "entries" in run
    return run if unchanged and has_state and is_whole else None


def ended_with_faults(directory: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the last run of a state directory was this run over the same paths, and did not read some to their end.

    wanted: this run, from run_description
    """
    run = _ended_run(directory, wanted, [name for name in _SAME if name != "inputs"])
    if run is None or not run.get("faults"):
        return False
    return [source for source, _ in run["inputs"]] == [source for source, _ in wanted["inputs"]]


def _ended_run(directory: Path, wanted: Mapping[str, Any], same: Sequence[str]) -> dict[str, Any] | None:
    """The last run of a state directory, if it has ended and is like this run in these fields; else None."""
    try:
        run = json.loads((directory / DIRECTORY / _RUN).read_bytes())
    except (OSError, ValueError):
        return None
    is_this = isinstance(run, dict) and all(run.get(name) == wanted[name] for name in ("version", *same))
    return run if is_this and run.get("complete") else None


_GIVE_UP = "or delete {} to abandon it"


def run_description(
    settings_digest: bytes,
    settings: InputSettings,
    inputs: Sequence[Input],
    outputs: Mapping[str, str | None],
    against: Sequence[Path],
    with_clusters: bool,
    with_text: bool,
) -> dict[str, Any]:
    """Content of run.json for a new run. A run can only be continued with equal settings, inputs, outputs and states.

    settings_digest: of the settings that change verdicts  settings: how the inputs are read
    against: the other states, whose pages are dropped  with_clusters: whether verdicts get the column "cluster"
    with_text: whether pages get their text
    """
    return {
        "version": VERSION,
        "settings": settings_digest.hex(),
        "input": as_json(settings),
        "inputs": [[file.source, file.size] for file in inputs],
        "outputs": {flag: name and place_of(name) for flag, name in outputs.items()},
        "against": list(map(str, against)),
        "cluster_ids": with_clusters,
        "text": with_text,
        "id": uuid.uuid4().hex[:_ID_DIGITS],
        "log_id": None,
        "first_round": 0,
        "complete": False,
        "faults": 0,
        "entries": 0,
    }


def _difference(field: str, before: object, now: object) -> str:
    """The first difference between two lists or objects, as text."""
    if field == "against" and isinstance(before, list):
        return f": {', '.join(before) or 'none'}"
    if isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            return f": {len(before):,} then, {len(now):,} now"
        number = next(row for row, pair in enumerate(zip(before, now, strict=True)) if pair[0] != pair[1])
        return f": number {number + 1:,} was {before[number][0]} of {before[number][1]} bytes"
    if isinstance(before, dict) and isinstance(now, dict):
        if field == "input":
            return difference(before, now)
        name = next((name for name in now if before.get(name) != now[name]), "")
        return f": --{name} was {before.get(name)}"
    return ""


def _as_json(summary: FilterSummary) -> dict[str, Any]:
    counts = {one.name: getattr(summary, one.name) for one in fields(summary) if one.name not in _OTHERWISE_WRITTEN}
    faults = [{"name": fault.name, "rule": fault.rule, "next_step": fault.next_step} for fault in summary.faults]
    return {"counts": counts, "exact_copies": asdict(summary.exact_copies), "faults": faults}


def _read_done(path: Path) -> dict[int, FilterSummary]:
    done = dict[int, FilterSummary]()
    # An input whose line was not written whole is read again.
    with line_errors(path, "remove that line: its input is then read again"):
        for written in read_json_lines(path):
            counts = written["counts"]
            summary = FilterSummary()
            for name, value in counts.items():
                before = getattr(summary, name)
                setattr(summary, name, Counter(value) if isinstance(before, Counter) else value)
            summary.exact_copies = ExactCopies(**written["exact_copies"])
            summary.faults = [InputError(**fault) for fault in written["faults"]]
            done[written["input"]] = summary
    return done
