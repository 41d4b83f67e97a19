"""Finds the page that a person names: in files, in verdict lines, in the log of a state, or among its entries."""

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from spotsieve.state.format.entries import FORGOTTEN, EntryParts, decode_entry, unpack_entry
from spotsieve.state.format.keys import encode_keys
from spotsieve.state.log.local import LOG_FILE, LocalLog, record_places
from spotsieve.state.log.record import decode
from spotsieve.state.still.reading import StillState
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.stream.errors import InputError
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.page import Page, PageId
from spotsieve.stream.settings.model import InputSettings
from spotsieve.stream.signature import Entry, Signatures, page_id_text, page_of_id

_NUMBERS = struct.Struct("<iq")
_RARE = 2**16
"""Numbers from here on are rare as bytes. The middle part of the ids of files is a digest of 31 bits."""


@dataclass(frozen=True, slots=True)
class Recorded:
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


@dataclass(frozen=True, slots=True)
class Logged:
    """A page of a state's own log. record: its offset  signatures: of this page alone"""

    record: int
    signatures: Signatures

    @property
    def page_id(self) -> PageId:
        """The id of the page."""
        page = self.signatures
        return page.sources[page.source[0]], int(page.partition[0]), int(page.offset[0])


@dataclass(slots=True)
class InLog:
    """What a log says of a name. pages: in its order  forgotten: of each page id, the record that forgets it"""

    pages: list[Logged] = field(default_factory=list)
    forgotten: dict[PageId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Filed:
    """An entry of a state."""

    number: int
    entry: Entry
    parts: EntryParts


def is_named(page: Page | Entry, name: str) -> bool:
    """Whether a page has this address, name of its own, or page id."""
    return bool(name) and name in (page.url, page.label, page_id_text(page.source, page.partition, page.offset))


def first_named(name: str, files: Iterable[Input], settings: InputSettings) -> Page | None:
    """The first page of files that has this address or id. Raises InputError."""
    return next((page for page in pages_of(files, settings) if is_named(page, name)), None)


def find_recorded(files: Sequence[Path], name: str) -> Recorded | None:
    """The last verdict of a page in files of verdict lines. Raises InputError."""
    found, mark = None, orjson.dumps(name)[1:-1]
    for path in files:
        try:
            with path.open("rb") as file:
                for record in split_lines(read_chunks(file, str(path))):
                    if mark in record.raw and (line := recorded_of(record.raw)) and name in (line.id, line.url):
                        found = line
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}", None, "check the path") from None
    return found


def recorded_of(line: bytes) -> Recorded | None:
    """Read a verdict line or a report; None for anything else."""
    try:
        fields: Any = orjson.loads(line)
        if isinstance(fields, dict) and isinstance(fields.get("page"), dict):
            page, of = fields["page"], fields.get("duplicate_of") or {}
            ids = page["id"], page["url"], "duplicate", fields["reason"], fields["score"]
            return Recorded(*ids, of.get("id", ""), of.get("url", ""))
        return Recorded(
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


def find_in_log(directory: Path, end: int, name: str) -> InLog | None:
    """Look for a page in the log of a state, up to a record; None where the state has no log of its own.

    The bytes of the name, or of the numbers of a page id, are searched first: only records that hold them are decoded.
    Raises DamagedRecord for one of these that is damaged, InputError if the log cannot be read.
    """
    path = directory / LOG_FILE
    if not path.is_file() or not path.stat().st_size:
        return None
    found, wanted = InLog(), page_of_id(name)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            places = record_places(file)[:end]
            hits = {*_hits(log, name.encode("utf-8", "replace"), places), *_id_hits(log, wanted, places)}
            for number in sorted(hits):
                record = decode(log[slice(*places[number])], LocalLog.name, number)
                found.pages += (Logged(number, page) for page in _pages_named(record.signatures, name, wanted))
            for page_id in {page.page_id for page in found.pages}:
                for number in _hits(log, _NUMBERS.pack(*page_id[1:]), places):
                    forgotten = decode(log[slice(*places[number])], LocalLog.name, number).forgotten
                    if any(page.page_id == page_id for page in forgotten):
                        found.forgotten[page_id] = number
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", None, "ask as the user that filters") from None
    return found


def _id_hits(log: mmap.mmap, wanted: PageId | None, places: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The numbers of records that may hold a page id: by the one of its numbers that is rare, or else by its source."""
    if wanted is None:
        return
    source, partition, offset = wanted
    needle = source.encode("utf-8", "replace")
    if partition >= _RARE:
        needle = struct.pack("<i", partition)
    elif offset >= _RARE:
        needle = struct.pack("<q", offset)
    yield from _hits(log, needle, places)


def _hits(log: mmap.mmap, needle: bytes, places: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The numbers of the records that hold these bytes."""
    number, starts = 0, [start for start, _ in places]
    while number < len(places) and (at := log.find(needle, starts[number])) >= 0:
        number = bisect_right(starts, at) - 1
        if at >= places[-1][1]:
            return
        yield number
        number += 1


def _pages_named(signatures: Signatures, name: str, wanted: PageId | None) -> Iterator[Signatures]:
    """The pages of this address, name of their own, or page id."""
    text = name.encode("utf-8", "replace")
    rows = {row for texts in (signatures.urls, signatures.labels) for row, found in enumerate(texts) if found == text}
    if wanted is not None and wanted[0] in signatures.sources:
        source = signatures.sources.index(wanted[0])
        same = (signatures.partition == wanted[1]) & (signatures.offset == wanted[2]) & (signatures.source == source)
        rows.update(np.flatnonzero(same).tolist())
    yield from (signatures.part(row, row + 1) for row in sorted(rows))


def find_in_entries(state: StillState, name: str) -> list[Filed]:
    """Look for the entries of an address or id. One pass over their bytes: only those that hold the name are decoded.

    Raises CorruptRecord.
    """
    wanted, text = page_of_id(name), name.encode("utf-8", "replace")
    parts = (text, _NUMBERS.pack(*wanted[1:])) if wanted else (text,)
    first = next((int.from_bytes(key, "big") for key, _ in state.items("entries")), 0)
    values, counter = state.values("entries"), count(first)
    if len(parts) == 1:
        hits = [number for value, number in zip(values, counter, strict=False) if text in value]
    else:
        hits = [number for value, number in zip(values, counter, strict=False) if any(part in value for part in parts)]
    if next(counter) != state.progress.entry_count:
        # Numbers are missing in between, or a block cannot be read: this one says which.
        items = state.items("entries")
        hits = [int.from_bytes(key, "big") for key, value in items if any(part in value for part in parts)]
    found, keys = list[Filed](), encode_keys(np.array(hits, np.uint64))
    for number, key, stored in zip(hits, keys, _read_entries(state, keys), strict=True):
        if stored is None or stored == FORGOTTEN:
            continue
        entry = decode_entry(key, stored, state.sources)
        if is_named(entry, name):
            found.append(Filed(number, entry, unpack_entry(key, stored)))
    return found


def _read_entries(state: StillState, keys: list[bytes]) -> list[bytes | None]:
    """The values of these entries; None for one that is not there."""
    if not keys:
        return []
    with rocks_errors(state.directory, "read"):
        return list(state.families["entries"].get(keys))  # type: ignore[arg-type]
