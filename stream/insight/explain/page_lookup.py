"""Finds the page that a person names in a state: in its log, or among its entries.

Reads what a person gave as PAGE: a file with a page, a verdict line or a report, or a name to look for.

Finds the page that a person names in files: in files of pages, or in verdict lines.
"""

import mmap
import os
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.buckets import encode_keys
from spotsieve.state.format.entries import FORGOTTEN, EntryParts, decode_entry, unpack_entry
from spotsieve.state.log.local import LocalLog, record_places
from spotsieve.state.log.record import KIND_FORGET, decode, kind_of, may_name
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.base.page import Page, PageId
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.signature import Entry, Signatures, page_id_text, page_of_id
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.reader import pages_of

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


def find_in_entries(state: State, name: str) -> list[StateEntry]:
    """Look for the entries of an address or id. One pass over their bytes: only those that hold the name are decoded.

    Raises CorruptRecord.
    """
    wanted, text = page_of_id(name), name.encode("utf-8", "replace")
    parts = (text, _NUMBERS.pack(*wanted[1:])) if wanted else (text,)
    first = next((int.from_bytes(key, "big") for key, _ in state.scan("entries")), 0)
    values, number, hits = state.backend.values("entries"), first, list[int]()
    while some := list(islice(values, _AT_ONCE)):
        whole = b"\0".join(some)  # one search in many values; what lies across two of them is no hit below
        if any(part in whole for part in parts):
            hits += (at for at, value in enumerate(some, number) if any(part in value for part in parts))
        number += len(some)
    if number != state.progress.entry_count:
        # Numbers are missing in between, or a block cannot be read: this one says which.
        items = state.scan("entries")
        hits = [int.from_bytes(key, "big") for key, value in items if any(part in value for part in parts)]
    found, keys = list[StateEntry](), encode_keys(np.array(hits, np.uint64))
    for number, key, stored in zip(hits, keys, state.backend.get("entries", keys), strict=True):
        if stored is None or stored == FORGOTTEN:
            continue
        entry = decode_entry(key, stored, state.sources)
        if has_name(entry, name):
            found.append(StateEntry(number, entry, unpack_entry(key, stored)))
    return found


def count_forgotten(state: State) -> int:
    """How many pages were forgotten by request, of those that the state would know otherwise. One pass over entries."""
    return sum(value == FORGOTTEN for value in state.backend.values("entries"))


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


_STDIN = "-"  # the same as in stream/files/inputs.py
_PAGE_ENDINGS = {".html": "text/html", ".htm": "text/html", ".xhtml": "text/html", ".txt": "text/plain"}
_WARC = b"WARC/"
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh")


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """What was given. name: of the page, an address or id  page: its bytes, or None  recorded: its verdict, or None

    One of page and recorded is None, or both are.
    """

    name: str
    page: Page | None = None
    recorded: "RecordedVerdict | None" = None


def read_given(name: str, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """Read PAGE or OTHER. url: the address of a page that is given itself  flag: that of the address, for messages

    Raises InputError, SettingError, PageError.
    """
    if name != _STDIN and not Path(name).is_file():
        return ExplainInput(name)
    try:
        raw = _read(name, settings.max_page_bytes)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the path") from None
    if name == _STDIN and not raw.strip():
        raise InputError("standard input", "holds nothing", None, "did grep find no line? pipe one, or a page")
    recorded = _only_line(name, raw)
    if recorded is not None:
        return ExplainInput(recorded.id, None, recorded)
    if name != _STDIN and (raw.lstrip().startswith((b"{", _WARC)) or raw.startswith(_COMPRESSED)):
        return _only_page(name, url, flag, settings)
    return _page_itself(name, raw, url, settings)


def _read(name: str, most: int) -> bytes:
    """A file, or its beginning where it is larger than any page."""
    if name == _STDIN:
        with os.fdopen(os.dup(0), "rb") as file:
            return file.read()
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _only_line(name: str, raw: bytes) -> "RecordedVerdict | None":
    """The verdict in a file of one verdict line or report; None if it holds something else. Raises SettingError."""
    lines = [line for line in raw.split(b"\n", 2) if line.strip()]
    recorded = parse_verdict(lines[0]) if lines else None
    if recorded is not None and len(lines) > 1:
        then = (
            "give one line, as by `grep ADDRESS FILE | spotsieve explain -`, or name the page and add --verdicts FILE"
        )
        raise SettingError("PAGE", "must be one line of verdicts, and the file has more", name, then)
    return recorded


def _only_page(name: str, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """The page of a file of one page. Raises SettingError if it has none, or several."""
    from spotsieve.stream.files.inputs import check_inputs
    from spotsieve.stream.files.reader import pages_of

    found = list[Page]()
    for page in pages_of(check_inputs([name]), settings):
        found.append(page)
        if len(found) > 1 and not url:
            break
    named = [page for page in found if not url or page.url == url]
    if not named:
        raise SettingError(flag, "must be the address of a page in the file", url or None, f"{name} has none of it")
    if len(named) > 1 and not url:
        then = f"name one of its pages by address or id, and give the file as --pages {name}; or choose by {flag}"
        raise SettingError("PAGE", "must be a file of one page, and it has more", name, then)
    return ExplainInput(named[-1].url, named[-1])


def _page_itself(name: str, raw: bytes, url: str, settings: InputSettings) -> ExplainInput:
    """The bytes of a page. Raises PageError."""
    from spotsieve.stream.sign.intake import make_page

    now = int(time.time() * 1000) if name == _STDIN else int(Path(name).stat().st_mtime * 1000)
    page = make_page(
        raw,
        source=name if name == _STDIN else str(Path(name).resolve()),
        partition=0,
        offset=0,
        url=url,
        content_type=_PAGE_ENDINGS.get(Path(name).suffix.lower()),
        event_time_ms=now,
        latest_ms=now,
        max_page_bytes=settings.max_page_bytes,
    )
    return ExplainInput(url or name, page)


def name_apart(page: Page, name: str) -> Page:
    """The page with an address, where none was given: two files without addresses count as pages of two hosts."""
    return page if page.url else page._replace(url=f"https://{name}.invalid/")
