"""Remembers by which settings of [input] the files of a state were read.

A page that was judged keeps its verdict when its file is filtered again. Under other input settings the page would be
another text with the verdict of the former one, so such a run is rejected.

DIR/inputs.jsonl  {"input": {setting: value, ...}, "sources": [path, ...]}, one line for each run with new files. The
last line with a source counts. Standard input is another file in each run, so its first record belongs to its name.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from spotsieve.state.directory import INPUTS_FILE, open_file
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.settings.model import InputSettings

LEDGER_FILE = INPUTS_FILE


def check_and_note_inputs(
    directory: Path, settings: InputSettings, sources: Sequence[str], is_known: Callable[[str], bool]
) -> None:
    """Check that known files are read by the settings of their first run, and note the settings of the other files.

    directory: of the state  sources: the paths of the run's files  is_known: whether the state has pages of a path
    Raises SettingError, and StateError if the ledger cannot be read or written.
    """
    path, wanted = directory / LEDGER_FILE, as_json(settings)
    noted = _read(path)
    for source in sources:
        before = noted.get(source, wanted)
        if before != wanted and is_known(source):
            raise SettingError(
                "--state",
                f"has pages of {source} that were read by other input settings{difference(before, wanted)}",
                str(directory),
                "a judged page keeps its verdict: restore these settings, name another --state, or rename a file whose "
                "records are new",
            )
    _note(path, wanted, sources, noted)


def name_of_stream(source: str, number: int) -> str:
    """The name of an input without a path of its own. number: of the content of its first record (content_number)"""
    return f"{source} with the first record {number:08x}"


def carry_inputs(old: Path, new: Path, settings: InputSettings | None) -> None:
    """Note in a new state how the files of an old one were read: their pages keep their ids.

    settings: how they are read again; None: they are not. Raises StateError.
    """
    noted, known = _read(old / LEDGER_FILE), _read(new / LEDGER_FILE)
    again = None if settings is None else as_json(settings)
    for wanted, sources in groupby(noted, lambda source: again or noted[source]):
        _note(new / LEDGER_FILE, wanted, sources, known)


def _note(path: Path, wanted: dict[str, Any], sources: Iterable[str], noted: Mapping[str, dict[str, Any]]) -> None:
    """Append a line for the sources that are not noted with these settings, if any."""
    new = [source for source in sources if noted.get(source) != wanted]
    if new:
        append_json_line(path, {"input": wanted, "sources": new})


def append_json_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append a line to a file of a state directory. Raises StateError."""
    try:
        with open_file(path, "ab") as file:
            # A killed run may have left half a line.
            file.write(b"\n" + json.dumps(value).encode() + b"\n")
    except OSError as error:
        raise StateError(str(path), f"cannot be written: {error.strerror}", None, "free disk space") from None


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


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The noted settings by source."""
    defaults, noted = as_json(InputSettings()), dict[str, dict[str, Any]]()
    for written in read_json_lines(path):
        # A setting that a later release adds had its default.
        noted |= dict.fromkeys(written["sources"], defaults | written["input"])
    return noted
