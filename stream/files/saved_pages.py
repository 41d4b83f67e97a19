"""Defines the formats of pages that a browser saved as one file: MHTML, and HTML of the extension SingleFile.

Such a file is one record. It is read and written as a WARC resource record, so an output keeps its pages apart. The
name of the record is a digest of its bytes, so the page has the same id in each run.
"""

import email.utils
import re
from collections.abc import Callable, Iterator
from datetime import UTC

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.files.file_format import SHOWN_BYTES, FileContent, FileRecord, InputFormat, Record, too_large
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.files.warc.records import build_record
from spotsieve.stream.sign.intake.charset import skip_blanks
from spotsieve.stream.sign.intake.mime import SavedOrigin, begins_mhtml, find_origin

_SINGLE_FILE = re.compile(
    rb"(?:<!doctype[^>]{0,256}>\s{0,64})?<html[^>]{0,4096}>\s{0,64}<!--\s{0,64}Page saved with SingleFile\s{1,64}"
    rb"url:(?P<url>[^\r\n]{0,16384}+)\r?\n(?:\s{0,64}saved date:[ \t]*(?P<date>[^\r\n]*))?",
    re.IGNORECASE,
)
"""The URL is as long as one of MHTML may be: the header of a WARC record with a longer one could not be read again."""
_SAVED_DATE = re.compile(rb"[a-z]{3} ([a-z]{3}) (\d{2}) (\d{4}) (\d{2}:\d{2}:\d{2}) GMT([+-]\d{4})", re.IGNORECASE)
"""JavaScript's form of a date, such as "Fri Mar 01 2024 01:00:10 GMT+0100 (Central European Standard Time)"."""
_FIRST_YEAR = 1970
"""A record with an earlier WARC-Date would be rejected."""


class Mhtml(InputFormat):
    """The MHTML format: the HTML of a page with its frames, images and styles in a MIME message (RFC 2557)."""

    name = "MHTML"
    endings = (".mhtml", ".mht")
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file begins with the header of a saved page in multipart/related."""
        return begins_mhtml(beginning)

    def recognizes_name(self, name: str) -> bool:
        """Whether the name has a suffix of MHTML. An e-mail program may write another type of message."""
        return name.lower().endswith(self.endings)

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The one page of the file."""
        return _read(content, "multipart/related", "Snapshot-Content-Location or Content-Location", find_origin)


class SingleFile(InputFormat):
    """The HTML of a page that the browser extension SingleFile saved, with images and styles in it."""

    name = "SingleFile"
    endings = (".html", ".htm")
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file begins with SingleFile's comment."""
        return _SINGLE_FILE.match(beginning, skip_blanks(beginning)) is not None

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The one page of the file."""
        return _read(content, "text/html", "url in the comment of SingleFile", _origin_of_single_file)


MHTML = Mhtml()
SINGLE_FILE = SingleFile()


def _read(
    content: FileContent, content_type: str, place_of_url: str, find_origin: Callable[[bytes], SavedOrigin]
) -> Iterator[FileRecord]:
    """The one record of a file; none of an empty file. place_of_url: where the file has its URL, for people"""
    saved, size, damage = bytearray(), 0, None
    try:
        for chunk in content.chunks:
            size += len(chunk)
            saved += chunk[: max(0, content.max_record_bytes - len(saved))]
    except InputError as error:
        damage = error
    if size > content.max_record_bytes:
        yield FileRecord(too_large(0, bytes(saved[:SHOWN_BYTES]), size, content.max_record_bytes))
    elif damage is not None:
        yield FileRecord(Record(0, bytes(saved), (RejectReason.TRUNCATED, "is truncated, because the file is damaged")))
    elif saved:
        yield FileRecord(_record_of(bytes(saved), content_type, place_of_url, find_origin))
    if damage is not None:
        raise damage


def _record_of(
    saved: bytes, content_type: str, place_of_url: str, find_origin: Callable[[bytes], SavedOrigin]
) -> Record:
    origin = find_origin(saved)
    url = origin.url.decode("utf-8", "replace").strip()
    if not url:
        return Record(0, saved, (RejectReason.NO_URL, f"must have the page's URL as {place_of_url}"))
    fields = {"WARC-Type": "resource", "WARC-Target-URI": url, "Content-Type": content_type}
    date = _iso_date(origin.date.decode("latin-1"))
    return Record(0, build_record(fields | ({"WARC-Date": date} if date else {}), saved))


def _origin_of_single_file(saved: bytes) -> SavedOrigin:
    found = _SINGLE_FILE.match(saved, skip_blanks(saved))
    if found is None:
        return SavedOrigin(b"", b"")
    date = _SAVED_DATE.match(found["date"] or b"")
    month, day, year, time, zone = date.groups() if date else [b""] * 5
    return SavedOrigin(found["url"], b" ".join((day, month, year, time, zone)))


def _iso_date(date: str) -> str:
    """A date of an e-mail header (RFC 5322) as WARC has it; "" for another text, or a date before 1970."""
    try:
        parsed = email.utils.parsedate_to_datetime(date)
        saved = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return saved.strftime("%Y-%m-%dT%H:%M:%SZ") if saved.year >= _FIRST_YEAR else ""
