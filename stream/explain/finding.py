"""Finds the page that a person names in a state: in its log, or among its entries."""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.buckets import encode_keys
from spotsieve.state.format.entries import FORGOTTEN, EntryParts, decode_entry, unpack_entry
from spotsieve.state.log.local import LocalLog, record_places
from spotsieve.state.log.record import KIND_FORGET, decode, kind_of, may_name
from spotsieve.state.still.reading import ReadOnlyState
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.stream.errors import InputError
from spotsieve.stream.page import Page, PageId
from spotsieve.stream.signature import Entry, Signatures, page_id_text, page_of_id

_NUMBERS = struct.Struct("<iq")
_AT_ONCE = 4_096
"""Entries that are searched together: 1 MB, which stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of a state's own log. record: its offset  signatures: of this page alone"""

    record: int
    signatures: Signatures

    @property
    def page_id(self) -> PageId:
        """The id of the page."""
        page = self.signatures
        return page.sources[page.source[0]], int(page.partition[0]), int(page.offset[0])


@dataclass(slots=True)
class LogMatches:
    """What a log says of a name. pages: in its order  forgotten: of each page id, the record that forgets it"""

    pages: list[LogPage] = field(default_factory=list)
    forgotten: dict[PageId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An entry of a state."""

    number: int
    entry: Entry
    parts: EntryParts


def has_name(page: Page | Entry, name: str) -> bool:
    """Whether a page has this address, name of its own, or page id."""
    return bool(name) and name in (page.url, page.label, page_id_text(page.source, page.partition, page.offset))


def find_in_log(directory: Path, end: int, name: str) -> LogMatches | None:
    """Look for a page in the log of a state, up to a record; None where the state has no log of its own.

    Only the addresses and page ids of its records are looked at. Those that have the page are decoded.
    Raises DamagedRecord for one of these that is damaged, InputError if the log cannot be read.
    """
    path = directory / LOG_FILE
    if not path.is_file() or not path.stat().st_size:
        return None
    found, forgetting, wanted, text = LogMatches(), list[int](), page_of_id(name), name.encode("utf-8", "replace")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            places = record_places(file)[:end]
            with memoryview(log) as whole:
                for number, (start, stop) in enumerate(places):
                    record = whole[start:stop]
                    if kind_of(record) == KIND_FORGET:
                        forgetting.append(number)
                    elif may_name(record, text, wanted):
                        pages = decode(bytes(record), LocalLog.name, number).signatures
                        found.pages += (LogPage(number, page) for page in _pages_named(pages, name, wanted))
                    record.release()
            page_ids = {page.page_id for page in found.pages}
            for number in forgetting if page_ids else ():
                forgotten = decode(log[slice(*places[number])], LocalLog.name, number).forgotten
                found.forgotten |= {page.page_id: number for page in forgotten if page.page_id in page_ids}
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", None, "ask as the user that filters") from None
    return found


def _pages_named(signatures: Signatures, name: str, wanted: PageId | None) -> Iterator[Signatures]:
    """The pages of this address, name of their own, or page id."""
    text = name.encode("utf-8", "replace")
    rows = {row for texts in (signatures.urls, signatures.labels) for row, found in enumerate(texts) if found == text}
    if wanted is not None and wanted[0] in signatures.sources:
        source = signatures.sources.index(wanted[0])
        same = (signatures.partition == wanted[1]) & (signatures.offset == wanted[2]) & (signatures.source == source)
        rows.update(np.flatnonzero(same).tolist())
    yield from (signatures.part(row, row + 1) for row in sorted(rows))


def find_in_entries(state: ReadOnlyState, name: str) -> list[StateEntry]:
    """Look for the entries of an address or id. One pass over their bytes: only those that hold the name are decoded.

    Raises CorruptRecord.
    """
    wanted, text = page_of_id(name), name.encode("utf-8", "replace")
    parts = (text, _NUMBERS.pack(*wanted[1:])) if wanted else (text,)
    first = next((int.from_bytes(key, "big") for key, _ in state.items("entries")), 0)
    values, number, hits = state.values("entries"), first, list[int]()
    while some := list(islice(values, _AT_ONCE)):
        whole = b"\0".join(some)  # one search in many values; what lies across two of them is no hit below
        if any(part in whole for part in parts):
            hits += (at for at, value in enumerate(some, number) if any(part in value for part in parts))
        number += len(some)
    if number != state.progress.entry_count:
        # Numbers are missing in between, or a block cannot be read: this one says which.
        items = state.items("entries")
        hits = [int.from_bytes(key, "big") for key, value in items if any(part in value for part in parts)]
    found, keys = list[StateEntry](), encode_keys(np.array(hits, np.uint64))
    for number, key, stored in zip(hits, keys, _read_entries(state, keys), strict=True):
        if stored is None or stored == FORGOTTEN:
            continue
        entry = decode_entry(key, stored, state.sources)
        if has_name(entry, name):
            found.append(StateEntry(number, entry, unpack_entry(key, stored)))
    return found


def count_forgotten(state: ReadOnlyState) -> int:
    """How many pages were forgotten by request, of those that the state would know otherwise. One pass over entries."""
    return sum(value == FORGOTTEN for value in state.values("entries"))


def _read_entries(state: ReadOnlyState, keys: list[bytes]) -> list[bytes | None]:
    """The values of these entries; None for one that is not there."""
    if not keys:
        return []
    with rocks_errors(state.directory, "read"):
        return list(state.families["entries"].get(keys))  # type: ignore[arg-type]
