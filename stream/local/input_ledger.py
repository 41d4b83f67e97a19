"""Remembers by which settings of [input], and against which other states, the files of a state were filtered.

A page that was judged keeps its verdict when its file is filtered again. Under other input settings the page would be
another text with the verdict of the former one. Against other states, copies could be dropped for a page that is
dropped too, and emitted nowhere. Such runs are rejected.

DIR/inputs.jsonl  {"input": {setting: value, ...}, "against": [log id, ...], "sources": [path, ...]}, one line for each
run with new files; without "against" for none. The last line with a source counts. Standard input is another file in
each run, so its first record belongs to its name.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from spotsieve.state.directory import INPUTS_FILE, open_file
from spotsieve.stream.base.errors import SettingError, StateError, write_advice
from spotsieve.stream.base.settings.model import InputSettings


class _How(NamedTuple):
    """How a file was filtered. input: settings of [input]  against: log ids of the other states, sorted"""

    input: dict[str, Any]
    against: list[str]


def check_and_note_inputs(
    directory: Path,
    settings: InputSettings,
    sources: Sequence[str],
    is_known: Callable[[str], bool],
    against: Collection[str] = (),
) -> None:
    """Check that known files are filtered as in their first run, and note how the other files are.

    directory: of the state  sources: the paths of the run's files  is_known: whether the state has pages of a path
    against: the log ids of the other states
    Raises SettingError, and StateError if the ledger cannot be read or written.
    """
    path, wanted = directory / INPUTS_FILE, _How(as_json(settings), sorted(against))
    noted = _read(path)
    for source in sources:
        before = noted.get(source, wanted)
        if before == wanted or not is_known(source):
            continue
        if before.input != wanted.input:
            rule = f"that were read by other input settings{difference(before.input, wanted.input)}"
            then = "restore these settings"
        else:
            others = ", ".join(log[:12] for log in before.against) or "no other state"
            rule, then = f"that were filtered against {others} (log ids)", "name these states with --against"
        raise SettingError(
            "--state",
            f"has pages of {source} {rule}",
            str(directory),
            f"a judged page keeps its verdict: {then}, name another --state, or rename a file whose records are new",
        )
    new = [source for source in sources if noted.get(source) != wanted]
    if new:
        _note(path, wanted, new)


def name_of_stream(source: str, number: int) -> str:
    """The name of an input without a path of its own. number: of the content of its first record (content_number)"""
    return f"{source} with the first record {number:08x}"


def carry_inputs(old: Path, new: Path, settings: InputSettings | None) -> None:
    """Note in a new state how the files of an old one were read: their pages keep their ids.

    settings: how they are read again; None: they are not. Raises StateError.
    """
    noted, known = _read(old / INPUTS_FILE), _read(new / INPUTS_FILE)
    if settings is not None:
        noted = {source: how._replace(input=as_json(settings)) for source, how in noted.items()}
    changed = [(source, wanted) for source, wanted in noted.items() if known.get(source) != wanted]
    for wanted, group in groupby(changed, key=itemgetter(1)):
        _note(new / INPUTS_FILE, wanted, [source for source, _ in group])


def append_json_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append a line to a file of a state directory. Raises StateError."""
    with write_errors(path), open_file(path, "ab") as file:
        # A killed run may have left half a line.
        file.write(b"\n" + json.dumps(value).encode() + b"\n")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise an OSError in the block as the StateError of a file that cannot be written."""
    try:
        yield
    except OSError as error:
        then = f"{write_advice(error)}, and run again"
        raise StateError(str(path), f"cannot be written: {error.strerror}", None, then) from None


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file that append_json_line wrote; none if there is no file. Raises StateError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(str(path), f"cannot be read: {error.strerror}", None, "check its permissions") from None
    for line in lines:
        # A killed run may leave half a line.
        with suppress(ValueError):
            yield json.loads(line)


@contextmanager
def line_errors(path: Path, then: str) -> Iterator[None]:
    """Raise an error about the value of a line as a StateError about its file. then: the advice"""
    try:
        yield
    except (AttributeError, KeyError, TypeError):
        raise StateError(str(path), "has a line without the fields that it needs", None, then) from None


def as_json(settings: InputSettings) -> dict[str, Any]:
    """All settings of [input], by dotted name without "input."."""
    return _flat(settings.model_dump(mode="json"), "")


def difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The first setting that differs, with its former value, as the rest of a clause; "" if none differs."""
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            return f": input.{name} was {json.dumps(before.get(name))}"
    return ""


def _flat(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat = dict[str, Any]()
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _note(path: Path, how: _How, sources: Sequence[str]) -> None:
    others = {"against": how.against} if how.against else {}
    append_json_line(path, {"input": how.input, **others, "sources": sources})


def _read(path: Path) -> dict[str, _How]:
    """How each file was filtered, by source."""
    defaults, noted = as_json(InputSettings()), dict[str, _How]()
    with line_errors(path, "remove that line, or restore the file from a snapshot"):
        for written in read_json_lines(path):
            # A setting that a later release adds had its default.
            how = _How(defaults | written["input"], written.get("against", []))
            noted |= dict.fromkeys(written["sources"], how)
    return noted
