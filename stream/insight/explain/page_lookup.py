"""Finds the page that the user names: in a state's log or entries, in files of pages, or in verdict lines.

The argument PAGE is a URL, an id, a file with one page, or a file with one verdict line or report.
"""

import codecs
import contextlib
import errno
import mmap
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from spotsieve.stream.base.signature import Entry, Signatures, logged_url, page_id_text, page_ids_of, page_of_id
from spotsieve.stream.base.terminal import as_utf8

if TYPE_CHECKING:
    from spotsieve.stream.files.inputs import Input

# Reading files takes 0.1 s to import, and a page in a state needs none: the functions below import it.
_NUMBERS = struct.Struct("<iq")
_SEARCH_BATCH = 4_096
"""Entries per search: 1 MB, which stays in the processor's cache."""
_STDIN = "-"  # the same as in stream/files/inputs.py
_PAGE_ENDINGS = {".html": "text/html", ".htm": "text/html", ".xhtml": "text/html", ".txt": "text/plain"}


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page in the state's own log. record: offset of its record  signatures: one row, this page"""

    record: int
    signatures: Signatures

    @property
    def page_id(self) -> PageId:
        """The page id."""
        (page_id,) = page_ids_of(self.signatures)
        return page_id


@dataclass(slots=True)
class LogMatches:
    """Pages of a log with one name. pages: in log order  forgotten: page id -> offset of the record that forgets it"""

    pages: list[LogPage] = field(default_factory=list)
    forgotten: dict[PageId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An entry of a state. number: its entry number"""

    number: int
    entry: Entry
    parts: EntryParts


def has_name(page: Page | Entry, name: str) -> bool:
    """Whether `name` is the URL, the label or the page id of the page. Long URLs and labels are cut as in the log."""
    if not name or name == page_id_text(page.source, page.partition, page.offset):
        return bool(name)
    return logged_url(name) in (logged_url(page.url), logged_url(page.label))


def _logged(name: str) -> bytes:
    """A URL or label as the log and the entries have it."""
    return logged_url(name).encode("utf-8", "replace")


def find_in_log(directory: Path, end: int, name: str) -> LogMatches | None:
    """The pages with this name in the first `end` records of a state's log; None if the state has no log of its own.

    The search reads only the URLs and page ids of the records, and decodes the records that match.
    Raises DamagedRecord if such a record is damaged, InputError if the log cannot be read.
    """
    path = directory / LOG_FILE
    if not path.is_file() or not path.stat().st_size:
        return None
    matches, forgetting, page_id, text = LogMatches(), list[int](), page_of_id(name), _logged(name)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            places = record_places(file)[:end]
            with memoryview(log) as view:
                for number, (start, stop) in enumerate(places):
                    record = view[start:stop]
                    if kind_of(record) == KIND_FORGET:
                        forgetting.append(number)
                    elif may_name(record, text, page_id):
                        pages = decode(bytes(record), LocalLog.name, number).signatures
                        matches.pages += (LogPage(number, page) for page in _pages_named(pages, name, page_id))
                    record.release()
            page_ids = {page.page_id for page in matches.pages}
            for number in forgetting if page_ids else ():
                forgotten = decode(log[slice(*places[number])], LocalLog.name, number).forgotten
                matches.forgotten |= {page.page_id: number for page in forgotten if page.page_id in page_ids}
    except OSError as error:
        then = "run this command as the user that runs the filter"
        raise InputError(str(path), f"cannot be read: {error.strerror}", None, then) from None
    return matches


def _pages_named(signatures: Signatures, name: str, page_id: PageId | None) -> Iterator[Signatures]:
    """The pages with this URL, label or page id, one row each."""
    text = _logged(name)
    rows = {row for texts in (signatures.urls, signatures.labels) for row, found in enumerate(texts) if found == text}
    if page_id is not None and page_id[0] in signatures.sources:
        source = signatures.sources.index(page_id[0])
        same = (signatures.partition == page_id[1]) & (signatures.offset == page_id[2]) & (signatures.source == source)
        rows.update(np.flatnonzero(same).tolist())
    yield from (signatures.part(row, row + 1) for row in sorted(rows))


def find_in_entries(state: State, name: str) -> list[StateEntry]:
    """The entries with this URL, label or page id. One pass over the bytes decodes only the entries with the name.

    Raises CorruptRecord.
    """
    page_id, text = page_of_id(name), _logged(name)
    parts = (text, _NUMBERS.pack(*page_id[1:])) if page_id else (text,)
    first = next((int.from_bytes(key, "big") for key, _ in state.scan("entries")), 0)
    values, number, hits = state.backend.values("entries"), first, list[int]()
    while batch := list(islice(values, _SEARCH_BATCH)):
        joined = b"\0".join(batch)  # one search over many values; the loop below drops matches across two of them
        if any(part in joined for part in parts):
            hits += (at for at, value in enumerate(batch, number) if any(part in value for part in parts))
        number += len(batch)
    if number != state.progress.entry_count:
        # Entry numbers are missing, or a block cannot be read. This slower pass reads the numbers from the keys.
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
    """How many indexed pages were forgotten on request. One pass over the entries."""
    return sum(value == FORGOTTEN for value in state.backend.values("entries"))


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A verdict from a verdict line, or from a report in the topic of duplicates.

    original, original_url: "" without an original; the other fields have the values of the line
    """

    id: str
    url: str
    verdict: str
    reason: str
    score: float | None
    original: str
    original_url: str


def find_first_page(name: str, files: "Iterable[Input]", settings: InputSettings) -> Page | None:
    """The first page in the files with this URL, label or page id. Raises InputError."""
    from spotsieve.stream.files.reader import pages_of

    return next((page for page in pages_of(files, settings) if has_name(page, name)), None)


def find_last_page(names: Sequence[str], files: "Iterable[Input]", settings: InputSettings) -> Page | None:
    """The last page in the files with the first of these URLs, labels or page ids that occurs. Raises InputError."""
    from spotsieve.stream.files.reader import pages_of

    found = dict[str, Page]()
    for page in pages_of(files, settings):
        found |= {name: page for name in names if has_name(page, name)}
    return next((found[name] for name in names if name in found), None)


def find_recorded(files: Sequence[Path], name: str) -> RecordedVerdict | None:
    """The last verdict on a page in files of verdicts, JSON lines or Parquet. Raises InputError."""
    from spotsieve.stream.files.verdict_lines import records_in

    name = logged_url(name)
    found, mark = None, orjson.dumps(name)[1:-1]
    for path in files:
        try:
            with path.open("rb") as file:
                for record, _ in records_in(file, str(path)):
                    if mark not in record.raw and b"\\" not in record.raw:  # Another program may write escapes.
                        continue
                    line = parse_verdict(record.raw)
                    if line is not None and name in (logged_url(line.id), logged_url(line.url)):
                        found = line
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}", None, "check the path") from None
    return found


def parse_verdict(line: bytes) -> RecordedVerdict | None:
    """The verdict in a verdict line or a report; None for any other line."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    page, score, original = fields, fields.get("score"), fields.get("duplicate_of")
    originals = [original or "", fields.get("original_url") or ""]
    verdict = fields.get("verdict")
    if isinstance(fields.get("page"), dict):
        page, verdict = fields["page"], "duplicate"
        originals = [original.get(name) or "" if isinstance(original, dict) else "" for name in ("id", "url")]
    texts: tuple[Any, Any, Any, Any] = page.get("id"), page.get("url") or "", verdict, fields.get("reason")
    if not all(isinstance(text, str) for text in (*texts, *originals)):
        return None
    return RecordedVerdict(*texts, score if isinstance(score, float | int) else None, originals[0], originals[1])


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """The argument PAGE or OTHER. name: a URL or id  page: the page of a file  recorded: the verdict of a line

    At most one of page and recorded is set.
    """

    name: str
    page: Page | None = None
    recorded: RecordedVerdict | None = None


def read_page_argument(name: str, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """Read the argument PAGE or OTHER.

    url: the URL of the page if `name` is a file  flag: the option of this URL, for messages
    Raises InputError, SettingError, PageError.
    """
    url = as_utf8(url)
    if name != _STDIN and not _is_file(name):
        if url:
            rule = "needs the file of a page, and there is no such file"
            raise SettingError(flag, rule, as_utf8(name), f"check the name, or leave {flag} out")
        return ExplainInput(as_utf8(name))
    if name != _STDIN:
        return _read_file(name, Path(name), url, flag, settings)
    with tempfile.NamedTemporaryFile(prefix="spotsieve-explain-") as spool:
        try:
            with os.fdopen(os.dup(0), "rb") as file:
                shutil.copyfileobj(file, spool)
            spool.flush()
        except OSError as error:
            then = "pipe a verdict line or a page, and check the disk of TMPDIR"
            raise InputError("standard input", f"cannot be read: {error.strerror}", None, then) from None
        return _read_file(name, Path(spool.name), url, flag, settings)


def _read_file(name: str, path: Path, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """Read a verdict line, the one page of a file with records, or a page itself.

    path: of the file, or of the copy of standard input
    """
    try:
        with path.open("rb") as file:
            raw = file.read(settings.max_page_bytes + 1)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the path") from None
    if name == _STDIN and not raw.strip():
        raise InputError("standard input", "is empty", None, "pipe a verdict line or a page; did grep find no line?")
    recorded = _only_line(name, raw)
    if recorded is not None:
        if url:
            raise SettingError(flag, "must not be used with a verdict line, which has the URL", url, "leave it out")
        return ExplainInput(recorded.id, None, recorded)
    return _only_page(name, path, raw, url, flag, settings) or _plain_page(name, path, raw, url, settings)


def _is_file(name: str) -> bool:
    """Whether there is a file of this name. A long URL cannot be the name of one."""
    try:
        return Path(name).is_file()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise InputError(as_utf8(name), f"cannot be read: {error.strerror}", None, "check the path") from None


def _only_line(name: str, raw: bytes) -> RecordedVerdict | None:
    """The verdict in a file with one verdict line or report; None for other content. Raises SettingError."""
    lines = [line for line in raw.removeprefix(codecs.BOM_UTF8).split(b"\n", 2) if line.strip()]
    recorded = parse_verdict(lines[0]) if lines else None
    if recorded is not None and len(lines) > 1:
        then = "pipe one line, as in `grep URL FILE | spotsieve explain -`, or name the page and add --verdicts FILE"
        raise SettingError("PAGE", "must be a file with one verdict line; this file has more", name, then)
    return recorded


def _only_page(name: str, path: Path, raw: bytes, url: str, flag: str, settings: InputSettings) -> ExplainInput | None:
    """The page of a file of records with one page; None for a file that is a page itself.

    raw: the first bytes of the file  Raises SettingError if the file has no page or several.
    """
    from spotsieve.stream.files.compression import compression_of
    from spotsieve.stream.files.formats import FORMATS
    from spotsieve.stream.files.inputs import Input
    from spotsieve.stream.files.reader import pages_of
    from spotsieve.stream.files.saved_pages import MHTML, SINGLE_FILE

    format_ = next((one for one in FORMATS if one.recognizes(raw)), None)
    if format_ is None and compression_of(raw) is None:
        return None
    source = name if name == _STDIN else as_utf8(str(path.resolve()))
    pages = pages_of([Input(path.resolve(), source, None)], settings)
    if format_ in (MHTML, SINGLE_FILE):
        if url:
            return None
        with contextlib.suppress(InputError):  # A saved page without a URL is still a page.
            return next((ExplainInput(page.url, page) for page in pages), None)
        return None
    found = list[Page]()
    for page in pages:
        found.append(page)
        if len(found) > 1 and not url:
            break
    named = [page for page in found if not url or page.url == url]
    if not named:
        then = f"{name} has no such page; check the URL, or leave {flag} out"
        raise SettingError(flag, "must be the URL of a page in the file", url or None, then)
    if len(named) > 1 and not url:
        then = f"choose a page with {flag}, or name it by URL or id and add --pages {name}"
        raise SettingError("PAGE", "must be a file with one page; this file has more", name, then)
    return ExplainInput(named[-1].url, named[-1])


def _plain_page(name: str, path: Path, raw: bytes, url: str, settings: InputSettings) -> ExplainInput:
    """The page whose HTML or text is the file's content. Raises PageError."""
    from spotsieve.stream.sign.intake import make_page

    written = int(path.stat().st_mtime * 1000)
    page = make_page(
        raw,
        source=name if name == _STDIN else as_utf8(str(path.resolve())),
        partition=0,
        offset=0,
        url=url,
        content_type=_PAGE_ENDINGS.get(Path(name).suffix.lower()),
        event_time_ms=written,
        latest_ms=written,
        max_page_bytes=settings.max_page_bytes,
    )
    return ExplainInput(url or as_utf8(name), page)


def name_apart(page: Page, name: str) -> Page:
    """The page, with https://NAME.invalid/ as its URL if it has none: two files without URLs have different hosts."""
    return page if page.url else page._replace(url=f"https://{name}.invalid/")
