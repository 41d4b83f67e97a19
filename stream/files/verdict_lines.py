"""Writes the JSON lines of outputs (verdicts, rejected records, pages), and reads files of such objects.

    verdict  = {"id", "verdict": novel | duplicate | unchecked, "duplicate_of": id or null, "score": number or null,
                "scheme", "reason", "url", "original_url": text or null,
                and for a page that supersedes another: "replaces": id, "replaced_url": text,
                and on request (ClusterIds): "cluster": id}
    rejected = {"id", "reason", "error", "record": text} or {..., "record_base64": base64}
    match    = {"id", "score", "reason", "url"}, in the list "matches" of a verdict of `spotsieve query --all`
    page     = {"id", "url", "fetched_at", "content_type", "body"}

The line of a duplicate is its verdict. id is the page's own name, or source/partition/offset. A name is cut to 2,048
bytes, as in the state, so that the ids of originals, clusters and matches are the ids of their pages. score is null if
the page has no original. record is the text in the file; for a record that was too long it is the beginning.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pybase64

from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.base.signature import Entry, logged_url, page_id_text
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.files.compression import GzipMembers, Source, read_chunks
from spotsieve.stream.files.file_format import MAX_RECORD_BYTES, FileContent, FileRecord, Record
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.parquet.format import PARQUET

_VERDICT_TEXT: Mapping[int, str] = {kind: kind.label for kind in Kind}
_REASON_TEXT: Mapping[int, str] = {reason: reason.label for reason in Reason}


def line_id(page: Page | Entry) -> str:
    """The id of a page in its lines: its own name, cut as in the log, or its page id as text."""
    return logged_url(page.label) or page_id_text(page.source, page.partition, page.offset)


def entry_of_page(page: Page) -> Entry:
    """The fields of a page that its verdict line needs; without the body."""
    return Entry(page.source, page.partition, page.offset, page.event_time_ms, page.url, page.label)


def verdict_line(
    page: Page | Entry, verdicts: Verdicts, row: int, scheme: str, clusters: "ClusterIds | None" = None
) -> bytes:
    """The verdict of a page as one JSON object.  clusters: adds the cluster of the page"""
    return orjson.dumps(verdict_fields(page, verdicts, row, scheme, clusters))


def verdict_fields(
    page: Page | Entry, verdicts: Verdicts, row: int, scheme: str, clusters: "ClusterIds | None" = None
) -> dict[str, object]:
    """The fields of a verdict line, by name.  clusters: adds the cluster of the page"""
    original = verdicts.originals[row]
    score = float(verdicts.score[row])
    line: dict[str, object] = {
        "id": line_id(page),
        "verdict": _VERDICT_TEXT[int(verdicts.kind[row])],
        "duplicate_of": original.id if original else None,
        "score": None if math.isnan(score) else round(score, 6),
        "scheme": scheme,
        "reason": _REASON_TEXT[int(verdicts.reason[row])],
        "url": page.url,
        "original_url": original.url if original else None,
    }
    replaced = verdicts.replaces[row]
    if replaced is not None:
        line |= {"replaces": replaced.id, "replaced_url": replaced.url}
    if clusters is not None:
        clusters.add_to(line)
    return line


CLUSTER = "cluster"
"""The field, and the column, of the cluster of a page."""


class ClusterIds:
    """The cluster of each page of a run: the id of its first page, of which the others are copies.

    A page that supersedes another (policy.keep) stays in the cluster of that page.
    """

    def __init__(self) -> None:
        self._superseding = dict[str, str]()

    def add_to(self, line: dict[str, object]) -> None:
        """Add the field "cluster" to the fields of the next verdict line."""
        own, replaced = str(line["id"]), line.get("replaces")
        known = replaced or line["duplicate_of"] or own
        cluster = self._superseding.get(str(known), str(known))
        if replaced:
            self._superseding[own] = cluster
        line[CLUSTER] = cluster


def match_fields(original: Entry, score: float, reason: Reason) -> dict[str, object]:
    """One match of a page, an indexed page with its score, for the field "matches"."""
    return {"id": original.id, "score": round(score, 6), "reason": _REASON_TEXT[reason], "url": original.url}


def rejected_line(source: str, record: Record, error: PageError) -> bytes:
    """A rejected record as one JSON object: the reason, the error and its bytes."""
    line: dict[str, object] = {
        "id": page_id_text(source, 0, record.number),
        "reason": error.reason.value,
        "error": escape_control_characters(str(error)),
    }
    try:
        line["record"] = record.raw.decode()
    except UnicodeDecodeError:
        line["record_base64"] = pybase64.b64encode(record.raw).decode("ascii")
    return orjson.dumps(line)


def verdict_files(path: Path) -> list[Path]:
    """The files of verdicts that a path names: the file itself, or the parts in the directory of a backfill, in order.

    Raises InputError for a directory without such parts.
    """
    if not path.is_dir():
        return [path]
    parts = sorted(part for part in path.iterdir() if part.name.endswith(PARQUET.endings))
    if not parts:
        rule = "has no files of verdicts, which end in .parquet"
        raise InputError(str(path), rule, None, "name the directory of `spotsieve backfill --verdicts`, or a file")
    return parts


def read_objects(path: Path, content: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each with its record number from 1: JSONL, compressed or not, or rows of Parquet.

    content: the plural noun for the objects in messages, such as "verdicts"
    Raises InputError for a file that cannot be read, and for a line that is not a JSON object.
    """
    try:
        with path.open("rb") as file:
            for record, value in split_objects(file, str(path), lambda _: file):
                if value is None:
                    rule = "must be a JSON object"
                    shown = record.raw[:40].decode("utf-8", "replace")
                    next_step = f"check that this is a file of {content}, one per line"
                    raise InputError(f"{path} line {record.number + 1}", rule, shown, next_step)
                yield record.number + 1, value
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", None, "check the path") from None


def split_records(source: Source, name: str, open_seeking: Callable[[str], BinaryIO]) -> Iterator[FileRecord]:
    """The records of a file of objects, JSONL or Parquet by its first bytes. A row of Parquet is a JSON object too.

    source: the file, read from its beginning  name: its name in errors
    open_seeking: returns the file for random access, which Parquet needs; takes the name of the format
    Raises InputError for a damaged file, after the records before the damage.
    """
    chunks = read_chunks(source, name)
    beginning = next(chunks, b"")
    content = FileContent(
        name=name,
        chunks=itertools.chain([beginning] if beginning else [], chunks),
        members=GzipMembers(),
        open_seeking=open_seeking,
        body_field="",
        max_record_bytes=MAX_RECORD_BYTES,
    )
    return (PARQUET if PARQUET.recognizes(beginning) else JSON_LINES).read(content)


def records_in(file: BinaryIO, name: str) -> Iterator[FileRecord]:
    """The records of an open file, which has random access. Raises as split_records."""
    return split_records(file, name, lambda _: file)


def split_objects(
    source: Source, name: str, open_seeking: Callable[[str], BinaryIO]
) -> Iterator[tuple[Record, dict[str, Any] | None]]:
    """The records of a file of objects with their fields; None for a line without one. Raises as split_records."""
    for record, fields in split_records(source, name, open_seeking):
        value = fields
        if fields is None and record.fault is None:
            with contextlib.suppress(orjson.JSONDecodeError):
                value = orjson.loads(record.raw)
        yield record, value if isinstance(value, dict) else None


_SUBTYPES = {Markup.NONE: "plain", Markup.HTML: "html", Markup.XML: "xml"}


def page_line(name: str, url: str, time_ms: int, markup: Markup | bool, body: str) -> bytes:
    """A page as a JSON object with the fields that every command reads.

    time_ms: the fetch time in ms since the epoch
    markup: the language of the body, which the Content-Type names
    """
    fields = {
        "id": name,
        "url": url,
        "fetched_at": datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC).isoformat(),
        "content_type": f"text/{_SUBTYPES[Markup(markup)]}; charset=utf-8",
        "body": body,
    }
    return orjson.dumps(fields)
