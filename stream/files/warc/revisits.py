"""Writes a WARC revisit record in place of a dropped page (ISO 28500:2017, sec. 6.7).

    revisit = fields of the dropped record, but for those of its block
              WARC-Profile, WARC-Refers-To (where it is known), WARC-Refers-To-Target-URI, WARC-Refers-To-Date
              block: the HTTP header of the response, or nothing

A copy with the same payload has the standard's profile identical-payload-digest. The standard's other profile,
server-not-modified, says that the server itself told so, which it did not. So a near copy has a profile of our own, as
sec. 6.7.4 allows "such as recording the apparent magnitude of difference", with Spotsieve-Reason and Spotsieve-Score.
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
from spotsieve.stream.files.warc.http import header_end
from spotsieve.stream.files.warc.records import field_lines

NEAR_PROFILE = "urn:x-spotsieve:revisit:near-duplicate"
"""A reader that does not know it must not make a page of the record (sec. 6.7.1)."""
MOST_ORIGINALS = 100_000
"""So many pages that were let through last are known by their WARC-Record-ID: some 400 bytes each."""
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
    """The pages that this run let through last, by their page ids: what a state does not hold of them."""

    def __init__(self, most: int = MOST_ORIGINALS) -> None:
        self._most = most
        self._known: OrderedDict[PageId, _Original] = OrderedDict()

    def add(self, page: PageId, raw: bytes) -> None:
        """Remember a WARC record that is let through."""
        capture = _Capture.of(raw)
        self._known[page] = _Original(capture.field("warc-record-id"), capture.field("warc-date"), capture.digest)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def get(self, page: PageId) -> _Original | None:
        """What is known of a page, or None."""
        return self._known.get(page)


def revisit_of(raw: bytes, original: Entry, originals: Originals, reason: str, score: float, *, exact: bool) -> bytes:
    """The record in place of a dropped one.

    raw: the dropped record  exact: whether its body is that of the original, to the byte
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
    """What is read of a record. http: the HTTP header of its block, or nothing  digest: of its payload"""

    version: str
    fields: list[tuple[str, str]]
    http: bytes
    digest: str

    @classmethod
    def of(cls, raw: bytes) -> Self:
        end = header_end(raw)
        fields = field_lines(raw[:end].decode("utf-8", "surrogateescape"))
        first = {name.lower(): value for name, value in reversed(fields)}
        block = raw[end : end + int(first["content-length"])]
        is_http = first.get("content-type", "").lower().startswith("application/http")
        http = block[: max(0, header_end(block))] if is_http else b""
        digest = first.get("warc-payload-digest") or _sha1(block[len(http) :])
        return cls("1.0" if raw.startswith(b"WARC/1.0") else "1.1", fields, http, digest)

    def field(self, wanted: str) -> str:
        """The first field of this name, in lower case, or nothing."""
        return next((value for name, value in self.fields if name.lower() == wanted), "")


def _sha1(data: bytes) -> str:
    """A digest in the form of every crawler: SHA-1 in base 32."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")


def _date_of(time_ms: int, version: str) -> str:
    """A WARC-Date. Version 1.0 has whole seconds alone."""
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    fine = version != "1.0" and time_ms % 1000
    return when.isoformat(timespec="milliseconds" if fine else "seconds").replace("+00:00", "Z")
