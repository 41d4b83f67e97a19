"""Remembers which run a state directory is in the middle of, and which of its inputs are done.

DIR/backfill/run.json    {"version", "settings": digest, "shards", "inputs": [[source, size], ...], "outputs": {...},
                         "id": what begins the writer of its records, "first_round", "complete", "entries"}
DIR/backfill/done.jsonl  {"input": number, "counts": {...}, "faults": [{...}, ...]}, a line for each that is done
"""

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE, open_file
from spotsieve.stream.base.errors import InputError, SettingError, StateError
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import write_whole
from spotsieve.stream.files.targets import place_of
from spotsieve.stream.local.backfill.outcomes import DIRECTORY
from spotsieve.stream.local.summary import FilterSummary

VERSION = 2
_ID_DIGITS = 16
_RUN, _DONE = "run.json", "done.jsonl"
_SAME = ("settings", "inputs", "outputs")
"""What makes a run the same one."""


class RunFile:
    """The run of a state directory. done: what there was in each input that is done, by its number"""

    def __init__(self, directory: Path, run: dict[str, Any]) -> None:
        """directory: of the state; it has a folder for backfills. run: as of run.json"""
        self._directory, self._run = directory / DIRECTORY, run
        self.done = _read_done(self._directory / _DONE)

    @property
    def first_round(self) -> int:
        """The number of the run's first round among the outcomes."""
        return int(self._run["first_round"])

    def begin(self, first_round: int) -> None:
        """Write that the run has begun. Raises InputError where that cannot be written."""
        (self._directory / _DONE).unlink(missing_ok=True)
        self.done = {}
        self._run |= {"first_round": first_round}
        self._write()

    def finish(self, number: int, summary: FilterSummary) -> None:
        """An input is done. Raises StateError."""
        line = json.dumps({"input": number, **_as_json(summary)}).encode() + b"\n"
        try:
            with open_file(self._directory / _DONE, "ab") as file:
                file.write(line)
        except OSError as error:
            raise StateError(
                str(self._directory / _DONE), f"cannot be written: {error.strerror}", None, "free disk space"
            ) from None
        self.done[number] = summary

    def complete(self, entries: int) -> None:
        """All inputs are done. entries: of the state"""
        self._run |= {"complete": True, "entries": entries}
        self._write()

    def _write(self) -> None:
        write_whole(self._directory / _RUN, json.dumps(self._run, indent=1).encode())


def find_unfinished_run(directory: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The run that a state directory is in the middle of, which this one continues; None if there is none.

    wanted: as of described(). Raises SettingError where it is another run, StateError where the file cannot be read.
    """
    path = directory / DIRECTORY / _RUN
    try:
        run = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise StateError("--state", "has a run file that cannot be read", str(path), _GIVE_UP.format(path)) from None
    if isinstance(run, dict) and run.get("complete"):
        return None
    if not isinstance(run, dict) or run.get("version") != VERSION:
        raise StateError("--state", "has the run file of another release", str(path), _GIVE_UP.format(path))
    for name in _SAME:
        if run.get(name) != wanted[name]:
            raise SettingError(
                "--state",
                f"has a backfill that was interrupted, with other {name}{_difference(run.get(name), wanted[name])}",
                str(directory),
                f"run it again as it was; {_GIVE_UP.format(path)}",
            )
    return run


def find_complete_run(directory: Path, wanted: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Any] | None:
    """The last run of a state directory, if it was this one and came to its end, and nothing was written since.

    wanted: as of described()  inputs: that one of a later time holds what the run has not read
    """
    path = directory / DIRECTORY / _RUN
    try:
        run, ended = json.loads(path.read_bytes()), path.stat().st_mtime
        unchanged = all(file.path is not None and file.path.stat().st_mtime <= ended for file in inputs)
    except (OSError, ValueError):
        return None
    has_state = (directory / LOG_FILE).is_file() and (directory / INDEX_FOLDER).is_dir()
    is_this = isinstance(run, dict) and all(run.get(name) == wanted[name] for name in ("version", *_SAME))
    return run if unchanged and has_state and is_this and run.get("complete") and "entries" in run else None


_GIVE_UP = "or delete {} to give up the rest of it"


def run_description(
    settings_digest: bytes, inputs: Sequence[Input], outputs: Mapping[str, str | None]
) -> dict[str, Any]:
    """What a run is: it goes on only with the same."""
    return {
        "version": VERSION,
        "settings": settings_digest.hex(),
        "inputs": [[file.source, file.size] for file in inputs],
        "outputs": {flag: name and place_of(name) for flag, name in outputs.items()},
        "id": uuid.uuid4().hex[:_ID_DIGITS],
        "first_round": 0,
        "complete": False,
        "entries": 0,
    }


def _difference(before: object, now: object) -> str:
    """Of lists and objects, the first thing that differs, in a few words."""
    if isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            return f": {len(before):,} then, {len(now):,} now"
        number = next(row for row, pair in enumerate(zip(before, now, strict=True)) if pair[0] != pair[1])
        return f": number {number + 1:,} was {before[number][0]} of {before[number][1]} bytes"
    if isinstance(before, dict) and isinstance(now, dict):
        name = next((name for name in now if before.get(name) != now[name]), "")
        return f": --{name} was {before.get(name)}"
    return ""


def _as_json(summary: FilterSummary) -> dict[str, Any]:
    counts = {one.name: getattr(summary, one.name) for one in fields(summary) if one.name != "faults"}
    faults = [{"name": fault.name, "rule": fault.rule, "next_step": fault.next_step} for fault in summary.faults]
    return {"counts": counts, "faults": faults}


def _read_done(path: Path) -> dict[int, FilterSummary]:
    done = dict[int, FilterSummary]()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return done
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            continue  # A run that is killed may leave half a line: that input is read once more.
        counts = told["counts"]
        summary = FilterSummary()
        for name, value in counts.items():
            before = getattr(summary, name)
            setattr(summary, name, Counter(value) if isinstance(before, Counter) else value)
        summary.faults = [InputError(**fault) for fault in told["faults"]]
        done[told["input"]] = summary
    return done
