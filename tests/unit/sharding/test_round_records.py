"""What shards and the resolver tell each other is read back as it was written, and nothing else is taken for it."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.base.page_text import ENTRY_BLOCKS, ENTRY_SAMPLES
from spotsieve.stream.base.signature import DistinctiveText
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.records.frame import (
    FRAME_BYTES,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_TOO_LARGE,
    ColumnReader,
    decode_body,
    decode_round_record,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import PoisonRows, read_outcome, write_outcome, write_poison_rows
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_combined_checksum,
    read_confirmations,
    write_candidates,
    write_confirmations,
)
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS
from tests.fixtures.states.round_records import (
    CONFIRMS,
    FIRST,
    MEETINGS,
    RANGE,
    RESOLVED,
    SETTINGS,
    SHARE,
    TEXTS,
    Kept,
    kept,
)

kinds = pytest.mark.parametrize("name", list(kept()))


def read_record(record: bytes, of: Kept) -> Any:
    """What a reader makes of a record."""
    decoded = decode_round_record(record, SETTINGS, SHARE.shards, "matches", 5)
    assert (decoded.share, decoded.range) == (SHARE, RANGE)
    return decode_body(decoded, of.kind, of.read, "matches", 5)


@kinds
def test_a_record_is_read_as_it_was_written(name: str) -> None:
    of = kept()[name]
    found = read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body), of)
    assert of.write(found) == of.body


def test_columns_come_back_with_their_values() -> None:
    found = read_candidates(ColumnReader(write_candidates(MEETINGS, FIRST)), FIRST)
    for name in ("postings", "bounds", "number", "proof", "kinds", "distance", "result", "score", "length", "numbers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(MEETINGS, name), name)
    assert dict(found.entries) == MEETINGS.entries
    assert list(found.pending_verdicts) == list(MEETINGS.pending_verdicts)
    outcome = read_outcome(ColumnReader(write_outcome(RESOLVED)), FIRST)
    assert tuple(outcome.verdicts.originals) == RESOLVED.verdicts.originals
    assert tuple(outcome.verdicts.replaces) == RESOLVED.verdicts.replaces
    assert outcome.next_number == RESOLVED.next_number


def test_the_results_for_entries_come_back_with_its_texts() -> None:
    body = write_confirmations(CONFIRMS, 77, FIRST)
    found = read_confirmations(ColumnReader(body), FIRST)
    assert read_combined_checksum(body) == 77
    assert found.copies.tolist() == CONFIRMS.copies.tolist()
    assert found.result.tolist() == CONFIRMS.result.tolist()
    assert dict(found.entries) == CONFIRMS.entries
    assert found.texts is not None
    for name in ("host", "length"):
        np.testing.assert_array_equal(getattr(found.texts, name), getattr(TEXTS, name), name)
    for name in DistinctiveText._fields:
        column = getattr(found.texts.own, name)
        np.testing.assert_array_equal(column, getattr(TEXTS.own, name), name)
        assert column.dtype == getattr(TEXTS.own, name).dtype
    np.testing.assert_array_equal(found.flags.rows, CONFIRMS.flags.rows)
    np.testing.assert_array_equal(found.flags.flags, CONFIRMS.flags.flags)
    nothing = ShardConfirmations(np.empty(0, np.uint8), np.empty(0, np.int64), {}, None)
    assert read_confirmations(ColumnReader(write_confirmations(nothing, 0, FIRST)), FIRST).texts is None


@pytest.mark.parametrize(
    ("column", "bounds", "values"),
    [
        ("sample", "sample_bounds", np.arange(ENTRY_SAMPLES + 1, dtype=np.uint16)),
        ("blocks", "block_bounds", np.arange(ENTRY_BLOCKS + 1, dtype=np.uint64)),
        ("titles", "title_bounds", np.arange(MOST_TITLE_WORDS + 1, dtype=np.uint16)),
    ],
)
def test_texts_that_no_entry_has_are_refused(column: str, bounds: str, values: NDArray[Any]) -> None:
    def read(values: NDArray[Any]) -> ShardConfirmations:
        own = TEXTS.own._replace(**{column: values, bounds: np.array([0, len(values), len(values)])})
        body = write_confirmations(CONFIRMS._replace(texts=TEXTS._replace(own=own)), 0, FIRST)
        return read_confirmations(ColumnReader(body), FIRST)

    assert read(values[:-1]).texts is not None
    for wrong in (values, values[1::-1]):
        with pytest.raises(ValueError, match=r"^$"):
            read(wrong)


def test_an_answer_that_is_too_large_needs_no_body() -> None:
    record = encode_round_record(KIND_TOO_LARGE, SETTINGS, SHARE, RANGE)
    assert len(record) == FRAME_BYTES
    assert decode_round_record(record, SETTINGS, 3, "verdicts", 0).range == RANGE


@kinds
def test_a_record_that_is_cut_or_has_a_flipped_bit_is_refused(name: str) -> None:
    of = kept()[name]
    record = encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body)
    for end in range(len(record)):
        with pytest.raises(DamagedRecord, match=r"matches\[5\]"):
            read_record(record[:end], of)
    for bit in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord):
            read_record(bytes(flipped), of)


@kinds
def test_a_body_whose_columns_are_not_what_it_declares_is_refused(name: str) -> None:
    """Behind a right checksum: only a defect writes such a body."""
    of = kept()[name]
    for end in range(len(of.body)):
        with pytest.raises(DamagedRecord, match="must hold the columns"):
            read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body[:end]), of)
    with pytest.raises(DamagedRecord, match="must hold the columns"):
        read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body + b"\0"), of)
    for byte in range(len(of.body)):
        changed = bytearray(of.body)
        changed[byte] ^= 0xFF
        try:
            read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, bytes(changed)), of)
        except DamagedRecord:
            continue


NONE, MANY = bytes(4), (2**23).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("meetings", MANY),
        ("meetings", b"\1\0\0\0" + b"\0" + b"\4" + MANY),
        ("confirms", bytes(8) + NONE + NONE + NONE + NONE + b"\0" + MANY),
        ("outcome", b"\xff" + MANY),
        ("range", bytes(8) + NONE + b"\0" + MANY),
        ("range", bytes(8) + NONE + b"\0" + NONE + b"\0" + MANY),
    ],
    ids=["pages", "pairs", "sources", "pages of an outcome", "responses", "records"],
)
def test_a_body_of_few_bytes_asks_for_no_memory_before_it_is_refused(name: str, body: bytes) -> None:
    of, before = kept()[name], tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecord):
            read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, body + bytes(40)), of)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        if not before:
            tracemalloc.stop()
    assert most < 2**22


def test_texts_that_are_none_are_refused_when_their_record_is_read() -> None:
    of, errors = kept()["broken"], {0: "ä", 1: "b", 2: "\udcff"}
    body = write_poison_rows(PoisonRows(3, errors))
    assert read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, body), of).errors == errors
    for wrong in (body.replace(b"\xa4", b"\xff"), body.replace(b"\2\1\3", b"\1\2\3"), body.replace(b"b", b"\xed")):
        assert wrong != body
        with pytest.raises(DamagedRecord, match="must hold the columns"):
            read_record(encode_round_record(of.kind, SETTINGS, SHARE, RANGE, wrong), of)


def test_records_of_others_are_refused_with_what_to_do() -> None:
    of = kept()["outcome"]
    record = encode_round_record(of.kind, SETTINGS, SHARE, RANGE, of.body)
    with pytest.raises(SettingsMismatch, match="start all roles with the same settings"):
        decode_round_record(record, bytes(16), SHARE.shards, "verdicts", 1)
    with pytest.raises(StateError, match="must be of one of 4 shards, got '1 of 3'; start all roles with the same"):
        decode_round_record(record, SETTINGS, 4, "verdicts", 1)
    assert decode_round_record(record, SETTINGS, None, "verdicts", 1).share == SHARE, (
        "the record says how many there are"
    )
    none_such = encode_round_record(of.kind, SETTINGS, Share(3, 3), RANGE, of.body)
    with pytest.raises(StateError, match="must be of one of the shards, got '3 of 3'"):
        decode_round_record(none_such, SETTINGS, None, "verdicts", 1)
    with pytest.raises(StateError, match="kind 99'; let all roles run the same release"):
        decode_round_record(encode_round_record(99, SETTINGS, SHARE, RANGE), SETTINGS, SHARE.shards, "verdicts", 1)
    with pytest.raises(DamagedRecord, match="must be a record of resolutions"):
        read_record(record, of._replace(kind=KIND_RESOLUTIONS))
    backwards = RANGE._replace(end=LogPlace(7, 1))
    with pytest.raises(DamagedRecord, match="must have a range that does not end before it starts"):
        decode_round_record(encode_round_record(KIND_RANGE, SETTINGS, SHARE, backwards), SETTINGS, 3, "verdicts", 1)
