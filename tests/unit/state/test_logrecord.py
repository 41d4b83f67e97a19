"""The log record: read back as written; damage and newer formats differ; it stays below the broker's limit."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import split_pages
from spotsieve.state.log.pages_body import MAX_MARKS
from spotsieve.state.log.record import (
    FRAME_BYTES,
    NO_PAGES,
    checksum_of,
    decode,
    encode,
    encode_and_keep,
    encode_configuration,
    encode_forget,
    encode_skip,
    first_of_ours,
    may_name,
    split,
)
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import CorruptRecord, DamagedRecord, StateError
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.base.signature import MAX_URL_BYTES, SignatureStatus, join_signatures
from tests.reference.signatures import (
    assert_same,
    make_signatures,
    one_page,
    packed_block,
    packed_sample,
    record_of_broken_columns,
)

WRITER, DIGEST = bytes(range(16)), bytes(range(16, 32))


@pytest.mark.parametrize("count", [0, 1, 2, 513])
def test_a_record_gives_back_what_was_signed(count: int) -> None:
    signatures = make_signatures(count, seed=count)
    record = decode(encode(signatures, WRITER, 2**63, DIGEST))
    assert (record.writer, record.sequence, record.settings_digest) == (WRITER, 2**63, DIGEST)
    assert_same(record.signatures, signatures)


@pytest.mark.parametrize("missing", ["nothing", "urls", "labels", "partition"])
def test_a_quick_look_finds_every_page_by_address_name_and_id(missing: str) -> None:
    signatures = make_signatures(40, seed=7)
    empty: dict[str, Any] = {"urls": (b"",) * 40, "labels": (b"",) * 40, "partition": np.zeros(40, np.int32)}
    if missing in empty:
        signatures = dataclasses.replace(signatures, **{missing: empty[missing]})
    record = memoryview(encode(signatures, WRITER, 1, DIGEST, [CommitMark("marks alone", 3, 77)]))
    for row in range(40):
        for text in filter(None, (signatures.urls[row], signatures.labels[row])):
            assert may_name(record, text, None)
        page_id = (
            signatures.sources[signatures.source[row]],
            *map(int, (signatures.partition[row], signatures.offset[row])),
        )
        assert may_name(record, b"of no page here", page_id)
    assert not may_name(record, b"of no page here", None)
    assert not may_name(record, b"marks alone", ("marks alone", 3, 77)), "a mark is no page"
    forgets = memoryview(encode_forget(FORGOTTEN, WRITER, 2, DIGEST))
    assert not may_name(forgets, b"pages", None)


def test_a_quick_look_leaves_damage_to_the_reader() -> None:
    record = bytearray(encode(make_signatures(40, seed=7), WRITER, 1, DIGEST))
    record[46:50] = (2**31).to_bytes(4, "little")  # so many pages
    assert may_name(memoryview(record), b"of no page here", None)


FORGOTTEN = (
    ForgottenPage(0, "pages", -(2**31), 0, ()),
    ForgottenPage(2**40 - 1, "news/ärger.jsonl", 7, 2**63 - 1, (0, 2**64 - 1, 5)),
)


def test_a_record_that_forgets_gives_back_its_pages_and_has_no_signatures() -> None:
    record = decode(encode_forget(FORGOTTEN, WRITER, 3, DIGEST))
    assert (record.writer, record.sequence, record.settings_digest) == (WRITER, 3, DIGEST)
    assert record.forgotten == FORGOTTEN
    assert len(record.signatures) == 0
    assert decode(encode(one_page(), WRITER, 1, DIGEST)).forgotten == ()


@pytest.mark.parametrize("damage", ["cut", "longer", "none", "more", "not UTF-8"])
def test_a_record_that_forgets_other_pages_than_it_declares_is_corrupt(damage: str) -> None:
    from spotsieve.state.format.meta import seal

    body = encode_forget(FORGOTTEN[:1], WRITER, 1, DIGEST)[:-8]
    head, pages = body[:46], body[46:]
    assert pages[:4] == (1).to_bytes(4, "little")
    pages = {
        "cut": pages[:-1],
        "longer": pages + b"x",
        "none": bytes(4),
        "more": b"\x02" + pages[1:],
        "not UTF-8": pages[:-1] + b"\xff",
    }[damage]
    with pytest.raises(CorruptRecord, match=r"log\[7\] must (hold the pages that it declares|be at least)"):
        decode(seal(head + pages), "log", 7)


def test_a_writer_or_digest_of_another_length_is_a_programming_error() -> None:
    for writer, digest in ((b"x", DIGEST), (WRITER, b"x")):
        with pytest.raises(ValueError, match="must be 16 bytes"):
            encode_forget(FORGOTTEN, writer, 1, digest)


@pytest.mark.parametrize("limit", [1, 200, 5_000, 10**6])
def test_pages_to_forget_are_cut_so_that_records_stay_below_the_limit(limit: int) -> None:
    pages = [ForgottenPage(number, "päges", 1, number, tuple(range(number % 9))) for number in range(300)]
    parts = list(split_pages(iter(pages), limit - FRAME_BYTES))
    assert [page for part in parts for page in part] == pages
    for part, following in zip(parts, [*parts[1:], []], strict=True):
        size = len(encode_forget(part, WRITER, 0, DIGEST))
        assert len(part) == 1 or size <= limit
        if following:
            assert len(encode_forget([*part, following[0]], WRITER, 0, DIGEST)) > limit, (
                "a part is as large as it may be"
            )


def test_every_changed_byte_of_a_record_is_noticed() -> None:
    record = encode(make_signatures(3, seed=3), WRITER, 1, DIGEST)
    for place in range(len(record)):
        damaged = bytearray(record)
        damaged[place] ^= 0x10
        with pytest.raises(StateError):
            decode(bytes(damaged))


def test_a_damaged_record_names_the_log_and_the_offset() -> None:
    damaged = bytearray(encode(make_signatures(3, seed=3), WRITER, 1, DIGEST))
    damaged[64] ^= 1
    with pytest.raises(DamagedRecord, match=r"signatures\[77\] must end in its xxh3-64 checksum; restore the log"):
        decode(bytes(damaged), "signatures", 77)


@pytest.mark.parametrize("length", [4, 5, 40, 53, 100])
def test_a_cut_record_is_corrupt(length: int) -> None:
    record = encode(make_signatures(3, seed=3), WRITER, 1, DIGEST)
    with pytest.raises(DamagedRecord, match=r"log\[0\]"):
        decode(record[:length])


@pytest.mark.parametrize(
    "value",
    [b"", b"\xf5sp", b"{}", b'{"url":"https://a.example/","body":"<p>a page"}', bytes(200), b"\x02\x01" + bytes(60)],
)
def test_bytes_that_do_not_begin_as_our_records_are_foreign_and_no_error(value: bytes) -> None:
    record = decode(value)
    assert record.foreign
    assert len(record.signatures) == len(record.forgotten) == 0
    assert (record.configuration, record.skips) == (None, None)
    assert record.checksum == checksum_of(value) == xxhash.xxh3_64_intdigest(value)
    assert not decode(encode(one_page(), WRITER, 1, DIGEST)).foreign


TEXT = '{"a":1,"revision":4}'


def test_a_configuration_gives_back_the_settings_and_their_digest() -> None:
    record = decode(encode_configuration(TEXT, WRITER))
    assert (record.configuration, record.settings_digest) == (TEXT, settings_digest(TEXT))
    assert (record.writer, record.skips, len(record.signatures)) == (WRITER, None, 0)
    fixed = decode(encode_configuration(TEXT, WRITER, LogIdentity(bytes(16), 2**64 - 1)))
    assert (fixed.configuration, fixed.log) == (TEXT, LogIdentity(bytes(16), 2**64 - 1))
    assert fixed.settings_digest == record.settings_digest


def test_a_skip_names_the_offset() -> None:
    record = decode(encode_skip(2**40, DIGEST))
    assert (record.skips, record.settings_digest, record.configuration) == (2**40, DIGEST, None)
    assert decode(encode_skip(2**40, DIGEST)).writer != record.writer


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *((3, bytes(24) + text) for text in (b"\xff", b"[]", b"{}", b"")),
        *((3, bytes(23)), (4, bytes(7)), (4, bytes(9))),
    ],
    ids=["no UTF-8", "no settings", "another digest", "nothing", "cut", "short", "long"],
)
def test_a_configuration_or_a_skip_of_another_body_is_damaged(kind: int, body: bytes) -> None:
    from spotsieve.state.format.meta import seal

    head = encode(one_page(), WRITER, 1, DIGEST)[:46]
    with pytest.raises(DamagedRecord, match=r"must hold the (configuration|skip) that it declares"):
        decode(seal(head[:5] + bytes([kind]) + head[6:] + body))


def test_the_first_record_of_ours_is_found_behind_foreign_and_damaged_ones() -> None:
    ours = encode_configuration(TEXT, WRITER)
    records = [(3, b""), (7, b"{}"), (8, ours[:-1] + b"\0"), (9, ours), (10, encode(one_page(), WRITER, 1, DIGEST))]
    assert first_of_ours(records, "log") == (9, decode(ours))
    assert first_of_ours(records[:3], "log") is None


def test_a_record_of_a_later_kind_or_version_says_to_upgrade() -> None:
    from spotsieve.state.format.meta import seal

    record = encode(make_signatures(1, seed=1), WRITER, 1, DIGEST)
    kind = seal(record[:5] + b"\x07" + record[6:-8])
    with pytest.raises(StateError, match=r"must be of a kind known here .* got 7; a newer release wrote it: upgrade"):
        decode(kind)
    with pytest.raises(StateError, match="must be record version 4, got 5; a newer release wrote it: upgrade"):
        decode(seal(record[:4] + b"\x05" + record[5:-8]))
    advice = "got 3; an older release wrote it: continue with that release, or begin a new log"
    with pytest.raises(StateError, match=advice):
        decode(seal(record[:4] + b"\x03" + record[5:-8]))


@pytest.mark.parametrize("column", ["features", "sketch"])
def test_more_features_or_sketch_words_than_a_record_holds_are_a_programming_error(column: str) -> None:
    columns: dict[str, Any] = {
        "features": {"features": np.zeros(65_536, np.uint64), "features_bounds": np.array([0, 65_536])},
        "sketch": {"sketch": np.zeros((1, 256), np.uint64)},
    }[column]
    with pytest.raises(ValueError, match="a page has at most 255 sketch words and 65535 features"):
        encode(dataclasses.replace(one_page(), **columns), WRITER, 1, DIGEST)


def test_columns_that_go_beyond_the_record_are_corrupt_even_with_a_sound_checksum() -> None:
    from spotsieve.state.format.meta import seal

    record = bytearray(encode(make_signatures(2, seed=1), WRITER, 1, DIGEST)[:-8])
    record[46] = 200  # the number of pages
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(bytes(record)))


TITLES = {"titles_bounds": np.array([0, 2])}
MANY = 16
BLOCKS = [packed_block(number, 31, kept=number % 2 == 0, wide=number > 1) for number in range(MANY)]


def no_blocks(pages: int) -> dict[str, Any]:
    """The columns of pages without blocks and samples."""
    none, bounds = np.empty(0, np.uint64), np.zeros(pages + 1, np.int64)
    return {"blocks": none, "blocks_bounds": bounds, "samples": none, "samples_bounds": bounds}


def sampled(*samples: tuple[int, int, int], blocks: Sequence[int] = BLOCKS) -> dict[str, Any]:
    """The columns of one page with these samples (position, place, width) of its blocks."""
    column = [packed_sample(7 * row, *sample) for row, sample in enumerate(samples)]
    return {
        "blocks": np.array(blocks, np.uint64),
        "blocks_bounds": np.array([0, len(blocks)]),
        "samples": np.array(column, np.uint64),
        "samples_bounds": np.array([0, len(column)]),
    }


@pytest.mark.parametrize(
    "columns",
    [
        {"status": np.array([len(SignatureStatus)], np.uint8)},
        {"source": np.array([1], np.uint16)},
        TITLES | {"titles": np.array([2, 1], np.uint16)},
        TITLES | {"titles": np.array([2, 2], np.uint16)},
        sampled((5, 0, 3), (4, 0, 3)),
        sampled((5, 0, 3), (4, 1, 3)),
        sampled((5, 0, 0), blocks=[packed_block(1, 0)]),
        sampled(*[(row, 0, 3) for row in range(193)]),
        sampled(*[(row, 0, 3) for row in range(100)], *[(100 + row, 2, 8) for row in range(93)]),
        sampled(*[(row, 1, 3) for row in range(129)]),
    ],
    ids=[
        *("no status", "no source", "title words fall", "a title word twice", "positions fall"),
        *("positions fall from block to block", "a shingle without words", "main text of one block"),
        *("main text of two blocks", "other text"),
    ],
)
def test_columns_that_break_their_rules_are_neither_written_nor_read(columns: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"known source and status, title words that ascend, and samples of its block"):
        encode(dataclasses.replace(one_page(), **columns), WRITER, 1, DIGEST)
    record = record_of_broken_columns(**columns)
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(record)


@pytest.mark.parametrize(
    "columns",
    [
        sampled((5, 1, 3), (6, 0, 3)),
        sampled((5, MANY, 3)),
        sampled((5, 4095, 3)),
        sampled((5, 0, 3), blocks=[]),
        sampled((5, 0, 8)),
        sampled((5, 0, 2)),
        sampled((5, 2, 3)),
        sampled((5, 0, 3), blocks=[packed_block(1, 2)]),
    ],
    ids=[
        "places fall",
        "no block",
        "no block by far",
        "no blocks",
        "wide",
        "narrow",
        "not wide",
        "longer than a block",
    ],
)
def test_samples_that_a_record_cannot_hold_are_a_programming_error(columns: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="samples of its blocks in page order: at most 192 of main text and 128 of"):
        encode(dataclasses.replace(one_page(), **columns), WRITER, 1, DIGEST)


def test_a_page_may_have_the_most_blocks_and_samples() -> None:
    main = [(min(place * 70, 2**16 - 1), place, 8) for place in range(2, 1024, 2)][:180]
    rest = [(place * 70, place, 8) for place in range(401, 1024, 2)][:128]
    columns = sampled(
        *[(0, 0, 3)] * 12,
        *sorted([*main, *rest], key=lambda sample: sample[1]),
        blocks=[packed_block(number, 31, kept=number % 2 == 0, wide=number > 1) for number in range(1024)],
    )
    pages = [dataclasses.replace(one_page(), **columns), one_page()]
    signatures = join_signatures([pages[0], pages[1], pages[0]])
    assert len(columns["samples"]) == 192 + 128
    assert_same(decode(encode(signatures, WRITER, 1, DIGEST)).signatures, signatures)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_blocks_and_samples_of_any_pages_come_back(seed: int, count: int) -> None:
    signatures = make_signatures(count, seed)
    record = encode(signatures, WRITER, 1, DIGEST)
    assert_same(decode(record).signatures, signatures)
    assert len(list(split(signatures, len(record)))) == min(count, 1)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sets(st.integers(0, 19), min_size=1))
def test_any_rows_are_the_joined_parts_of_these_rows(seed: int, rows: set[int]) -> None:
    signatures = make_signatures(20, seed)
    parts = [signatures.part(row, row + 1) for row in sorted(rows)]
    assert_same(signatures.take(np.array(sorted(rows))), join_signatures(parts))


def test_a_record_that_its_writer_does_not_read_again_is_as_decoded() -> None:
    marks = (CommitMark("pages", 3, 77),)
    for signatures in (make_signatures(40, seed=5), one_page(), NO_PAGES):
        record, kept = encode_and_keep(signatures, WRITER, 9, DIGEST, list(marks))
        assert record == encode(signatures, WRITER, 9, DIGEST, marks)
        read = decode(record)
        assert dataclasses.replace(kept, signatures=NO_PAGES) == dataclasses.replace(read, signatures=NO_PAGES)
        assert_same(kept.signatures, read.signatures)


def test_samples_and_titles_ascend_within_each_page_alone() -> None:
    signatures = make_signatures(40, seed=5)
    for numbers in (signatures.samples & np.uint64(2**32 - 1), signatures.titles):
        assert np.diff(numbers.astype(np.int64)).min() < 0, "from one page to the next they may fall"
    empty = {0, 1, 38, 39, 20, 21}
    for name in ("samples", "blocks", "titles"):
        counts = np.diff(getattr(signatures, f"{name}_bounds"))
        kept = np.repeat([row not in empty for row in range(40)], counts)
        counts[list(empty)] = 0
        columns: dict[str, Any] = {
            name: getattr(signatures, name)[kept],
            f"{name}_bounds": np.concatenate([[0], np.cumsum(counts)]),
        }
        signatures = dataclasses.replace(signatures, **columns)
    assert_same(decode(encode(signatures, WRITER, 0, DIGEST)).signatures, signatures)


@pytest.mark.parametrize(
    ("place", "byte"),
    [(-1, b"x"), (46 + 11, b"\xff"), (46 + 13, b"\xff")],
    ids=["a byte too many", "another column", "an unknown column"],
)
def test_a_body_of_another_length_or_mask_is_corrupt_even_with_a_sound_checksum(place: int, byte: bytes) -> None:
    from spotsieve.state.format.meta import seal

    body = encode(one_page(), WRITER, 1, DIGEST)[:-8]
    damaged = body + byte if place < 0 else body[:place] + byte + body[place + 1 :]
    assert damaged != body
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(damaged))


@pytest.mark.parametrize(
    ("name", "dtype", "most"), [("features", np.uint64, 65_535), ("blocks", np.uint64, 1024), ("titles", np.uint16, 10)]
)
def test_a_page_may_have_the_most_of_a_column_and_not_one_more(name: str, dtype: type, most: int) -> None:
    plain = dataclasses.replace(one_page(), **no_blocks(1))
    columns: dict[str, Any] = {name: np.arange(most, dtype=dtype), f"{name}_bounds": np.array([0, most])}
    signatures = dataclasses.replace(plain, **columns)
    assert_same(decode(encode(signatures, WRITER, 1, DIGEST)).signatures, signatures)
    columns = {name: np.arange(most + 1, dtype=dtype), f"{name}_bounds": np.array([0, most + 1])}
    with pytest.raises(ValueError, match="a page has at most"):
        encode(dataclasses.replace(plain, **columns), WRITER, 1, DIGEST)


def test_a_record_with_more_blocks_in_a_page_than_fit_is_corrupt() -> None:
    from spotsieve.state.format.meta import seal

    columns: dict[str, Any] = {"blocks": np.arange(1024, dtype=np.uint64), "blocks_bounds": np.array([0, 1024])}
    body = encode(dataclasses.replace(one_page(), **no_blocks(1) | columns), WRITER, 1, DIGEST)[:-8]
    counts = bytes([2, 0, 0, 4, 3])
    assert body.count(counts) == 1, "features u16, blocks u16, titles u8"
    last = (1023).to_bytes(8, "little")
    longer = body.replace(counts, bytes([2, 0, 1, 4, 3])).replace(last, last + (1024).to_bytes(8, "little") + bytes(1))
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(longer))


@pytest.mark.parametrize("change", [-1, 1])
def test_more_or_fewer_samples_than_hashes_are_corrupt_even_with_a_sound_checksum(change: int) -> None:
    from spotsieve.state.format.meta import seal

    body = encode(one_page(), WRITER, 1, DIGEST)[:-8]
    counts = bytes.fromhex("85848382810201")
    assert body.count(counts) == 1, "a block, and the samples of both"
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(body.replace(counts, counts[:-1] + bytes([1 + change]))))


def test_a_column_that_is_zero_for_all_pages_costs_nothing() -> None:
    signatures = make_signatures(100, seed=3)
    whole = len(encode(signatures, WRITER, 0, DIGEST))
    zeros: dict[str, Any] = {
        name: np.zeros_like(getattr(signatures, name))
        for name in ("text_digest", "host", "site", "fingerprint", "language")
    } | no_blocks(100)
    saved = 100 * (16 + 8 + 2 + 8 + 1 + 2) + 9 * len(signatures.blocks) + 6 * len(signatures.samples)
    without = dataclasses.replace(signatures, **zeros)
    record = encode(without, WRITER, 0, DIGEST)
    assert len(record) == whole - saved
    assert_same(decode(record).signatures, without)


def test_columns_left_out_and_columns_read_are_of_one_type_with_those_of_sign() -> None:
    """Kernels are compiled for arrays that may be written, before a worker is ready."""
    found = decode(encode(dataclasses.replace(one_page(), host=np.zeros(1, np.uint64)), WRITER, 0, DIGEST)).signatures
    arrays = [column for name in found.__slots__ if isinstance(column := getattr(found, name), np.ndarray)]
    assert len(arrays) == 23
    assert all(array.flags.writeable for array in arrays)


def test_the_record_of_a_page_with_all_columns_takes_at_most_1650_bytes_and_address() -> None:
    """25 blocks, 200 samples, 7 words of title, 8 minima and a sketch of 8 words."""
    random, pages = np.random.default_rng(1), 512
    made = make_signatures(pages, seed=1, sources=("pages",))
    blocks = [packed_block(number, 31, kept=number % 2 == 0) for number in range(25)]
    samples = [packed_sample(row, 4 * row, row // 8, 3) for row in range(200)]
    signatures = dataclasses.replace(
        made,
        fingerprint=np.zeros(pages, np.uint64),
        text_digest=np.zeros((pages, 2), np.uint64),
        features=np.sort(random.integers(0, 2**64, (pages, 8), np.uint64), axis=1).ravel(),
        features_bounds=np.arange(pages + 1) * 8,
        sketch=random.integers(0, 2**64, (pages, 8), np.uint64),
        site=random.integers(0, 2**16, pages).astype(np.uint16),
        headline=random.integers(0, 2**16, pages).astype(np.uint16),
        blocks=np.tile(np.array(blocks, np.uint64), pages),
        blocks_bounds=np.arange(pages + 1) * 25,
        samples=np.tile(np.array(samples, np.uint64), pages),
        samples_bounds=np.arange(pages + 1) * 200,
        titles=np.tile(np.arange(7, dtype=np.uint16), pages),
        titles_bounds=np.arange(pages + 1) * 7,
    )
    record = encode(signatures, WRITER, 0, DIGEST)
    addresses = sum(map(len, (*signatures.urls, *signatures.labels)))
    assert (len(record) - addresses) / pages <= 1650
    assert_same(decode(record).signatures, signatures)


MARKS = (
    CommitMark("pages", 0, 7),
    CommitMark("other", 2**31 - 1, 2**63 - 1),
    CommitMark("pages", 3, 0),
    CommitMark("other", 5, 12),
    CommitMark("", -1, 0),
)


@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_record_gives_back_its_marks_of_any_sources(count: int) -> None:
    signatures = make_signatures(count, seed=2)
    record = decode(encode(signatures, WRITER, 1, DIGEST, MARKS))
    assert record.committed == MARKS
    assert_same(record.signatures, signatures)
    assert decode(encode(signatures, WRITER, 1, DIGEST)).committed == ()


@pytest.mark.parametrize("mark", [CommitMark("pages", -2, 7), CommitMark("pages", 0, -1)])
def test_a_mark_of_no_partition_or_offset_is_corrupt_even_with_a_sound_checksum(mark: CommitMark) -> None:
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(encode(one_page(), WRITER, 1, DIGEST, (mark,)))


def test_more_marks_than_a_record_holds_are_a_programming_error() -> None:
    marks = [CommitMark("pages", number, 1) for number in range(MAX_MARKS + 1)]
    assert len(decode(encode(one_page(), WRITER, 1, DIGEST, marks[1:])).committed) == MAX_MARKS
    with pytest.raises(ValueError, match="at most 4096 marks, got 4097"):
        encode(one_page(), WRITER, 1, DIGEST, marks)


@pytest.mark.parametrize("limit", [1, 1_000, 5_000])
def test_the_first_part_has_room_for_its_marks(limit: int) -> None:
    signatures = make_signatures(200, seed=9)
    marks = [CommitMark(f"topic {number % 3}", number, 1) for number in range(30)]
    parts = list(split(signatures, limit, marks))
    assert sum(map(len, parts)) == 200
    for number, part in enumerate(parts):
        assert len(part) == 1 or len(encode(part, WRITER, 0, DIGEST, () if number else marks)) <= limit
    if limit == 5_000:
        longer = signatures.part(0, len(parts[0]) + 1)
        assert len(encode(longer, WRITER, 0, DIGEST, marks)) > limit


@pytest.mark.parametrize("limit", [600, 2_000])
def test_parts_are_as_large_as_the_limit_allows_where_a_column_begins_late(limit: int) -> None:
    late = np.zeros(60, np.uint64)
    late[29] = 5
    signatures = dataclasses.replace(make_signatures(60, seed=9), host=late)
    first = 0
    for part in split(signatures, limit):
        end = first + len(part)
        assert len(part) == 1 or len(encode(part, WRITER, 0, DIGEST)) <= limit
        if end < 60:
            assert len(encode(signatures.part(first, end + 1), WRITER, 0, DIGEST)) > limit
        first = end
    assert first == 60


@pytest.mark.parametrize("limit", [1, 400, 5_000, 10**6])
def test_parts_stay_below_the_limit_and_together_are_the_whole(limit: int) -> None:
    signatures = make_signatures(200, seed=9)
    parts = list(split(signatures, limit))
    for part in parts:
        assert len(part) == 1 or len(encode(part, WRITER, 0, DIGEST)) <= limit
    assert b"".join(url for part in parts for url in part.urls) == b"".join(signatures.urls)
    assert [offset for part in parts for offset in part.offset] == signatures.offset.tolist()
    assert np.concatenate([part.features for part in parts]).tolist() == signatures.features.tolist()
    assert [size for part in parts for size in np.diff(part.features_bounds)] == np.diff(
        signatures.features_bounds
    ).tolist()
    assert [row for part in parts for row in part.sketch.tolist()] == signatures.sketch.tolist()
    if limit == 10**6:
        assert len(parts) == 1


def test_no_pages_are_no_part() -> None:
    assert list(split(make_signatures(0, seed=9), 5_000, MARKS)) == []


def test_parts_are_as_large_as_the_limit_allows() -> None:
    signatures = make_signatures(200, seed=9)
    first = next(split(signatures, 5_000))
    longer = signatures.part(0, len(first) + 1)
    assert len(encode(first, WRITER, 0, DIGEST)) <= 5_000 < len(encode(longer, WRITER, 0, DIGEST))


def test_a_record_of_exactly_the_limit_is_one_part_and_of_a_byte_more_is_two() -> None:
    signatures = make_signatures(50, seed=9)
    size = len(encode(signatures, WRITER, 0, DIGEST))
    assert len(list(split(signatures, size))) == 1
    assert len(list(split(signatures, size - 1))) == 2


def test_a_very_long_address_is_cut_at_a_whole_character() -> None:
    signatures = dataclasses.replace(make_signatures(1, seed=1), urls=(("x" + "ä" * 50_000).encode(),))
    (part,) = split(signatures, 10_000)
    assert part.urls[0].decode() == "x" + "ä" * ((MAX_URL_BYTES - 1) // 2)
    assert len(encode(part, WRITER, 0, DIGEST)) < 10_000
