"""The bytes of every stored and sent format: a change here is a new version, listed in CHANGELOG and FORMATS.md."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.directory import LOG_FILE, MANIFEST_FILE
from spotsieve.state.format.buckets import decode_buckets, encode_buckets, encode_keys
from spotsieve.state.format.common_text import (
    BASE_KEY,
    changes_key,
    encode_base,
    encode_changes,
    put_windows,
    read_common_text,
)
from spotsieve.state.format.entries import (
    StoredEntries,
    all_found,
    decode_compared,
    decode_distinctive_texts,
    decode_entry,
    encode_entries,
    pack_entry,
    unpack_entry,
)
from spotsieve.state.format.entry_bytes import OwnParts
from spotsieve.state.format.host_memory import decode_memories, encode_memories
from spotsieve.state.format.meta import (
    STATE_FORMAT,
    Identity,
    LogIdentity,
    StatePart,
    StateProgress,
    decode_clock,
    decode_identity,
    decode_marks,
    decode_outcome_ref,
    decode_pending_verdict,
    decode_progress,
    decode_source,
    encode_identity,
    encode_marks,
    encode_outcome_ref,
    encode_pending_verdict,
    encode_progress,
    encode_source,
    pending_verdict_key,
    seal,
)
from spotsieve.state.horizon import Clock, StepMark
from spotsieve.state.index import (
    COMMON_SLOTS,
    Buckets,
    CommitMark,
    CommonWindows,
    HostMemories,
    HostUpdate,
    IndexUpdate,
    OutcomeRef,
    PendingVerdict,
    no_common_text,
    no_windows,
)
from spotsieve.state.log.bodies import Handover
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import (
    checksum_of,
    decode,
    encode,
    encode_configuration,
    encode_forget,
    encode_handover,
    encode_skip,
)
from spotsieve.state.portable.export import (
    dumped,
    entry_fields,
    entry_value,
    export_lines,
    loaded,
    memory_lines,
    memory_values,
    pending_verdict_line,
    pending_verdict_value,
)
from spotsieve.state.removal import ForgottenPage, Sweep
from spotsieve.state.snapshot.snapshots import FileFacts, Manifest, encode_manifest, read_manifest
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    BARE_TAGS,
    BLOCK_TAG,
    DIGEST_TAG,
    MAX_TABLES,
    MINIMA_TAG,
    RETIRED_TAG,
    TEXT_TAG,
    TITLE_TAG,
    URL_TAG,
)
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from tests.fixtures.states.host_filings import HostRow, distinctive_text, memories_of, slot
from tests.reference.signatures import assert_same, one_page

WRITER, DIGEST = bytes(range(16)), bytes(range(16, 32))

KEYS = np.array([0x0901020304050607, (253 << 56) + 3, (251 << 56) + 4], np.uint64)
BUCKETS = Buckets(
    np.array([0, 2, 4, 5]),
    np.array([1, 258, 0, 2**40 - 1, 7], np.uint64),
    np.array([2**64 - 1, 5, 0, 0, 0], np.uint64),
)
NO_BUCKETS = Buckets(np.zeros(1, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64))
BUCKET_VALUES = [
    ("02" "0100000000" "ffffffffffffffff" "0201000000" "0500000000000000"),
    ("02" "0000000000" "ffffffffff"),
    ("02" "0700000000"),
]  # fmt: skip
ENTRY = (
    "05"
    "02"
    "00000000"
    "07000000"
    "0201000000000000"
    "0068e5cf8b010000"
    "1500"
    "0100"
    "ddccbbaa00000000"
    "2c010000"
    "68676665646362610100000000000000"
    "68747470733a2f2f6578616d706c652e6f72672f61"
    "61"
)
MARKS = (CommitMark("pages", 7, 258), CommitMark("other", 1, 513))
RECORD = (
    "f57370730401000102030405060708090a0b0c0d0e0f0102000000000000101112131415161718191a1b1c1d1e1f0100"
    "0000010001000200027eff00000500706167657305006f74686572000007000000020100000000000001000100000001"
    "020000000000000201000000000000070000000068e5cf8b010000887766554433221100ffeeddccbbaa990807060504"
    "030201100f0e0d0c0b0a09ddccbbaa00000000efcdab8967452301032c01000072710200020003150001000500000000"
    "000000585756555453525168676665646362610100000000000000f10c000504030201f0020785848382810201e4e3e2"
    "e114131211242322210000050002019291a2a1b2b168747470733a2f2f6578616d706c652e6f72672f61611e049d9af7"
    "b77ded"
)
FORGET = (
    "f57370730402000102030405060708090a0b0c0d0e0f0102000000000000101112131415161718191a1b1c1d1e1f0200"
    "0000020100000000000007000000010200000000000005000200000070616765730500000000000000ffffffffffffff"
    "ff0300000000000000ffffffff0000000000000000040000000000612fc3a4dd0d184cb75297ee"
)
CONFIGURATION = (
    "f57370730403000102030405060708090a0b0c0d0e0f00000000000000003c8c141663acf5a1b6b7137162fa70fb2021"
    "22232425262728292a2b2c2d2e2f8090a0b0c0d0e0f07b2261223a317dc603f8489502b5ed"
)
SKIP = (
    "f57370730404000102030405060708090a0b0c0d0e0f0000000000000000101112131415161718191a1b1c1d1e1f0201"
    "0000000000002a3ad519505200bc"
)
HANDOVERS = {
    Handover(True, "signatures-2"): (
        "f57370730405000102030405060708090a0b0c0d0e0f0000000000000000101112131415161718191a1b1c1d1e1f0100"
        "000000000000007369676e6174757265732d325117a1af1d36e45d"
    ),
    Handover(False, "signatures", 258): (
        "f57370730405000102030405060708090a0b0c0d0e0f0000000000000000101112131415161718191a1b1c1d1e1f0002"
        "010000000000007369676e61747572657390368c355693dc1d"
    ),
}
MANIFEST = (
    b"spotsieve-snapshot 1\n"
    b'{"created":"2026-11-21T17:00:00+00:00","entries":3,"files":[{"bytes":16,"name":"index/CURRENT",'
    b'"xxh3_128":"99aa06d3014798d86001c324468d497f"}],"format":2,"log":"signatures",'
    b'"log_id":"202122232425262728292a2b2c2d2e2f","log_position":5,'
    b'"log_records":null,"salt":"f0e0d0c0b0a09080","settings":"{\\"a\\":1}","settings_digest":"dc70"}\n'
    b"89acb2f3af5740eb\n"
)
EXPORT = b"""
{"spotsieve_state":3,"format":4,"log":"local","log_id":"202122232425262728292a2b2c2d2e2f",\
"salt":"f0e0d0c0b0a09080","log_position":5,"pages_applied":0,\
"last_record":"ed7db7f79a9d041e","entries":1,"first_entry":0,"watermark_ms":null,"marks":[],\
"sweep":["0000000000000000",0],"host_sweep":["0000000000000000",0],"settings":"{}","settings_digest":"dc7048f8f8747f561349cde127705c16"}
{"source":0,"text":"pages"}
{"entry":0,"source":0,"partition":7,"offset":258,"event_time_ms":1700000000000,"url":"https://example.org/a",\
"label":"a","host":"00000000aabbccdd","feature_count":300,"sketch":["6162636465666768",\
"0000000000000001"]}
{"bucket":"0000000000000123","entries":[0],"inline":["0123456789abcdef"]}
{"bucket":"0100000000004567","entries":[0],"inline":["0123456789abcdef"]}
{"bucket":"02000000000089ab","entries":[0],"inline":["0123456789abcdef"]}
{"bucket":"030000000000cdef","entries":[0],"inline":["0123456789abcdef"]}
{"end":true,"sources":1,"entries":1,"buckets":4,"memories":0,"attempts":0,"windows":0,"postings":4,"xxh3_128":"11f1ea1805edaf592f8573e5beb2762f"}
"""
LOCAL_LOG = "535053564c4f47010300000077acae806f6e65a0e11f32a7ab1f9100000000c898f477c294d3380580062d"


def test_a_bucket_key_is_its_tag_and_bits_big_endian() -> None:
    assert encode_keys(KEYS) == [
        bytes.fromhex(key) for key in ("0901020304050607", "fd00000000000003", "fb00000000000004")
    ]


def test_tags_of_keys_keep_their_meaning() -> None:
    tags = (DIGEST_TAG, TEXT_TAG, MINIMA_TAG, RETIRED_TAG, BLOCK_TAG, TITLE_TAG, URL_TAG, MAX_TABLES)
    assert tags == (255, 254, 253, 252, 251, 250, 249, 249)
    assert BARE_TAGS == (253, 251, 250)


def test_a_bucket_is_its_version_and_13_bytes_a_posting_or_5_without_inline_bits() -> None:
    assert [value.hex() for value in encode_buckets(KEYS, BUCKETS)] == BUCKET_VALUES
    keys = np.insert(KEYS, 0, np.uint64(7))
    decoded = decode_buckets(keys, [None, *map(bytes.fromhex, BUCKET_VALUES)])
    assert decoded.bounds.tolist() == [0, 0, 2, 4, 5]
    assert decoded.numbers.tolist() == BUCKETS.numbers.tolist()
    assert decoded.inlines.tolist() == BUCKETS.inlines.tolist()


@pytest.mark.parametrize("bucket", [0, 1, 2])
@pytest.mark.parametrize("damage", ["", "02", "01...", "...-1", "...+1", "twice"])
def test_a_bucket_value_of_another_version_or_length_or_order_is_corrupt_and_named(bucket: int, damage: str) -> None:
    sound = bytes.fromhex(BUCKET_VALUES[bucket])
    values = list(map(bytes.fromhex, BUCKET_VALUES))
    values[bucket] = {
        "": b"",
        "02": b"\x02",
        "01...": b"\x01" + sound[1:],
        "...-1": sound[:-1],
        "...+1": sound + b"x",
        "twice": sound + sound[1:],
    }[damage]  # fmt: skip
    name = encode_keys(KEYS)[bucket].hex()
    with pytest.raises(CorruptRecord, match=rf"buckets\[{name}\] must be version 2 and whole postings"):
        decode_buckets(KEYS, list(values))


def test_an_entry_is_42_bytes_its_sketch_and_its_address() -> None:
    index_update = IndexUpdate(one_page(), np.array([0]), 0, KEYS[:0], NO_BUCKETS, 0)
    (value,) = encode_entries(index_update, np.array([0], np.uint32))
    assert value.hex() == ENTRY
    entry = decode_entry(b"\0", value, ["pages"])
    assert (entry.source, entry.partition, entry.offset, entry.event_time_ms) == ("pages", 7, 258, 1_700_000_000_000)
    assert (entry.url, entry.label, entry.id) == ("https://example.org/a", "a", "a")


def test_an_entry_of_a_scheme_that_compares_features_has_them_before_its_address() -> None:
    index_update = IndexUpdate(one_page(), np.array([0]), 0, KEYS[:0], NO_BUCKETS, 0, True)
    (value,) = encode_entries(index_update, np.array([0], np.uint32))
    features = "02000000" "0500000000000000" "5857565554535251"  # fmt: skip
    expected = ENTRY.replace("15000100", "15800100").replace("68747470", features + "68747470")
    assert value.hex() == expected
    assert decode_entry(b"\0", value, ["pages"]).url == "https://example.org/a"
    found = decode_compared([b"\0"], [value], with_features=True)
    assert (found.features.tolist(), found.spans.tolist()) == ([5, 0x5152535455565758], [[0, 2]])


def test_what_is_compared_is_read_from_the_heads_of_entries() -> None:
    compared = decode_compared([b"\0", b"\1"], [bytes.fromhex(ENTRY)] * 2)
    assert (compared.host.tolist(), compared.feature_count.tolist()) == ([0xAABBCCDD] * 2, [300] * 2)
    assert compared.sketch.tolist() == [[0x6162636465666768, 1]] * 2
    assert [array.dtype for array in (compared.host, compared.feature_count, compared.sketch)] == ["u8", "u4", "u8"]
    assert len(decode_compared([], [])) == 0


@pytest.mark.parametrize(
    "damage", [lambda v: v[:50], lambda v: b"\x09" + v[1:], lambda v: b"\5\1" + v[2:], lambda _: b""]
)
def test_an_entry_without_a_sketch_like_that_of_the_others_is_corrupt_and_named(
    damage: Callable[[bytes], bytes],
) -> None:
    sound = bytes.fromhex(ENTRY)
    with pytest.raises(CorruptRecord, match=r"entries\[00ff\] must be version 5 with a sketch of 2 words"):
        decode_compared([b"\0", b"\x00\xff"], [sound, damage(sound)])


@pytest.mark.parametrize("damage", [lambda v: v[:-1], lambda v: v + b"x", lambda v: b"\x09" + v[1:], lambda v: v[:10]])
def test_a_damaged_entry_is_corrupt_and_named(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptRecord, match=r"entries\[00ff\]"):
        decode_entry(b"\x00\xff", damage(bytes.fromhex(ENTRY)), ["pages"])
    with pytest.raises(CorruptRecord, match=r"entries\[00ff\] is missing although a bucket refers to it"):
        all_found([b"", b"\x00\xff"], [b"", None])
    with pytest.raises(CorruptRecord, match="the source that it declares"):
        decode_entry(b"\x00\xff", bytes.fromhex(ENTRY), [])


def test_a_source_is_its_version_and_utf_8() -> None:
    assert encode_source("pägés").hex() == "0170c3a467c3a973"
    assert decode_source(b"", encode_source("pägés")) == "pägés"
    for damaged in (b"", b"\x02abc", b"\x01\xff"):
        with pytest.raises(CorruptRecord, match="sources"):
            decode_source(b"", damaged)


def test_the_progress_value() -> None:
    progress = StateProgress(5, 258, 0xFEDC, 3, 0x018BCFE56800, Sweep(0x0901020304050607, 4), Sweep(0x0A0B, 6))
    value = encode_progress(progress)
    assert value.hex() == (
        "03"
        "0500000000000000"
        "0201000000000000"
        "dcfe000000000000"
        "03000000"
        "0068e5cf8b010000"
        "0706050403020109"
        "0400000000000000"
        "0b0a000000000000"
        "0600000000000000"
        "b33536be548cf4d1"
    )
    assert decode_progress(value) == progress
    for place in range(len(value)):
        with pytest.raises(CorruptRecord, match="meta"):
            decode_progress(value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :])


def test_the_marks_value() -> None:
    marks = (StepMark(-2, 0), StepMark(7, 258))
    value = encode_marks(marks)
    assert value.hex() == ("010200feffffffffffffff00000000000000000700000000000000020100000000000063038a4e44487710")
    assert decode_marks(value) == marks
    for damaged in (value[:-9] + value[-8:], value[:-1], b""):
        with pytest.raises(CorruptRecord, match="meta"):
            decode_marks(damaged)
    cut = seal(value[:-9])
    with pytest.raises(CorruptRecord, match="the marks that it declares"):
        decode_marks(cut)
    for wrong in ((marks[1], marks[0]), (StepMark(1, 5), StepMark(2, 5)), (StepMark(1, 5), StepMark(1, 6))):
        with pytest.raises(CorruptRecord, match="ascend"):
            decode_marks(encode_marks(wrong))


def test_a_watermark_without_marks_or_marks_beyond_the_entries_are_corrupt() -> None:
    marks = encode_marks((StepMark(1, 9),))
    assert decode_clock(StateProgress(5, 9, 0), None) == Clock()
    assert decode_clock(StateProgress(5, 9, 0, 0, 70), marks) == Clock(70, (StepMark(1, 9),))
    for progress, value in (
        (StateProgress(5, 8, 0, 0, 70), marks), (StateProgress(5, 9, 0), marks),
        (StateProgress(5, 9, 0, 0, 70), None),
    ):  # fmt: skip
        with pytest.raises(CorruptRecord, match="must exist if the progress has a watermark"):
            decode_clock(progress, value)


LOG = LogIdentity(bytes(range(32, 48)), 0xF0E0D0C0B0A09080)


def test_the_identity_value() -> None:
    value = encode_identity(Identity(STATE_FORMAT, '{"a":1}', "local", None, LOG))
    assert value == (
        b'\x01{"format": 4, "log": "local", "log_id": "202122232425262728292a2b2c2d2e2f", "salt": "f0e0d0c0b0a09080", '
        b'"settings": "{\\"a\\":1}"}' + bytes.fromhex("a7aa4090aebd2dcd")
    )
    assert decode_identity(value) == (4, '{"a":1}', "local", None, LOG)
    part = encode_identity(Identity(STATE_FORMAT, "{}", "signatures", StatePart(1, 3)))
    assert part[:-8] == (
        b'\x01{"format": 4, "log": "signatures", "log_id": null, "part": [1, 3, 2], "salt": null, "settings": "{}"}'
    )
    assert decode_identity(part)[3:] == (StatePart(1, 3), None), "the log is not read yet"
    for earlier in (b"[1, 3]", b"[0, 2]", b"[1, 3, 3]"):
        with pytest.raises(CorruptRecord, match="must name the part of a shard in version 2; delete the directory"):
            decode_identity(seal(part[:-8].replace(b"[1, 3, 2]", earlier)))
    with pytest.raises(CorruptRecord, match="must end in its xxh3-64 checksum"):
        decode_identity(value[:-1])


def test_the_outcome_that_a_shard_was_last_filed_by() -> None:
    value = encode_outcome_ref(OutcomeRef(258, 2**63))
    assert value.hex() == "0102010000000000000000000000000080" + seal(value[:-8])[-8:].hex()
    assert decode_outcome_ref(value) == OutcomeRef(258, 2**63)
    with pytest.raises(CorruptRecord, match="must be version 1 and 25 bytes"):
        decode_outcome_ref(seal(value[:-9]))


def test_a_log_record() -> None:
    record = encode(one_page(), WRITER, 513, DIGEST, MARKS)
    assert record.hex() == RECORD
    decoded = decode(bytes.fromhex(RECORD))
    assert (decoded.writer, decoded.sequence, decoded.settings_digest) == (WRITER, 513, DIGEST)
    assert decoded.committed == MARKS
    assert_same(decoded.signatures, one_page())


def test_a_log_record_that_forgets() -> None:
    pages = (ForgottenPage(258, "pages", 7, 513, (5, 2**64 - 1)), ForgottenPage(3, "a/ä", -1, 0, ()))
    assert encode_forget(pages, WRITER, 513, DIGEST).hex() == FORGET
    assert decode(bytes.fromhex(FORGET)).forgotten == pages


def test_the_log_record_of_a_configuration() -> None:
    assert encode_configuration('{"a":1}', WRITER, LOG).hex() == CONFIGURATION
    decoded = decode(bytes.fromhex(CONFIGURATION))
    assert (decoded.configuration, decoded.log) == ('{"a":1}', LOG)
    one, other = (decode(encode_configuration('{"a":1}', WRITER)).log for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.id != other.id
    assert one.salt != other.salt


def test_the_log_record_that_has_another_one_passed_over() -> None:
    record = encode_skip(258, DIGEST).hex()
    assert (record[:12], record[44:-16]) == (SKIP[:12], SKIP[44:-16]), "the writer is drawn"
    assert decode(bytes.fromhex(SKIP)).skips == 258
    for handover, golden in HANDOVERS.items():
        record = encode_handover(handover, DIGEST).hex()
        assert (record[:12], record[44:-16]) == (golden[:12], golden[44:-16])
        assert decode(bytes.fromhex(golden)).handover == handover


def test_a_local_log_file(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append(b"one")
        log.append(b"")
    assert (tmp_path / LOG_FILE).read_bytes().hex() == LOCAL_LOG


def test_the_manifest_of_a_snapshot(tmp_path: Path) -> None:
    facts = FileFacts("index/CURRENT", 16, "99aa06d3014798d86001c324468d497f")
    manifest = Manifest(
        "2026-11-21T17:00:00+00:00",
        2,
        "signatures",
        LOG.id.hex(),
        f"{LOG.salt:016x}",
        5,
        3,
        '{"a":1}',
        "dc70",
        None,
        (facts,),
    )
    (tmp_path / MANIFEST_FILE).write_bytes(encode_manifest(manifest))
    assert (tmp_path / MANIFEST_FILE).read_bytes() == MANIFEST
    assert read_manifest(tmp_path) == manifest
    for place in range(len(MANIFEST)):
        (tmp_path / MANIFEST_FILE).write_bytes(MANIFEST[:place] + bytes([MANIFEST[place] ^ 1]) + MANIFEST[place + 1 :])
        with pytest.raises(StateError):
            read_manifest(tmp_path)


def test_the_names_and_values_of_a_whole_state(tmp_path: Path) -> None:
    with disk_state(tmp_path, "{}", "local", IndexSettings()) as state:
        engine = Engine(
            ChainScheme(ChainSettings(max_distance_bits=3, tables=4)),
            state,
            IndexSettings(),
            DIGEST,
            "local",
        )
        engine.apply(bytes.fromhex(RECORD), 4)
        posting = "02" "0000000000" "efcdab8967452301"  # fmt: skip
        progress = StateProgress(5, 1, checksum_of(bytes.fromhex(RECORD)))
        assert [(name[:8], name[8:].hex(), value.hex()) for name, value in state.items()] == [
            (b"meta/pro", b"gress".hex(), encode_progress(progress).hex()),
            (b"buckets/", "0000000000000123", posting),
            (b"buckets/", "0100000000004567", posting),
            (b"buckets/", "02000000000089ab", posting),
            (b"buckets/", "030000000000cdef", posting),
            (b"entries/", "0000000000000000", ENTRY),
            (b"sources/", "0000000000000000", encode_source("pages").hex()),
        ]  # fmt: skip
        keys = (0x0123, 0x0100000000004567, 0x02000000000089AB, 0x030000000000CDEF)
        forget = encode_forget([ForgottenPage(0, "pages", 7, 258, keys)], WRITER, 1, DIGEST)
        engine.apply(forget, 5)
        assert [(name[:8], name[8:].hex(), value.hex()) for name, value in state.items()] == [
            (b"meta/pro", b"gress".hex(), encode_progress(StateProgress(6, 1, checksum_of(forget))).hex()),
            (b"entries/", "0000000000000000", "00"),
            (b"sources/", "0000000000000000", encode_source("pages").hex()),
        ]


def test_the_settings_text_is_canonical_and_complete() -> None:
    text = verdict_settings_text(Settings())
    assert text.startswith(
        '{"index.author_paths":["/~"],"index.bucket_cap":256,"index.candidate_limit":0,"index.domain_list":"","index.horizon_hours":0.0,'
    )
    assert ',"index.scope":"global",' in text
    assert '"revision":4' in text
    names = set(json.loads(text))
    assert names > {"scheme.name", "scheme.min_containment", "scheme.template_share"}
    assert "directory" not in text
    assert settings_digest("{}").hex() == "dc7048f8f8747f561349cde127705c16"


def test_the_lines_of_an_export(tmp_path: Path) -> None:
    with disk_state(tmp_path, "{}", "local", IndexSettings()) as state:
        state.adopt(LOG)
        scheme = ChainScheme(ChainSettings(max_distance_bits=3, tables=4))
        Engine(scheme, state, IndexSettings(), DIGEST, "local").apply(bytes.fromhex(RECORD), 4)
    with read_only_state(tmp_path) as still:
        assert b"\n".join(export_lines(still)) == EXPORT.strip()


RANK = "0000000000000cc0"


def test_headlines_add_a_column_to_records() -> None:
    titled = dataclasses.replace(one_page(), headline=np.array([0xC1C2], np.uint16))
    record = encode(titled, WRITER, 513, DIGEST, MARKS)
    widened = RECORD.replace("7eff0000", "7eff0200").replace("150001000500", "15000100" + "c2c1" + "0500")
    assert record.hex()[:-16] == widened[:-16]
    assert_same(decode(record).signatures, titled)


def test_ranks_add_a_column_to_records_and_a_word_to_entries() -> None:
    ranked = dataclasses.replace(one_page(), rank=np.array([0xC00C000000000000], np.uint64))
    record = encode(ranked, WRITER, 513, DIGEST, MARKS)
    widened = RECORD.replace("7eff0000", "7eff0100").replace("150001000500", "15000100" + RANK + "0500")
    assert record.hex()[:-16] == widened[:-16]
    assert_same(decode(record).signatures, ranked)
    none = np.empty(0, np.uint64)
    index_update = IndexUpdate(
        ranked, np.array([0]), 0, none, Buckets(np.zeros(1, np.int64), none, none), 0, keeps_ranks=True
    )
    (value,) = encode_entries(index_update, np.array([0], np.uint32))
    assert value.hex() == "06" + ENTRY[2:].replace("68747470", RANK + "68747470")
    assert StoredEntries([b""], [value], ["pages"]).ranks().tolist() == [0xC00C000000000000]
    assert pack_entry(unpack_entry(b"", value)) == value
    number, again = entry_value(entry_fields(bytes(8), value))
    assert (number, again) == (0, value)
    with pytest.raises(CorruptRecord, match="must be version 6, with the rank of its page"):
        StoredEntries([b""], [bytes.fromhex(ENTRY)], ["pages"]).ranks()


OWN = OwnParts(0x1234, 127, 128, 129, 0xFFEEDDCC, (0xA5, 0xBEEF, 0xBEEF), (0x0102030405000CF1, 2**64 - 1), (0xABCD,))
DISTINCTIVE_TEXT = (
    "3412"  # site
    "7f" "80" "81"  # main, whole, every
    "ccddeeff"  # limit
    "03" "02" "01"  # sampled hashes, blocks, title words
    "a5c0bbffee67"  # 14 low bits of each hash, then 1, 001 and 1 for high bits of 0, 2 and 2
    "f10c000504030201" "ffffffffffffffff"
    "cdab"
)  # fmt: skip


def test_an_entry_has_its_distinctive_text_between_its_features_and_its_url() -> None:
    learned = HostUpdate(distinctive_text([OWN]), memories_of([]), (), (), no_windows())
    index_update = IndexUpdate(one_page(), np.array([0]), 0, KEYS[:0], NO_BUCKETS, 0, learned=learned)
    (value,) = encode_entries(index_update, np.array([0], np.uint32))
    assert value.hex() == ENTRY.replace("15000100", "15400100").replace("68747470", DISTINCTIVE_TEXT + "68747470")
    (both,) = encode_entries(dataclasses.replace(index_update, keeps_features=True), np.array([0], np.uint32))
    features = "02000000" "0500000000000000" "5857565554535251"  # fmt: skip
    assert both.hex() == ENTRY.replace("15000100", "15c00100").replace(
        "68747470", features + DISTINCTIVE_TEXT + "68747470"
    )
    assert decode_entry(b"\0", both, ["pages"]).url == "https://example.org/a"
    found = decode_distinctive_texts([b"\0", b"\1"], [value, both])
    assert found.sample.tolist() == [0x00A5, 0xBEEF, 0xBEEF] * 2
    assert found.blocks.tolist() == [0x0102030405000CF1, 2**64 - 1] * 2
    assert found.titles.tolist() == [0xABCD] * 2


MEMORIES = memories_of(
    [
        HostRow(1, 1 << 63, 5, 258, 0, 0, 0, 0, [slot(0x0A0B0C0, 0, 1, 4), slot(5, 0, 1, 4)], [slot(0x9192, 0, 1, 4)]),
        HostRow(2, 3, 0, 2**40 - 1, 1, 0, 7, 15, [slot(2**28 - 1, 15, 0xFFF, 0xFFE), slot(1, 2, 3, 4)], []),
        HostRow(3, 0, 0, 5),
    ]
)
MEMORY_VALUES = [
    (
        "04" "0201000000" "0000000000000080" "0500000000000000" "0000" "0000" "00" "00" "0200" "01"
        "01" "04100000"  # one tally for all slots
        "c0b0a05000000092910000"  # three identities of 28 bits, and zeros
    ),
    (
        "04" "ffffffffff" "0300000000000000" "0000000000000000" "0100" "0000" "07" "0f" "0200" "00"
        "00"  # tallies within slots
        "feffffffffffff" "04300012000000"
    ),
]  # fmt: skip


def test_the_memory_of_a_host() -> None:
    values = encode_memories(MEMORIES)
    assert [value and value.hex() for value in values] == [*MEMORY_VALUES, None]
    decoded = decode_memories(MEMORIES.hosts, values)
    for name in set(HostMemories._fields) - {"last"}:
        assert getattr(decoded, name).tolist() == getattr(MEMORIES, name).tolist()
    assert decoded.last.tolist() == [258, 2**40 - 1, 0]


def test_the_changes_of_common_text() -> None:
    table = no_common_text()
    put_windows(table, CommonWindows(np.array([0x7FFF]), np.array([[1, 2, 3, 4, 5, 0, 0, 0]], np.uint64)))
    windows = CommonWindows(np.array([0x7FFF, 3]), np.array([[6, 3, 1, 2, 4, 0, 0, 0], [7] + [0] * 7], np.uint64))
    changes = encode_changes(table, windows)
    assert changes.hex() == (
        "02" "02000000"
        "ff7f" "eb"  # all old slots but 3 and 5 stay, behind two new ones
        "0300" "fe"
        "0600000000000000" "0300000000000000"
        "0700000000000000"
    )  # fmt: skip
    assert encode_base(no_common_text()) == bytes([2]) + bytes(8 * COMMON_SLOTS)
    found = read_common_text([(BASE_KEY, encode_base(table)), (changes_key(1), changes)])
    put_windows(table, windows)
    assert found.table.slots.tolist() == table.slots.tolist()


def test_an_attempt() -> None:
    key = pending_verdict_key(1, -2, 258)
    assert key.hex() == "000000017ffffffe0000000000000102"
    value = encode_pending_verdict(PendingVerdict(7, 0.75, 3, 2))
    assert value.hex() == "010700000000000000000000000000e83f0302"
    assert decode_pending_verdict(key, value) == PendingVerdict(7, 0.75, 3, 2)
    nothing = encode_pending_verdict(PendingVerdict(-1, -math.nan, 3, 2))
    assert nothing.hex() == "01ffffffffffffffff000000000000f87f0302"


def test_the_lines_of_an_distinctive_text_of_memories_and_of_attempts() -> None:
    entry = pack_entry(unpack_entry(b"", bytes.fromhex(ENTRY))._replace(own=OWN))
    line = dumped(entry_fields(b"\0", entry))
    wanted = (
        b'"own":{"site":4660,"main":127,"whole":128,"every":129,"limit":4293844428,"sample":[165,48879,48879],'
        b'"blocks":["0102030405000cf1","ffffffffffffffff"],"titles":[43981]}}'
    )
    assert line.endswith(wanted)
    assert entry_value(loaded(line)) == (0, entry)
    keys = encode_keys(np.array([1, 0xABCD], np.uint64))
    lines = memory_lines(keys, values := [bytes.fromhex(value) for value in MEMORY_VALUES])
    assert lines[0] == (
        b'{"memory":"0000000000000001","urls":"8000000000000000","texts":"0000000000000005","last":258,"item_hand":0,'
        b'"word_hand":0,"item_floor":0,"word_floor":0,"items":[[10531008,0,1,4],[5,0,1,4]],"words":[[37266,0,1,4]]}'
    )
    assert lines[1] == (
        b'{"memory":"000000000000abcd","urls":"0000000000000003","texts":"0000000000000000","last":1099511627775,'
        b'"item_hand":1,"word_hand":0,"item_floor":7,"word_floor":15,"items":[[268435455,15,4095,4094],[1,2,3,4]],'
        b'"words":[]}'
    )
    assert memory_values([loaded(line) for line in lines]) == (keys, values)
    key = pending_verdict_key(1, -2, 258)
    pending_verdicts = [
        (
            PendingVerdict(7, 0.1, 3, 2),
            b'{"attempt":258,"source":1,"partition":-2,"original":7,"score":0.1,"reason":3,"found_by":2}',
        ),
        (
            PendingVerdict(-1, math.nan, 3, 2),
            b'{"attempt":258,"source":1,"partition":-2,"original":null,"score":null,"reason":3,"found_by":2}',
        ),
    ]
    for attempt, expected in pending_verdicts:
        value = encode_pending_verdict(attempt)
        assert pending_verdict_line(key, value) == expected
        assert pending_verdict_value(loaded(expected)) == (key, value)


def test_a_page_forgotten_with_its_host_has_the_highest_bit_of_its_count_of_keys() -> None:
    page = ForgottenPage(258, "pages", 7, 513, (5, 2**64 - 1))
    plain, with_host = (encode_forget([page._replace(with_host=flag)], WRITER, 513, DIGEST) for flag in (False, True))
    assert with_host.hex()[:-16] == plain.hex()[:-16].replace("0500020000007061", "0500020000807061")
    assert decode(with_host).forgotten == (page._replace(with_host=True),)
