"""Features that a scheme compares pages by: from the signature through the log into entries, and back row by row."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.format.entries import (
    decode_compared,
    decode_entry,
    encode_entries,
    entry_fault,
    pack_entry,
    unpack_entry,
)
from spotsieve.state.index import Buckets, IndexUpdate
from spotsieve.state.log.record import decode, encode
from spotsieve.state.portable.export import entry_fields, entry_value
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import MAX_FEATURES, Signatures, SignatureStatus, candidate_columns
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.sign.fingerprints.minhash import count_shared
from spotsieve.stream.sign.schemes.identity import features_compared
from tests.reference.signatures import make_signatures

SETS = st.lists(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=8), min_size=1, max_size=6)


def signatures_with(sets: list[set[int]]) -> Signatures:
    return dataclasses.replace(
        make_signatures(len(sets), seed=len(sets)),
        features=np.array([feature for one in sets for feature in sorted(one)], np.uint64),
        features_bounds=np.cumsum([0, *map(len, sets)]),
    )


def index_update_of(signatures: Signatures, *, keeps_features: bool) -> IndexUpdate:
    count = len(signatures)
    buckets = Buckets(np.arange(count + 1), np.arange(count, dtype=np.uint64), np.zeros(count, np.uint64))
    keys = np.arange(count, dtype=np.uint64) + np.uint64(7)
    return IndexUpdate(signatures, np.arange(count), 0, keys, buckets, 0, keeps_features)


@settings(deadline=None)
@given(sets=SETS, data=st.data())
def test_entries_and_records_give_back_the_features_row_by_row(sets: list[set[int]], data: st.DataObject) -> None:
    signatures = decode(encode(signatures_with(sets), bytes(16), 1, bytes(16))).signatures
    state = memory_state()
    state.file(index_update_of(signatures, keeps_features=True), 1, 0)
    numbers = data.draw(st.lists(st.integers(0, len(sets) - 1), max_size=9))
    indexed = state.indexed(np.arange(len(sets), dtype=np.uint64))
    for rows in (indexed.compared(with_features=True), candidate_columns(signatures, with_features=True)):
        taken = rows.take(np.array(numbers, np.int64))
        spans = taken.spans.tolist()
        assert [set(taken.features[first:last].tolist()) for first, last in spans] == [sets[row] for row in numbers]
        everyone = rows.take(np.full(len(numbers), 0))
        assert count_shared(taken, everyone).tolist() == [len(sets[row] & sets[0]) for row in numbers]
    assert [entry.url.encode() for entry in indexed.entries(np.arange(len(sets)))] == list(signatures.urls)


@settings(deadline=None)
@given(sets=SETS)
def test_what_is_not_asked_for_is_neither_kept_nor_read(sets: list[set[int]]) -> None:
    signatures = signatures_with(sets)
    sources = signatures.source.astype(np.uint32)
    without = encode_entries(index_update_of(signatures, keeps_features=False), sources)
    kept = encode_entries(index_update_of(signatures, keeps_features=True), sources)
    assert [len(one) - len(two) for one, two in zip(kept, without, strict=True)] == [
        4 + 8 * len(features) if features else 0 for features in sets
    ]
    names = [b"k"] * len(sets)
    for values, with_features in ((kept, False), (without, True), (without, False)):
        rows = decode_compared(names, values, with_features)
        assert (len(rows.features), rows.spans.tolist()) == (0, [[0, 0]] * len(sets))
        assert rows.take(np.arange(len(sets))).spans.shape == (len(sets), 2)
    assert candidate_columns(signatures, with_features=False).spans.tolist() == [[0, 0]] * len(sets)


def test_a_state_on_disk_gives_back_what_one_in_memory_does(tmp_path: Path) -> None:
    index_update = index_update_of(signatures_with([{1, 2**64 - 1}, set(), {3}]), keeps_features=True)
    memory = memory_state()
    memory.file(index_update, 1, 0)
    with disk_state(tmp_path, "{}", "local", IndexSettings()) as state:
        state.file(index_update, 1, 0)
        assert list(state.items()) == list(memory.items())
        found = state.indexed(np.array([0, 1, 2], np.uint64)).compared(with_features=True)
    assert (found.features.tolist(), found.spans.tolist()) == ([1, 2**64 - 1, 3], [[0, 2], [2, 2], [2, 3]])


def entry_with(*features: int) -> bytes:
    signatures = make_signatures(1, seed=1)
    (value,) = encode_entries(index_update_of(signatures, keeps_features=False), np.zeros(1, np.uint32))
    return pack_entry(unpack_entry(b"k", value)._replace(features=features))


def test_an_export_holds_features_only_of_entries_that_have_them() -> None:
    for features in ((), (5,), (1, 2, 2**64 - 1)):
        value = entry_with(*features)
        fields = entry_fields((8).to_bytes(8, "big"), value)
        assert fields.get("features", []) == [f"{feature:016x}" for feature in features]
        assert ("features" in fields) is bool(features)
        assert entry_value(fields) == (8, value)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda value: value[:-1], "the length"),
        (lambda value: value + b"x", "the length"),
        (lambda value: value[:58] + b"\x02" + value[59:], "the length"),
        (lambda value: value[:58] + b"\xff\xff\xff\xff" + value[62:], "the length"),
        (lambda value: value[:58] + bytes(4) + value[62 + 3 * 8 :], "the length"),
        (lambda value: value[:62] + value[70:78] + value[62:70] + value[78:], "ascend"),
        (lambda value: value[:62] + value[70:78] + value[70:], "ascend"),
        (lambda value: value[:60], "the length"),
    ],
)
def test_an_entry_whose_features_are_cut_or_out_of_order_is_named(damage, rule: str) -> None:  # type: ignore[no-untyped-def]
    sound = entry_with(1, 2, 3)
    assert entry_fault(sound, 2) is None
    damaged = damage(sound)
    assert rule in str(entry_fault(damaged, 2))
    with pytest.raises(CorruptRecord, match=rule):
        unpack_entry(b"\xab", damaged)
    if rule == "the length" and damaged != sound[:58] + bytes(4) + sound[86:]:
        with pytest.raises(CorruptRecord, match=r"entries\[ab\] must have the length"):
            decode_entry(b"\xab", damaged, ["a", "b"])


def test_features_behind_the_end_of_an_entry_are_not_read() -> None:
    sound = entry_with(1, 2, 3)
    for damaged in (sound[:60], sound[:76], sound[:58] + b"\xff\xff\xff\xff" + sound[62:]):
        with pytest.raises(CorruptRecord, match=r"entries\[ab\] must have the length"):
            decode_compared([b"k", b"\xab"], [sound, damaged], with_features=True)


@pytest.mark.parametrize("count", [MAX_FEATURES, MAX_FEATURES + 1])
def test_a_page_with_more_features_than_a_record_holds_is_compared_by_none(count: int) -> None:
    features = np.arange(3 + count, dtype=np.uint64)
    status = np.array(
        [
            SignatureStatus.FINGERPRINTED,
            SignatureStatus.FINGERPRINTED,
            SignatureStatus.NOT_TEXT,
            SignatureStatus.FINGERPRINTED,
        ],
        np.uint8,
    )
    columns = features_compared(status, features, np.array([0, 1, 1 + count, 2 + count, 3 + count]))
    fits = count == MAX_FEATURES
    judged = SignatureStatus.FINGERPRINTED if fits else SignatureStatus.TOO_MANY_FEATURES
    assert columns["status"].tolist() == [
        SignatureStatus.FINGERPRINTED,
        judged,
        SignatureStatus.NOT_TEXT,
        SignatureStatus.FINGERPRINTED,
    ]
    assert np.diff(columns["features_bounds"]).tolist() == [1, count if fits else 0, 0, 1]
    assert columns["features"][[0, -1]].tolist() == [0, 2 + count]
    signatures = dataclasses.replace(make_signatures(4, seed=1), **columns)
    record = encode(signatures, bytes(16), 1, bytes(16))
    assert len(record) <= LOG_RECORD_BYTES
    assert decode(record).signatures.status.tolist() == columns["status"].tolist()
