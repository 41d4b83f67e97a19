"""Writes a WARC revisit record in place of a dropped page (ISO 28500:2017, sec. 6.7).

    revisit = the fields of the dropped record, except the fields that describe its block
              WARC-Profile, WARC-Refers-To (if known), WARC-Refers-To-Target-URI, WARC-Refers-To-Date
              block: the HTTP header of the response, or nothing

A copy with the same payload gets the standard's profile identical-payload-digest. The other profile of the standard,
server-not-modified, means that the server reported the page as unchanged, which is not the case here. So a near copy
gets Spotsieve's own profile, as sec. 6.7.4 allows ("such as recording the apparent magnitude of difference"), with the
fields Spotsieve-Reason and Spotsieve-Score.
"""

import base64
import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self
from urllib.parse import quote

from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.files.warc.http import field_lines, find_header, first_values, header_end
from spotsieve.stream.files.warc.records import holds_http

NEAR_PROFILE = "urn:x-spotsieve:revisit:near-duplicate"
"""A reader that does not know this profile must not read a page from the record (sec. 6.7.1)."""
MOST_ORIGINALS = 100_000
"""The last emitted pages whose WARC-Record-ID is held in memory: some 400 bytes each."""
_IDENTICAL = "http://netpreserve.org/warc/{version}/revisit/identical-payload-digest"
_REPLACED = frozenset(
    "warc-type content-length content-type warc-block-digest warc-payload-digest warc-truncated warc-profile "
    "warc-refers-to warc-refers-to-target-uri warc-refers-to-date".split()
)
_HTTP = "application/http; msgtype=response"
_UNWRITABLE = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class _Original:
    name: str
    date: str
    digest: str


class Originals:
    """WARC-Record-ID, date and payload digest of the pages emitted last, by page id. A state does not store them."""

    def __init__(self) -> None:
        self._known: OrderedDict[PageId, _Original] = OrderedDict()

    def add(self, page: PageId, raw: bytes) -> None:
        """Add the WARC record of an emitted page."""
        capture = _Capture.of(raw)
        self._known[page] = _Original(capture.field("warc-record-id"), capture.field("warc-date"), capture.digest)
        if len(self._known) > MOST_ORIGINALS:
            self._known.popitem(last=False)

    def get(self, page: PageId) -> _Original | None:
        """The fields of a page; None if it is not among the last ones of this run."""
        return self._known.get(page)


def revisit_of(raw: bytes, original: Entry, originals: Originals, reason: str, score: float, *, exact: bool) -> bytes:
    """The revisit record in place of a dropped record.

    raw: the dropped record
    exact: whether its body is byte-identical to the original's
    """
    dropped = _Capture.of(raw)
    known = originals.get((original.source, original.partition, original.offset))
    same = dropped.digest == known.digest if known else exact
    profile = _IDENTICAL.format(version=dropped.version) if same else NEAR_PROFILE
    date = known.date if known and known.date else _date_of(original.event_time_ms, dropped.version)
    lines = [f"WARC/{dropped.version}", "WARC-Type: revisit"]
    lines += [f"{name}: {value}" for name, value in dropped.fields if name.lower() not in _REPLACED]
    lines += [f"WARC-Payload-Digest: {dropped.digest}", f"WARC-Profile: {profile}"]
    if known and known.name:
        lines.append(f"WARC-Refers-To: {known.name}")
    if original.url:
        lines.append(f"WARC-Refers-To-Target-URI: {_UNWRITABLE.sub(lambda found: quote(found[0]), original.url)}")
    lines.append(f"WARC-Refers-To-Date: {date}")
    if not same:
        lines += [f"Spotsieve-Reason: {reason}", f"Spotsieve-Score: {score:.4f}"]
    if dropped.http:
        lines += ["WARC-Truncated: length", f"WARC-Block-Digest: {_sha1(dropped.http)}", f"Content-Type: {_HTTP}"]
    lines.append(f"Content-Length: {len(dropped.http)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + dropped.http + b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class _Capture:
    """The parts of a WARC record.

    http: the HTTP header of its block, or nothing
    digest: the digest of its payload
    """

    version: str
    fields: list[tuple[str, str]]
    http: bytes
    digest: str

    @classmethod
    def of(cls, raw: bytes) -> Self:
        end = header_end(raw)
        fields = field_lines(raw[:end].decode("utf-8", "surrogateescape"))
        first = first_values(fields)
        block = raw[end : end + int(first["content-length"])]
        start, body = find_header(block) if holds_http(first, block) else (0, 0)
        http = block[start:body]
        digest = first.get("warc-payload-digest") or _sha1(block[body:])
        return cls("1.0" if raw[:8].upper() == b"WARC/1.0" else "1.1", fields, http, digest)

    def field(self, name: str) -> str:
        """The value of the first field of this name (in lower case); "" without such a field."""
        return next((value for other, value in self.fields if other.lower() == name), "")


def _sha1(data: bytes) -> str:
    """The SHA-1 digest in base 32, the form that crawlers use."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")


def _date_of(time_ms: int, version: str) -> str:
    """A WARC-Date. WARC 1.0 allows whole seconds only."""
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    fine = version != "1.0" and time_ms % 1000
    return when.isoformat(timespec="milliseconds" if fine else "seconds").replace("+00:00", "Z")
