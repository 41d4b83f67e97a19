"""Stores the measurements of a run, part by part, so that a later run completes it; and a document's other sections.

A file of the folder holds one part: the figures that it gave, when and at which commit, and what was measured.
"""

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.quality.figures import PARTS, Figures, Run
from bench.speed.report import machine
from spotsieve.stream.base.errors import InputError

_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_MEASURED = re.compile(r"on (\d{4}-\d\d-\d\d) \(commit (\w+)\)")
_AS_OF = "As measured on "


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of a part.

    values: by field of Figures  seconds: that it took  on: date and commit  what: sets and settings
    """

    name: str
    values: Mapping[str, Any]
    seconds: float
    on: str
    what: object

    def add_to(self, figures: Figures) -> None:
        """Add the part to the figures of other parts."""
        for name, value in self.values.items():
            setattr(figures, name, value)
        figures.seconds[self.name] = self.seconds
        figures.measured_on[self.name] = self.on


def part_of(name: str, run: Run, figures: Figures, seconds: float) -> Part:
    """A part that was just measured. figures: only its own"""
    empty = Figures()
    found = {field.name: getattr(figures, field.name) for field in fields(Figures)}
    values = {field: value for field, value in found.items() if value != getattr(empty, field)}
    return Part(name, values, seconds, today(), _what(run))


def today() -> str:
    """The date, and the measured commit."""
    return f"{datetime.now(UTC).date().isoformat()} (commit {machine()['commit']})"


def keep(folder: Path, part: Part) -> None:
    """Write a part to the folder, and replace its former version."""
    folder.mkdir(parents=True, exist_ok=True)
    _file(folder, part.name).write_bytes(pickle.dumps(part))


def kept_parts(folder: Path, run: Run, without: set[str]) -> list[Part]:
    """The parts of earlier runs. Raises InputError for other sets or settings. without: names of parts to skip"""
    found = []
    for name in PARTS:
        path = _file(folder, name)
        if name not in without and path.exists():
            part: Part = pickle.loads(path.read_bytes())
            if part.what != _what(run):
                raise InputError(str(path), "must be of the same sets and settings", None, "give another folder")
            found.append(part)
    return found


def with_sections_of(text: str, before: str) -> str:
    """A document with the sections that it lacks from the former one, each with the date of its figures."""
    head, *sections = _SECTION.split(text)
    earlier_head, *earlier = _SECTION.split(before)
    measured, has = _MEASURED.search(earlier_head), {_title(section) for section in sections}
    for section in earlier:
        if _title(section) not in has:
            title, _, rest = section.partition("\n\n")
            if measured and not rest.startswith(_AS_OF):
                rest = f"{_AS_OF}{measured[1]} (commit {measured[2]}), before the other figures here.\n\n{rest}"
            sections.append(f"{title}\n\n{rest}")
    return "".join([head, *(f"{section.rstrip()}\n\n" for section in sections)]).rstrip() + "\n"


def _title(section: str) -> str:
    return section.partition("\n")[0]


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.pickle"


def _what(run: Run) -> object:
    """The identity of a measurement: all figures of a document have the same sets and settings."""
    sets = tuple((labelled.name, len(labelled.pages)) for labelled in run.sets)
    return sets, run.settings.model_dump_json(), run.quick
