"""The fuzz targets: for each reader of foreign bytes the rules that it must keep, and pieces to build inputs from.

A target raises AssertionError if a rule is broken; any other exception is a defect. Every target bounds the size of the
output by the size of the input: a reader without such a bound could be used as a decompression bomb.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash
from webencodings.labels import LABELS

from spotsieve.state.directory import LOG_FILE, MANIFEST_FILE
from spotsieve.state.format.buckets import decode_buckets
from spotsieve.state.format.common_text import changes_key, read_common_text
from spotsieve.state.format.entries import FORGOTTEN, StoredEntries, entry_fault, pack_entry, unpack_entry
from spotsieve.state.format.host_memory import decode_memories, encode_memories
from spotsieve.state.format.meta import (
    Identity,
    StateProgress,
    decode_clock,
    decode_identity,
    decode_marks,
    decode_outcome_ref,
    decode_pending_verdict,
    decode_progress,
    decode_source,
    encode_identity,
    encode_pending_verdict,
    encode_progress,
    seal,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.index import OutcomeRef
from spotsieve.state.log.local import MAGIC, LocalLog, TornTail, whole_frames
from spotsieve.state.log.record import decode
from spotsieve.state.portable.export import COUNTED
from spotsieve.state.portable.importing import Importer, NewState
from spotsieve.state.snapshot.snapshots import read_manifest
from spotsieve.state.store.backend import FAMILIES
from spotsieve.state.verify.families import Findings
from spotsieve.state.verify.log import LogFacts, examine_log
from spotsieve.stream.base.errors import InputError, PageError, StateError
from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.base.progress import ignore_progress
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings
from spotsieve.stream.base.settings.runtime import MOST_ROUND_PAGES
from spotsieve.stream.base.signature import Signatures, SignatureStatus
from spotsieve.stream.files.file_format import Capture
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.files.warc import capture_of, split_warc
from spotsieve.stream.files.warc.http import HttpResponse, read_http
from spotsieve.stream.sharding.records.frame import ColumnReader, decode_body, decode_round_record, encode_round_record
from spotsieve.stream.sign.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.sign.features.sieve import blocks_of as kept_blocks_of
from spotsieve.stream.sign.intake import Decoder, Message, mime
from spotsieve.stream.sign.intake.charset import to_utf8, undo_double_encoding
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.identity import identity_columns
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from spotsieve.stream.sign.text.script_text import read_script_text
from tests.fixtures.pages.page_tokens import tokens_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.round_records import RANGE, SETTINGS, SHARE, kept
from tests.reference.blocks import noted_blocks_of
from tests.reference.scorecard import reasons_of
from tests.reference.sieve import columns_of
from tests.reference.text import blocks_of

MAX_PAGE_BYTES = 4096
MAX_RECORD_BYTES = 16_384
SHOWN = 3_000
"""Maximal length of an error message, in characters."""


class FuzzTarget(NamedTuple):
    """A reader of bytes. run: raises if a rule is broken; the first byte or two may select how it reads the rest

    pieces: fragments of inputs  reads: the kind of input, for the report
    """

    name: str
    reads: str
    run: Callable[[bytes], None]
    pieces: tuple[bytes, ...]


# ---- messages -------------------------------------------------------------------------------------------------------

DECODERS = (
    Decoder(InputSettings(max_page_bytes=MAX_PAGE_BYTES)),
    Decoder(
        InputSettings(
            body_encoding="base64",
            fields=FieldPaths(url="", charset="charset", body_encoding="enc"),
            max_page_bytes=MAX_PAGE_BYTES,
        )
    ),
    Decoder(InputSettings(preset="scrapy-cluster", max_page_bytes=MAX_PAGE_BYTES)),
    Decoder(InputSettings(preset="norconex", max_page_bytes=MAX_PAGE_BYTES)),
    Decoder(InputSettings(format="html", max_page_bytes=MAX_PAGE_BYTES)),
    Decoder(InputSettings(format="html", url_from="header:url", max_page_bytes=MAX_PAGE_BYTES)),
)


@cache
def schemes() -> list[tuple[Scheme, int]]:
    """Every scheme, and the width of its sketches.

    A record with sketches of another width was signed under other settings, and is rejected earlier.
    """
    found = (scheme_of(settings_named(name)) for name in SCHEMES)
    return [(scheme, scheme.sign([]).sketch.shape[1]) for scheme in found]


def read_message(data: bytes) -> None:
    """First byte: the decoder. The rest is the value; half of the inputs cut a header and a key from it."""
    if not data:
        return
    value, key, headers = data[1:], data[-40:], (("Content-Type", data[1:60]), ("url", data[-200:]))
    try:
        page = DECODERS[data[0] % len(DECODERS)].decode(Message(key, value, headers, "t", 0, 0, 0))
    except PageError as error:
        check_error(error)
        return
    check_page(page, len(value))
    for scheme, _ in schemes():
        signed = scheme.sign([page])
        scheme.probe(signed)


def check_page(page: Page, size: int) -> None:
    """Check that a page can be encoded and is not much larger than its input."""
    page.url.encode()
    page.label.encode()
    assert not page.judgeable or page.body.decode() is not None
    # A '<' in the text of a feed becomes a character reference.
    assert len(page.body) <= 4 * size + 16
    assert 0 <= page.event_time_ms < 10**15
    identity_columns([page])


def check_error(error: PageError | InputError | StateError) -> None:
    """Check that an error can be printed: its message is text and does not repeat the input."""
    str(error).encode("utf-8", "backslashreplace")
    assert len(str(error)) < SHOWN


_LABELS = (None, *sorted(LABELS))


def read_charset(data: bytes) -> None:
    """First byte: the declared character set."""
    label = _LABELS[data[0] % len(_LABELS)] if data else None
    found = to_utf8(data[1:], label).text
    assert found.decode() is not None
    assert len(found) <= 3 * len(data) + 16
    undone = undo_double_encoding(found)
    assert undone.decode() is not None
    assert len(undone) <= len(found)


def read_saved_page(data: bytes) -> None:
    """First byte: whether the body has a Content-Type of its own."""
    body = data[1:]
    saved = mime.read_mhtml(body, "multipart/related" if data[:1] > b"\x7f" else "", MAX_PAGE_BYTES)
    for found in (saved, mime.read_message(body, None, MAX_PAGE_BYTES)):
        if found is not None and found.text is not None and found.text is not body:
            assert found.text.decode() is not None
            # Legacy bytes take up to 3 bytes in UTF-8, and each part tags around it.
            assert len(found.text) <= 9 * len(data) + 64


def read_scripts(data: bytes) -> None:
    """The text of scripts is found in time and space linear in the page, and the page stays valid UTF-8."""
    body = data.decode("utf-8", "replace").encode()
    page = Page("t", 0, 0, "u", body, Markup.HTML, 0)
    found = read_script_text(page, 0)
    assert found.body.endswith(body)
    assert found.body.decode() is not None
    assert len(found.body) <= 12 * len(body) + 64


# ---- files ----------------------------------------------------------------------------------------------------------


_SCRATCH = tempfile.TemporaryDirectory(prefix="spotsieve-fuzzed-")


def read_file(data: bytes) -> None:
    """A file of any layout and compression: records in order, and at most one error."""
    path = Path(_SCRATCH.name) / "any"
    path.write_bytes(data)
    reader = FileReader(
        Input(path, "any", None), InputSettings(max_page_bytes=MAX_PAGE_BYTES), max_record_bytes=MAX_RECORD_BYTES
    )
    number = 0
    try:
        with reader:
            for outcome in reader:
                assert outcome.record.number == number
                assert len(outcome.record.raw) <= MAX_RECORD_BYTES + 4
                if isinstance(outcome.result, Page):
                    check_page(outcome.result, max(len(outcome.record.raw), MAX_PAGE_BYTES + 1))
                elif outcome.result is not None:
                    check_error(outcome.result)
                number += 1
    except InputError as error:
        check_error(error)


def read_warc(data: bytes) -> None:
    """WARC records, with the file cut into arbitrary chunks; and the same bytes as an HTTP response."""
    step = len(data) // 3 + 1
    chunks = (data[start : start + step] for start in range(0, len(data), step))
    for record in split_warc(chunks, MAX_RECORD_BYTES):
        if record.fault is None:
            check_capture(lambda raw=record.raw: capture_of(raw, MAX_PAGE_BYTES, 0), data)  # type: ignore[misc]
    check_capture(lambda: read_http(b"HTTP/1.1 200 OK\r\n" + data, MAX_PAGE_BYTES), data)


def check_capture(read: Callable[[], Capture | HttpResponse | None], data: bytes) -> None:
    """Check that a body is no longer than its input or than the limit of a page."""
    try:
        found = read()
    except PageError as error:
        check_error(error)
    else:
        assert found is None or len(found.body) <= max(len(data), MAX_PAGE_BYTES + 1)


# ---- markup ---------------------------------------------------------------------------------------------------------

LAYOUT = SieveSettings(salt=64)


def read_markup(data: bytes) -> None:
    """First byte: HTML, XML or plain text. The kernels must produce what their plain-Python references produce."""
    markup, page = Markup(data[0] % 3 if data else 0), data[1:1500]
    blocks = blocks_of(page, markup)
    assert tokens_of(page, markup) == blocks
    expected = noted_blocks_of(page, markup)
    found = kept_blocks_of(page, markup)
    assert [block.tokens for block in found] == [block.tokens for block in expected]
    assert [block.reason for block in found] == reasons_of(expected)
    sieved = sieve_pages(np.frombuffer(page, np.uint8), np.array([0, len(page)]), markup, LAYOUT)
    columns = columns_of(page, markup, LAYOUT)
    assert sieved.token_counts[0] == columns.tokens
    assert sieved.feature_counts[0] == columns.features
    assert sieved.minima.tolist() == columns.minima
    assert sieved.blocks.tolist() == columns.packed
    assert sieved.samples.tolist() == columns.samples
    assert sieved.titles.tolist() == columns.titles


# ---- log and state --------------------------------------------------------------------------------------------------


def both_sealed(data: bytes) -> tuple[bytes, bytes]:
    """The bytes unchanged, and with a valid checksum, which the grammar behind the checksum needs."""
    return data, seal(data)


def read_log_record(data: bytes) -> None:
    """A record of the log."""
    for record in both_sealed(data):
        try:
            found = decode(record, "log", 7)
        except StateError as error:
            check_error(error)
        else:
            check_signatures(found.signatures, len(record))
            assert sum(26 + 8 * len(page.keys) for page in found.forgotten) <= len(record)
            assert 14 * len(found.committed) <= len(record)


LEFT_OUT = 9
"""A page may take only its offset in a record, 8 bytes, and 70 in memory: all other columns are optional."""


def check_signatures(signatures: Signatures, size: int) -> None:
    """Check that all columns have one length, and that their memory is proportional to the bytes of the record."""
    count = len(signatures)
    assert len(signatures.urls) == len(signatures.labels) == len(signatures.status) == count
    for name in ("features", "blocks", "samples", "titles"):
        bounds = getattr(signatures, f"{name}_bounds")
        assert len(bounds) == count + 1
        assert len(getattr(signatures, name)) == bounds[-1]
    assert signatures.sketch.shape[0] == count
    assert all(status in set(SignatureStatus) for status in signatures.status.tolist())
    columns = (signatures.features, signatures.sketch, signatures.blocks, signatures.samples, signatures.titles)
    texts = sum(map(len, (*signatures.urls, *signatures.labels)))
    assert sum(column.nbytes for column in columns) + 6 * len(signatures.samples) + texts <= size
    of_pages = ("source", "partition", "offset", "event_time_ms", "digest", "text_digest", "host", "fingerprint")
    assert sum(getattr(signatures, name).nbytes for name in of_pages) <= LEFT_OUT * size
    for scheme, words in schemes():
        if signatures.sketch.shape[1] == words:
            scheme.probe(signatures)


ROUND_RECORDS = tuple(kept().values())


def read_round_record(data: bytes) -> None:
    """First byte: the kind. The rest is read as the body of such a record and as a whole record."""
    of, rest = ROUND_RECORDS[(data[0] if data else 0) % len(ROUND_RECORDS)], data[1:]
    for record in (encode_round_record(of.kind, SETTINGS, SHARE, RANGE, rest), *both_sealed(rest)):
        try:
            decoded = decode_round_record(record, SETTINGS, None, "matches", 7)
            found = decode_body(decoded, of.kind, of.read, "matches", 7)
        except StateError as error:
            check_error(error)
        else:
            assert bytes_of_arrays(found) <= ROUND_ARRAYS * (MOST_ROUND_PAGES + len(data))
            # A decoded record can be encoded again, with the same meaning.
            body = of.write(found)
            assert of.write(of.read(ColumnReader(body))) == body


ROUND_ARRAYS = 100
"""Bytes of memory per page of a round, whose columns may all be empty; and per byte of its record."""


def bytes_of_arrays(value: object) -> int:
    """The memory of all arrays in a value and in its parts."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (dict, list, tuple)):
        parts = list(value.values()) if isinstance(value, dict) else value
        return 8 * len(value) + sum(map(bytes_of_arrays, parts))
    if isinstance(value, (int, float, str, bytes)) or value is None:
        return 0
    return sum(map(bytes_of_arrays, (getattr(value, name) for name in names_of(value))))


def names_of(value: object) -> list[str]:
    """The names of an object's attributes, with or without slots."""
    return [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]


def read_local_log(data: bytes) -> None:
    """A log file: open, read and verify it, and append to it if it is valid."""
    directory = Path(_SCRATCH.name) / "log"
    directory.mkdir(exist_ok=True)
    for content in (data, framed(data)):
        (directory / LOG_FILE).write_bytes(content)
        with (directory / LOG_FILE).open("rb") as file:
            whole = whole_frames(file)
        faults = faults_of(directory)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TornTail)
                log = LocalLog(directory)
        except StateError as error:
            check_error(error)
            continue
        with log:
            assert log.end <= max(whole[0], 0)
            try:
                assert sum(len(record) for _, record in log.read_from(0)) <= len(content)
            except StateError as error:
                check_error(error)
                assert faults
            number = log.append(b"the next")
            assert list(log.read_from(number)) == [(number, b"the next")]


def faults_of(directory: Path) -> list[str]:
    """The findings of `spotsieve state verify` in the log."""
    found = Findings(MAX_RECORD_BYTES)
    examine_log(directory, LogFacts(None, None), found, ignore_progress)
    return [damage.rule for damage in found.damages] + found.notices


def framed(data: bytes) -> bytes:
    """The bytes cut into frames with valid checksums; zero bytes are the cuts."""
    parts = [MAGIC]
    for number, record in enumerate(data.split(b"\0")):
        length = len(record).to_bytes(4, "little")
        parts += (length, xxhash.xxh32_intdigest(length, number).to_bytes(4, "little"), record)
        parts.append(xxhash.xxh3_64_intdigest(record).to_bytes(8, "little"))
    return b"".join(parts)[: len(data) * 3 + 40]


KEYS = np.array([0, 1 << 56, 0xFD << 56, 0xFE << 56, 0xFF << 56, 0xFC << 56, 0xFB << 56], np.uint64)


def read_state_value(data: bytes) -> None:
    """First byte: the decoder. Values of the meta family are also read with a valid checksum."""
    kind, value = (data[0] if data else 0) % 11, data[1:]
    for stored in both_sealed(value):
        try:
            if kind == 0:
                buckets = decode_buckets(KEYS, [stored, None, stored, None, stored, stored, stored])
                assert buckets.numbers.nbytes <= 8 * 5 * len(stored)
            elif kind == 1:
                entries = StoredEntries([b"k", b"l"], [stored, stored], ["a", "b"])
                compared = entries.compared(with_features=True)
                assert compared.sketch.nbytes + compared.features.nbytes <= 2 * len(stored)
                entries.entries(np.array([0, 1]))
                assert bytes_of_arrays(entries.distinctive_texts()._asdict()) <= 300 + 4 * len(stored)
            elif kind == 2:
                decode_clock(decode_progress(stored), None)
            elif kind == 3:
                found = decode_identity(stored)
                assert isinstance(found.state_format, int)
                assert isinstance(found.settings + found.log, str)
                assert found.log_identity is None or len(found.log_identity.id) == 16
            elif kind == 4:
                decode_source(b"k", stored)
            elif kind == 5:
                assert 16 * len(decode_marks(stored)) <= len(stored)
            elif kind == 6:
                fault = entry_fault(stored, 2)
                assert fault is None or len(fault) < SHOWN
                if fault is None and stored != FORGOTTEN:
                    assert pack_entry(unpack_entry(b"k", stored)) == stored
                    StoredEntries([b"k"], [stored], ["a", "b"]).distinctive_texts()
            elif kind == 7:
                memories = decode_memories(KEYS[:3], [stored, None, stored])
                assert encode_memories(memories) == [stored, None, stored]
            elif kind == 8:
                assert encode_pending_verdict(decode_pending_verdict(bytes(16), stored))[:1] == stored[:1]
            elif kind == 9:
                decode_outcome_ref(stored)
            else:
                assert read_common_text([(changes_key(1), stored)]).changed == len(stored)
        except StateError as error:
            check_error(error)


def read_snapshot_manifest(data: bytes) -> None:
    """A manifest; also with its first line and a valid checksum."""
    directory = Path(_SCRATCH.name) / "snapshot"
    directory.mkdir(exist_ok=True)
    body = b"spotsieve-snapshot 1\n" + data + b"\n"
    for content in (data, body + b"%016x\n" % xxhash.xxh3_64_intdigest(body)):
        (directory / MANIFEST_FILE).write_bytes(content)
        try:
            found = read_manifest(directory)
        except StateError as error:
            check_error(error)
        else:
            assert {type(file.bytes) for file in found.files} <= {int}


class UnwrittenState(NewState):
    """A state that is not written anywhere. written: bytes of its keys and values"""

    def __init__(self) -> None:
        super().__init__(Path("unwritten"))
        self.written, self.is_complete = 0, False

    def put(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        assert family in FAMILIES
        assert not self.is_complete
        self.written += sum(len(key) + len(value) for key, value in items)

    def complete(
        self, identity: Identity, progress: StateProgress, clock: Clock, last_outcome: OutcomeRef | None = None
    ) -> None:
        assert last_outcome is None
        assert decode_identity(encode_identity(identity)) == identity
        assert decode_progress(encode_progress(progress)) == progress
        assert clock.floor <= progress.entry_count
        self.is_complete = True


def read_export(data: bytes) -> None:
    """The lines of an export."""
    state = UnwrittenState()
    try:
        found = Importer(iter(data.split(b"\n")), "export", ignore_progress).run(state)
    except InputError as error:
        check_error(error)
        assert not state.is_complete
    else:
        assert state.is_complete
        assert bool(state.written) == any(found[name] for name in COUNTED)
    assert state.written <= 4 * len(data)


WORDS = (
    "< > \" ' = / & <p> </p> <b> <!-- --> --! <! <? </ <script> </script> <style> </style> <title> </title> "
    "<textarea> <template> </template> <svg> </svg> <math> <![CDATA[ ]]> <noscript> <br> <plaintext> <my-tag "
    "<li> <ul> </ul> <table> <td> <nav> </nav> <h1> <article> <form> <select> <option> <pre> &amp; &eacute &#65; "
    "&#xD800; &#0; é 漢 ไ ｶ \u0301 \u00ad \u200d 😀 ſ İ Σ don’t the is of and und der <a href='x'> </a> "
    "<meta\tcharset=utf-16> charset=gbk \x1b$B \xa0 \xff"
).split(" ")
BLANKS = (b" ", b"\n", b"\n\n", b"\0", b"\xff", b"\xf0\x9f", b"words of a text and more words of it " * 3)
MARKUP = (*(word.encode() for word in WORDS), *BLANKS)
JSON = (
    b'{"url":"https://a.example/","body":"<p>text", "id": "7"}',
    b'"fetched_at":',
    b'"content_type":"text/html',
    b'"response_url":',
    b'"response_headers":{"Content-Type":["',
    b'"timestamp":',
    b'"content":',
    b'"charset":"',
    b'"enc":"base64"',
    b"\\ud800",
    b"\\u0000",
    b"[[[[",
    b"1e999",
    b"-1",
    b"null",
    b"true",
    b"2024-03-01T00:00:10Z",
    b"99999999999",
    b"},{",
    b"PGh0bWw+" * 9,
    b"\xef\xbb\xbf",
    b"http://b\xc3\xbc.example:1@x/",
)
ARCHIVES = (
    b"WARC/1.0\r\n",
    b"Content-Length: 5\r\n\r\n",
    b"Content-Length: 0\r\n\r\n",
    b"WARC-Type: response\r\n",
    b"WARC-Type: resource\r\n",
    b"WARC-Target-URI: http://a\r\n",
    b"WARC-Date: 2024-03-01T00:00:10Z\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"Content-Type: application/http\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b" folded\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"5\r\nhello\r\n",
    b"-1\r\n",
    b"0\r\n\r\n",
    b"Content-Encoding: br\r\n",
    b"Content-Encoding: gzip, deflate\r\n",
    b"Content-Encoding: zstd\r\n",
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    b"BZh9",
    b"1AY&SY",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
    b"\x78\x9c",
    b"%PDF-",
)
NUMBERS = tuple(
    value.to_bytes(size, "little")
    for value in (0, 1, 2, 255, 2**31, 2**32 - 1)
    for size in (1, 2, 4, 8)
    if value < 256**size
)
RECORDS = (b"\xf5sps\x03\x01", bytes(40), b"\x05\0pages", *NUMBERS)
MANIFESTS = (
    b'{"files":[{"bytes":1,"name":"../../x","xxh3_128":"0"}]',
    b'"log_position":',
    b"{",
    b"}",
    b"[",
    b"null",
    b'"format":2',
    b'{"format":2,"settings":"{}","log":"l"}',
    b"\x01",
    b"spotsieve-snapshot 2\n",
)

MESSAGES = (
    b"From: a\nSubject: b\n",
    b"From a\nFrom: a\nSubject: b\n\n",
    b"Content-Type: multipart/alternative; boundary=b\r\n",
    b"Content-Type: multipart/related; boundary=b\r\n",
    b"\r\n--b\r\n",
    b"--b--",
    b"Content-Type: text/html; charset=koi8-r\r\n",
    b"Content-Transfer-Encoding: base64\r\n\r\n",
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\n",
    b"=D0=\r\n",
    b"PGh0bWw+",
    b"\r\n ",
    b"\r\n\r\n",
)
SCRIPTS = (
    b'<script type="application/ld+json">',
    b'<script id="__NEXT_DATA__">',
    b"<script>window.__INITIAL_STATE__=",
    b"</script>",
    b'{"articleBody":"',
    b'"@graph":[',
    b"JSON.parse('",
    b'\\"',
    b"\\u003c",
    b"[[[[",
    b"{},",
    b"<!--",
    b"The mill was sold to the town, and the council met on the bridge for days. " * 4,
)
EXPORTS = (
    b"\n",
    b'{"source":0,"text":""}',
    b'{"entry":0,"forgotten":true}',
    b'"sketch":[',
    b'"first_entry":1',
    b'"marks":[[0,0]]',
    b'"sweep":["0",0]',
    b'{"bucket":"fd00000000000003","entries":[0],"inline":[]}',
    b'"entries":[',
    b'"ffffffffffffffff"',
    b'"end":true',
    b"\\udcff",
    b"-1",
    b"1.5",
    b"true",
    b"18446744073709551616",
    b"[" * 2000,
)
TARGETS = {
    target.name: target
    for target in (
        FuzzTarget("message", "messages, in every format, to signatures", read_message, (*JSON, *MARKUP)),
        FuzzTarget("charset", "bodies under any declared character set", read_charset, MARKUP),
        FuzzTarget("saved-page", "saved pages and messages in MIME", read_saved_page, (*MESSAGES, *MARKUP)),
        FuzzTarget("script-text", "the text in scripts of pages", read_scripts, (*SCRIPTS, *MARKUP)),
        FuzzTarget("file", "JSONL and WARC files, plain or compressed", read_file, (*ARCHIVES, *JSON)),
        FuzzTarget("warc", "WARC records and HTTP responses", read_warc, ARCHIVES),
        FuzzTarget("markup", "the text kernels against their reference implementations", read_markup, MARKUP),
        FuzzTarget("log-record", "records of the log", read_log_record, RECORDS),
        FuzzTarget("round-record", "records of rounds", read_round_record, NUMBERS),
        FuzzTarget("local-log", "the local log's file", read_local_log, (MAGIC, *RECORDS)),
        FuzzTarget("state-value", "values of the state", read_state_value, (*RECORDS, *MANIFESTS)),
        FuzzTarget("manifest", "a snapshot's manifest", read_snapshot_manifest, MANIFESTS),
        FuzzTarget("export", "the lines of an export", read_export, (*EXPORTS, *MANIFESTS)),
    )
}
