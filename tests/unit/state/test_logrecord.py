"""The log record: what goes in comes out, damage is told from news, and records stay below the broker's limit."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from spotsieve.state.forgetting import ForgottenPage
from spotsieve.state.log.forget_body import split_pages
from spotsieve.state.log.record import FRAME_BYTES, MAX_ADDRESS_BYTES, decode, encode, encode_forget, split
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.signature import Status
from tests.reference.signatures import assert_same, make_signatures, one_page

WRITER, DIGEST = bytes(range(16)), bytes(range(16, 32))


@pytest.mark.parametrize("count", [0, 1, 2, 513])
def test_a_record_gives_back_what_was_signed(count: int) -> None:
    signatures = make_signatures(count, seed=count)
    record = decode(encode(signatures, WRITER, 2**63, DIGEST))
    assert (record.writer, record.sequence, record.settings_digest) == (WRITER, 2**63, DIGEST)
    assert_same(record.signatures, signatures)


FORGOTTEN = (
    ForgottenPage(0, "pages", -(2**31), -(2**63), ()),
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
    from spotsieve.state.format.sealing import seal

    body = encode_forget(FORGOTTEN[:1], WRITER, 1, DIGEST)[:-8]
    head, pages = body[:42], body[42:]
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
    damaged[60] ^= 1
    with pytest.raises(CorruptRecord, match=r"signatures\[77\] must end in its xxh3-64 checksum; something else wrote"):
        decode(bytes(damaged), "signatures", 77)


@pytest.mark.parametrize("length", [0, 1, 40, 55, 100])
def test_a_cut_record_is_corrupt(length: int) -> None:
    record = encode(make_signatures(3, seed=3), WRITER, 1, DIGEST)
    with pytest.raises(CorruptRecord, match=r"log\[0\]"):
        decode(record[:length])


def test_a_record_of_a_later_kind_or_version_says_to_upgrade() -> None:
    from spotsieve.state.format.sealing import seal

    record = encode(make_signatures(1, seed=1), WRITER, 1, DIGEST)
    kind = seal(record[:1] + b"\x07" + record[2:-8])
    with pytest.raises(StateError, match=r"must be of a kind known here .* got 7; a newer release wrote it: upgrade"):
        decode(kind)
    with pytest.raises(StateError, match="must be record version 2, got 3; a newer release wrote it: upgrade"):
        decode(b"\x03" + record[1:])


def test_a_record_of_an_earlier_version_says_to_begin_a_new_log() -> None:
    record = encode(make_signatures(1, seed=1), WRITER, 1, DIGEST)
    with pytest.raises(StateError, match="got 1; an older release wrote it: go on with that one, or begin a new log"):
        decode(b"\x01" + record[1:])


@pytest.mark.parametrize("column", ["features", "sketch"])
def test_more_features_or_sketch_words_than_a_record_holds_are_a_programming_error(column: str) -> None:
    columns: dict[str, Any] = {
        "features": {"features": np.zeros(65_536, np.uint64), "features_bounds": np.array([0, 65_536])},
        "sketch": {"sketch": np.zeros((1, 256), np.uint64)},
    }[column]
    with pytest.raises(ValueError, match="a page has at most 255 sketch words and 65535 features"):
        encode(dataclasses.replace(one_page(), **columns), WRITER, 1, DIGEST)


def test_columns_that_go_beyond_the_record_are_corrupt_even_with_a_sound_checksum() -> None:
    from spotsieve.state.format.sealing import seal

    record = bytearray(encode(make_signatures(2, seed=1), WRITER, 1, DIGEST)[:-8])
    record[42] = 200  # the number of pages
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(bytes(record)))


@pytest.mark.parametrize("damage", ["a byte too many", "a source that is not listed", "no status"])
def test_columns_that_contradict_the_record_are_corrupt_even_with_a_sound_checksum(damage: str) -> None:
    from spotsieve.state.format.sealing import seal

    body = encode(one_page(), WRITER, 1, DIGEST)[:-8]
    if damage == "a byte too many":
        body += b"x"
    elif damage == "no status":
        body = encode(dataclasses.replace(one_page(), status=np.array([len(Status)], np.uint8)), WRITER, 1, DIGEST)[:-8]
    else:
        assert body[56:58] == bytes(2), "the source column follows the one source's name"
        body = body[:56] + b"\x01\x00" + body[58:]
    with pytest.raises(CorruptRecord, match="must hold the columns that it declares"):
        decode(seal(body))


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
    assert part.urls[0].decode() == "x" + "ä" * ((MAX_ADDRESS_BYTES - 1) // 2)
    assert len(encode(part, WRITER, 0, DIGEST)) < 10_000
