"""Finds the page that a person names in files: in files of pages, or in verdict lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from spotsieve.stream.errors import InputError
from spotsieve.stream.explain.finding import has_name
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.page import Page
from spotsieve.stream.settings.model import InputSettings


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A verdict that was written down: a verdict line, or a report of the topic of duplicates.

    The other fields are as in the line; original, original_url: "" where there is none
    """

    id: str
    url: str
    verdict: str
    reason: str
    score: float | None
    original: str
    original_url: str


def find_first_page(name: str, files: Iterable[Input], settings: InputSettings) -> Page | None:
    """The first page of files that has this address or id. Raises InputError."""
    return next((page for page in pages_of(files, settings) if has_name(page, name)), None)


def find_recorded(files: Sequence[Path], name: str) -> RecordedVerdict | None:
    """The last verdict of a page in files of verdict lines. Raises InputError."""
    found, mark = None, orjson.dumps(name)[1:-1]
    for path in files:
        try:
            with path.open("rb") as file:
                for record in split_lines(read_chunks(file, str(path))):
                    if mark in record.raw and (line := parse_verdict(record.raw)) and name in (line.id, line.url):
                        found = line
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}", None, "check the path") from None
    return found


def parse_verdict(line: bytes) -> RecordedVerdict | None:
    """Read a verdict line or a report; None for anything else."""
    try:
        fields: Any = orjson.loads(line)
        if isinstance(fields, dict) and isinstance(fields.get("page"), dict):
            page, of = fields["page"], fields.get("duplicate_of") or {}
            ids = page["id"], page["url"], "duplicate", fields["reason"], fields["score"]
            return RecordedVerdict(*ids, of.get("id", ""), of.get("url", ""))
        return RecordedVerdict(
            fields["id"],
            fields.get("url") or "",
            fields["verdict"],
            fields["reason"],
            fields.get("score"),
            fields.get("duplicate_of") or "",
            fields.get("original_url") or "",
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
