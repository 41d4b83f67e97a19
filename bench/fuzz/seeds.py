"""The seeds of fuzzing: valid inputs of every kind, generated, and real pages if the labelled data is there."""

import base64
import bz2
import gzip
import json
import lzma
import quopri
import zlib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zstandard
from webencodings.labels import LABELS

from bench.fuzz.targets import DECODERS
from spotsieve.state.format.buckets import encode_buckets
from spotsieve.state.format.common_text import encode_changes
from spotsieve.state.format.entries import encode_entries, pack_entry, unpack_entry
from spotsieve.state.format.host_memory import encode_memories
from spotsieve.state.format.meta import (
    NO_LOG,
    STATE_FORMAT,
    Identity,
    LogIdentity,
    StateProgress,
    encode_identity,
    encode_marks,
    encode_outcome_ref,
    encode_pending_verdict,
    encode_progress,
    encode_source,
)
from spotsieve.state.horizon import StepMark
from spotsieve.state.index import (
    COMMON_WINDOW,
    Buckets,
    CommitMark,
    CommonWindows,
    IndexUpdate,
    OutcomeRef,
    PendingVerdict,
    no_common_text,
)
from spotsieve.state.log.record import encode, encode_configuration, encode_forget, encode_skip
from spotsieve.state.portable.export import export_lines
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.snapshot.snapshots import FileFacts, Manifest, encode_manifest
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sharding.records.frame import encode_round_record
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from tests.fixtures.states.host_filings import index_update_of, some_memories
from tests.fixtures.states.round_records import RANGE, SETTINGS, SHARE, kept
from tests.reference.lexbor import DATA, pages_of
from tests.reference.signatures import make_signatures

REAL_PAGES, REAL_BYTES = 12, 3_000
ARTICLE = (
    "<html><head><title>The mill</title><meta charset=utf-8></head><body><nav><ul><li><a href='/'>home</a></ul></nav>"
    "<h1>The mill</h1><p>The rally was <b>held</b> in the old town hall, and it is said to go on &amp; on for days.</p>"
    "<script>if (a < b) {}</script><p>A second paragraph of the story, which is not as long.</p></body></html>"
)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%s\r\n%s"


def real_pages() -> list[bytes]:
    """The beginnings of some pages of the news set; none without the data."""
    if not (DATA / "news" / "pages.jsonl.xz").exists():
        return []
    return [page[at : at + REAL_BYTES] for _, page in islice(pages_of("news"), REAL_PAGES) for at in (0, 9_000)]


def bodies() -> list[bytes]:
    """Pages in several character sets, whole and truncated, and real pages."""
    twice = ("Größe über Straße für Bürger. " * 9).encode().decode("cp1252").encode()
    charsets = [twice, ARTICLE.encode(), "Привет, мир. ".encode("cp1251") * 9, "模模漢字 ".encode("gb18030") * 9]
    return [*charsets, ARTICLE.encode("utf-16"), b"\x1b$B%F%9%H\x1b(B " * 4, *real_pages()]


def saved_pages() -> list[bytes]:
    """MHTML with every encoding, after the byte that selects the Content-Type."""
    page = ARTICLE.encode()
    parts = (
        b"Content-Type: text/html; charset=utf-8\r\n\r\n" + page,
        b"Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(page),
        b"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" + quopri.encodestring(page),
    )
    body = b"".join(b"\r\n--b\r\n" + part for part in parts) + b"\r\n--b--\r\n"
    head = b"MIME-Version: 1.0\r\nContent-Type: multipart/related;\r\n\tboundary=b\r\n\r\n"
    return [b"\0" + head + body, b"\xff" + body]


def scripts() -> list[bytes]:
    """Pages whose text is in scripts."""
    text = "The rally was held in the old town hall, and it is said to go on for days. " * 9
    data = json.dumps({"props": {"articleBody": text, "list": [text, {"text": text}]}})
    shells = (
        f'<script type="application/ld+json">{data}</script>',
        f'<script id="__NEXT_DATA__" type="application/json">{data}</script>',
        f"<script>window.__INITIAL_STATE__ = {data};</script>",
        f"<script>window.__NUXT__=JSON.parse({json.dumps(data)})</script>",
    )
    return [f"<html><body><div id=app></div>{shell}</body></html>".encode() for shell in shells]


def messages() -> list[bytes]:
    """A valid message for each decoder, after the byte that selects the decoder."""
    one = {
        "url": "https://a.example/",
        "body": ARTICLE,
        "content_type": "text/html",
        "fetched_at": 1_700_000_000,
        "id": 7,
        "response_url": "https://b.example/",
        "response_headers": {"Content-Type": ["text/html"]},
        "content": ARTICLE,
        "timestamp": "2024-03-01T00:00:10Z",
        "encoding": "utf-8",
        "enc": "text",
    }
    texts = [json.dumps(one).encode(), *bodies()]
    texts += (json.dumps(one | {"body": body.decode("latin-1")}).encode() for body in real_pages())
    return [bytes([number]) + text for number in range(len(DECODERS)) for text in texts]


def warc_records() -> list[bytes]:
    """WARC responses, plain, chunked and folded, and a resource."""
    page = ARTICLE.encode()
    packed = gzip.compress(page, mtime=0)
    blocks = [
        RESPONSE % (b"", page),
        RESPONSE % (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        RESPONSE % (b"Content-Encoding: gzip\r\n", gzip.compress(page, mtime=0)),
        RESPONSE % (b"Content-Encoding: gzip\r\n", gzip.compress(page, mtime=0) * 2),
        RESPONSE % (b"Content-Encoding: zstd\r\n", zstandard.compress(page) * 2),
        RESPONSE % (b"Content-Encoding: zstd, deflate\r\n", zstandard.compress(page)),
        RESPONSE % (b"Content-Encoding: zstd, gzip\r\n", gzip.compress(zstandard.compress(page), mtime=0)),
        RESPONSE % (b"Transfer-Encoding: gzip, chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)),
        RESPONSE % (b"Content-Encoding:\r\n deflate\r\n", zlib.compress(page)),
        RESPONSE % (b"Content-Encoding: br\r\n", b"\x0b\x02\x80hello\x03"),
    ]
    head = (
        b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/\r\nWARC-Date: 2024-03-01T00:00:10Z\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
    )
    found = [head % (len(block), block) for block in blocks]
    return [*found, found[0].replace(b"response", b"resource").replace(b"application/http", b"text/html")]


def files() -> list[bytes]:
    """JSONL and WARC files, plain and in every compression."""
    lines = b"\n".join(text[1:] for text in messages()[:2]) + b"\n"
    plain = [lines, b"".join(warc_records())]
    folds: Sequence[Callable[[bytes], bytes]] = (gzip.compress, lzma.compress, bz2.compress, zstandard.compress)
    dictionary = zstandard.ZstdCompressionDict(plain[1][:2000], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    frame = b"\x5d\x2a\x4d\x18" + len(dictionary.as_bytes()).to_bytes(4, "little") + dictionary.as_bytes()
    with_dictionary = frame + zstandard.ZstdCompressor(dict_data=dictionary).compress(plain[1])
    return [*plain, *(fold(data) for fold in folds for data in plain), with_dictionary]


def log_records() -> list[bytes]:
    """Log records without their checksum; the target appends it."""
    forgotten = [ForgottenPage(7, "pages", 0, 3, (1, 2, 3)), ForgottenPage(8, "pages", 1, 0, ())]
    marks = (CommitMark("pages", 0, 7), CommitMark("other", 3, 1), CommitMark("", -1, 0))
    records = [encode(make_signatures(count, seed=count), bytes(16), 1, bytes(16), marks) for count in (0, 1, 3, 20)]
    others = (
        encode_forget(forgotten, bytes(16), 2, bytes(16)),
        encode_configuration('{"a":1}', bytes(16), LogIdentity(bytes(16), 5)),
        encode_skip(7, bytes(16)),
    )
    return [record[:-8] for record in (*records, *others)]


def round_records() -> list[bytes]:
    """For each kind of record a body and a whole record, after the byte that selects the kind."""
    found = list(kept().values())
    records = [encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body)[:-8] for of in found]
    return [bytes([kind]) + given for kind, of in enumerate(found) for given in (of.body, records[kind])]


def state_values() -> list[bytes]:
    """A value for each decoder, after the byte that selects the decoder."""
    signatures = make_signatures(2, seed=1)
    buckets = Buckets(np.array([0, 2]), np.array([3, 9], np.uint64), np.array([1, 2], np.uint64))
    index_update = IndexUpdate(signatures, np.array([0, 1]), 0, np.empty(0, np.uint64), buckets, 0)
    entry = encode_entries(index_update, np.array([0, 1], np.uint32))[0]
    window = np.arange(COMMON_WINDOW, dtype=np.uint64)
    learned = index_update_of(0, 5, some_memories(range(9), 5, np.random.default_rng(1)), seed=1)
    assert learned.learned is not None
    featured = pack_entry(unpack_entry(b"", entry)._replace(features=(1, 2, 3)))
    return [
        *(bytes([0]) + encode_buckets(np.array([tag << 56], np.uint64), buckets)[0] for tag in (1, 0xFE)),
        bytes([1]) + entry,
        bytes([2]) + encode_progress(StateProgress(7, 9, 11))[:-8],
        bytes([3]) + encode_identity(Identity(STATE_FORMAT, "{}", "log"))[:-8],
        bytes([3]) + encode_identity(Identity(STATE_FORMAT, "{}", "log", None, NO_LOG))[:-8],
        bytes([4]) + encode_source("pages"),
        bytes([5]) + encode_marks([StepMark(1, 2), StepMark(3, 4)])[:-8],
        *(bytes([kind]) + featured for kind in (1, 6)),
        *(bytes([kind]) + value for kind in (1, 6) for value in encode_entries(learned, np.zeros(5, np.uint32))),
        bytes([6]) + entry,
        *(bytes([7]) + value for value in encode_memories(learned.learned.memories) if value is not None),
        bytes([8]) + encode_pending_verdict(PendingVerdict(3, 0.5, 3, 1)),
        bytes([9]) + encode_outcome_ref(OutcomeRef(3, 4))[:-8],
        bytes([10]) + encode_changes(no_common_text(), CommonWindows(np.array([1]), window[None])),
    ]


def manifests() -> list[bytes]:
    """The JSON line of a manifest."""
    facts = (FileFacts("index/CURRENT", 16, "0" * 32),)
    whole = encode_manifest(
        Manifest("2026-01-01T00:00:00Z", 2, "log", "0" * 32, "0" * 16, 3, 4, "{}", "00", None, facts)
    )
    return [whole, whole.split(b"\n")[1]]


def exports() -> list[bytes]:
    """A complete export, with and without a deduplication window and a forgotten entry."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        with disk_state(directory, "{}", "local", IndexSettings()) as state:
            digest, scheme = settings_digest("{}"), ChainScheme(ChainSettings(max_distance_bits=3, tables=4))
            record = encode(make_signatures(1, seed=0), bytes(16), 0, digest)
            Engine(scheme, state, IndexSettings(), digest, "local").apply(record, 4)
        with read_only_state(directory) as still:
            whole = b"\n".join(export_lines(still))
    entry = whole.split(b"\n")[2]
    horizon = whole.replace(b'"watermark_ms":null,"marks":[]', b'"watermark_ms":5,"marks":[[0,0]]')
    return [whole, horizon.replace(entry, b'{"entry":0,"forgotten":true}')]


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "message": messages,
    "charset": lambda: [bytes([number % 256]) + body for number, body in enumerate(bodies() * (len(LABELS) // 40))],
    "saved-page": saved_pages,
    "script-text": scripts,
    "file": files,
    "warc": warc_records,
    "markup": lambda: [kind + body for body in bodies() for kind in (b"\1", b"\2")],
    "log-record": log_records,
    "round-record": round_records,
    "local-log": lambda: [b"\0".join(log_records()), b"one\0two\0"],
    "state-value": state_values,
    "manifest": manifests,
    "export": exports,
}
"""Seeds by the name of the target."""
