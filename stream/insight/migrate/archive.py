"""Finds pages of an old log in files: signs all pages of the files with the new settings, and stores the signatures.

    DIRECTORY/migration/pages.sqlite
        pages(number, signature)   signature with the new settings: the body of a log record (kind 1)
        names(name, page)          BLAKE2b-128 of a search key of the page; the first page with a key counts
        files(name, size, time)    the files that were read

A page of the log is found by its id, if `filter` read the same file; else by its URL and the digest of its bytes with
the old settings; else, without the old settings, by its URL and time. A page with the same URL and other bytes is
another page: with its signature, later copies would be dropped for a text that was never emitted.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

from spotsieve.state.directory import open_file
from spotsieve.state.log.pages_body import cut_url, decode_pages, encode_pages
from spotsieve.state.log.record import NO_PAGES
from spotsieve.stream.base.errors import StateError, write_advice
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.signature import Signatures, join_signatures, page_id_text, page_ids_of
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.sign.schemes import Scheme

PAGES_FILE = "pages.sqlite"
_BATCH_PAGES = 256
_TABLES = """\
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE pages (number INTEGER PRIMARY KEY, signature BLOB);
CREATE TABLE names (name BLOB PRIMARY KEY, page INTEGER) WITHOUT ROWID;
CREATE TABLE files (name TEXT, size INTEGER, time REAL);
"""


class ArchiveMatches(NamedTuple):
    """Signatures for the pages of a record, in order. from_files: number of pages found in files

    unlike: number of missing pages whose URL is in the files with other bytes or another time
    """

    signatures: Signatures
    from_files: int
    unlike: int


class ArchivedPages:
    """Signatures of the pages of files. A context manager. Only one thread at a time may use it."""

    def __init__(self, folder: Path, old: Scheme | None) -> None:
        """folder: of the journal  old: scheme of the old settings; None if it is not available"""
        self._path = folder / PAGES_FILE
        self._old = old
        self._pages: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pages is not None:
            self._pages.close()

    def read(self, files: Sequence[Input], settings: InputSettings, new: Scheme, on_progress: OnProgress) -> None:
        """Sign the pages of these files, unless an earlier run has done so.

        new: scheme of the new settings. Raises InputError, StateError.
        """
        described = [_file_row(file) for file in files]
        try:
            if self._path.exists():
                self._pages = sqlite3.connect(self._path, check_same_thread=False)
                if described == self._pages.execute("SELECT name, size, time FROM files ORDER BY rowid").fetchall():
                    return
                self._pages.close()
            partial = self._path.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            open_file(partial, "wb").close()
            self._pages = sqlite3.connect(partial, check_same_thread=False)
            self._pages.executescript(_TABLES)
            number = 0
            for batch in _batches(pages_of(files, settings)):
                self._store(batch, new, number)
                number += len(batch)
                on_progress("pages of files signed", number, 0)
            self._pages.executemany("INSERT INTO files VALUES (?, ?, ?)", described)
            self._pages.commit()
            partial.replace(self._path)
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self._path, error) from None

    def fill(self, pages: Signatures, signed: Signatures) -> ArchiveMatches:
        """The pages of a record of the old log, signed with the new settings. signed: the pages that already are

        Raises StateError.
        """
        if len(signed) == len(pages):
            return ArchiveMatches(signed, 0, 0)
        at = {page: row for row, page in enumerate(page_ids_of(signed))}
        parts, from_files, unlike = list[Signatures](), 0, 0
        for row, page in enumerate(page_ids_of(pages)):
            if page in at:
                parts.append(signed.part(at[page], at[page] + 1))
                continue
            one = pages.part(row, row + 1)
            number = self._number_of(one)
            if number is None:
                unlike += self._find(_url_key(one)) is not None
            else:
                parts.append(self._signature(number, one))
                from_files += 1
        return ArchiveMatches(join_signatures(parts) if parts else NO_PAGES, from_files, unlike)

    def _store(self, pages: Sequence[Page], new: Scheme, first: int) -> None:
        assert self._pages is not None
        signed, old = new.sign(pages), None if self._old is None else self._old.sign(pages)
        bare = replace(signed, urls=(b"",) * len(pages), labels=(b"",) * len(pages))
        rows, names = list[tuple[int, bytes]](), list[tuple[bytes, int]]()
        for row in range(len(pages)):
            one, before = signed.part(row, row + 1), None if old is None else old.part(row, row + 1)
            rows.append((first + row, encode_pages(bare.part(row, row + 1), ())))
            names += [(name, first + row) for name in (_id_key(one), _content_key(one, before), _url_key(one))]
        self._pages.executemany("INSERT INTO pages VALUES (?, ?)", rows)
        self._pages.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", names)

    def _number_of(self, page: Signatures) -> int | None:
        number = self._find(_id_key(page))
        return number if number is not None else self._find(_content_key(page, page if self._old is not None else None))

    def _find(self, name: bytes) -> int | None:
        found = self._query("SELECT page FROM names WHERE name = ?", name)
        return None if found is None else int(found)  # type: ignore[call-overload]

    def _signature(self, number: int, page: Signatures) -> Signatures:
        """The stored signature with the identity of the page of the log."""
        found, _ = decode_pages(self._query("SELECT signature FROM pages WHERE number = ?", number))  # type: ignore[arg-type]
        return replace(
            found,
            sources=page.sources,
            source=page.source,
            partition=page.partition,
            offset=page.offset,
            event_time_ms=page.event_time_ms,
            urls=page.urls,
            labels=page.labels,
        )

    def _query(self, statement: str, value: object) -> object:
        assert self._pages is not None
        try:
            row = self._pages.execute(statement, (value,)).fetchone()
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from None
        return None if row is None else row[0]


def _batches(pages: Iterator[Page]) -> Iterator[list[Page]]:
    while batch := list(islice(pages, _BATCH_PAGES)):
        yield batch


def _file_row(file: Input) -> tuple[str, int | None, float | None]:
    return file.source, file.size, None if file.path is None else file.path.stat().st_mtime


def _id_key(page: Signatures) -> bytes:
    (page_id,) = page_ids_of(page)
    return _key(b"id", page_id_text(*page_id).encode())


def _content_key(page: Signatures, old: Signatures | None) -> bytes:
    """A page's URL with its digest by the old settings, or with its time if the old settings are not available."""
    if old is not None:
        return _key(b"digest", cut_url(page.urls[0]), old.digest.tobytes())
    return _key(b"time", cut_url(page.urls[0]), int(page.event_time_ms[0]).to_bytes(8, "little", signed=True))


def _url_key(page: Signatures) -> bytes:
    return _key(b"address", cut_url(page.urls[0]))


def _key(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()


def _unusable(path: Path, error: sqlite3.Error | OSError) -> StateError:
    if isinstance(error, OSError):
        reason, advice = error.strerror or str(error), write_advice(error)
    else:
        is_full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        reason, advice = str(error), "free disk space" if is_full else "check the disk, or delete the file"
    return StateError(
        f"signatures {path}",
        f"cannot be written or read: {reason}",
        None,
        f"{advice}, then run the command again: it reads the files of pages again",
    )
