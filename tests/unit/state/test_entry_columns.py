"""What is read of many entries at once is what each of them says alone."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotsieve.state.format.entries import (
    EntryParts,
    decode_compared,
    decode_distinctive_texts,
    decode_event_times,
    decode_ranks,
    pack_entry,
    unpack_entry,
)
from spotsieve.state.format.entry_bytes import OwnParts
from spotsieve.stream.base.arrays import byte_texts
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.signature import DistinctiveText

WORDS = 3
U64 = st.integers(0, 2**64 - 1)


def ascending(numbers: st.SearchStrategy[int], most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(numbers, max_size=most, unique=True).map(lambda row: tuple(sorted(row)))


OWN = st.builds(
    OwnParts,
    *(st.integers(0, 2**16 - 1), *[st.integers(0, 255)] * 3, st.integers(0, 2**32 - 1)),
    st.lists(st.integers(0, 2**16 - 1), max_size=128).map(lambda sample: tuple(sorted(sample))),
    ascending(U64, 16),
    ascending(st.integers(0, 2**16 - 1), 10),
)


def entries(rank: st.SearchStrategy[int | None]) -> st.SearchStrategy[list[EntryParts]]:
    parts = st.builds(
        EntryParts,
        *(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**40), st.integers(0, 2**42)),
        *(st.binary(max_size=40), st.binary(max_size=9), U64, st.integers(0, 2**32 - 1)),
        st.tuples(*[U64] * WORDS),
        ascending(U64, 3),
        st.none() | OWN,
        rank,
    )
    return st.lists(parts, max_size=6)


@settings(deadline=None)
@given(entries(st.none()) | entries(U64), st.booleans())
def test_columns_hold_what_each_entry_says(given: list[EntryParts], laid: bool) -> None:
    values: Sequence[bytes] = [pack_entry(one) for one in given]
    if laid:  # As a store reads them: behind each other, and here not from the beginning of the buffer.
        values = byte_texts([b"before", *values])[1:]
    keys = [bytes([row]) for row in range(len(values))]
    expected = [unpack_entry(key, value) for key, value in zip(keys, values, strict=True)]
    assert expected == given
    compared, own = decode_compared(keys, values, with_features=True), decode_distinctive_texts(keys, values)
    assert compared.host.tolist() == [one.host for one in expected]
    assert compared.feature_count.tolist() == [one.feature_count for one in expected]
    assert list(map(tuple, compared.sketch.tolist())) == [one.sketch for one in expected]
    spans = compared.spans.tolist()
    assert [tuple(compared.features[first:end].tolist()) for first, end in spans] == [one.features for one in expected]
    assert decode_event_times(keys, values).tolist() == [one.event_time_ms for one in expected]
    if any(one.rank is not None for one in expected):
        assert decode_ranks(keys, values).tolist() == [one.rank for one in expected]
    assert rows_of(own) == [one.own or OwnParts(0, 0, 0, 0, 0, (), (), ()) for one in expected]


def rows_of(own: DistinctiveText) -> list[OwnParts]:
    """The own texts of all entries, one by one."""

    def rows(column: NDArray[Any], bounds: NDArray[np.int64]) -> list[tuple[int, ...]]:
        return [tuple(column[first:end].tolist()) for first, end in pairwise(bounds.tolist())]

    sizes = (column.tolist() for column in (own.site, own.main, own.whole, own.every, own.limit))
    sample, blocks = rows(own.sample, own.sample_bounds), rows(own.blocks, own.block_bounds)
    return list(map(OwnParts, *sizes, sample, blocks, rows(own.titles, own.title_bounds)))


@settings(deadline=None)
@given(entries(st.none()).filter(bool), st.data())
def test_the_first_entry_that_is_cut_or_of_another_kind_is_named(given: list[EntryParts], data: st.DataObject) -> None:
    values = [pack_entry(one) for one in given]
    row = data.draw(st.integers(0, len(values) - 1))
    sound = values[row]
    other_rank = pack_entry(given[row]._replace(rank=5))
    other_sketch = pack_entry(given[row]._replace(sketch=(1,) * (WORDS + 1)))
    damaged = data.draw(st.sampled_from([b"", sound[:1], sound[:60], b"\x09" + sound[1:], other_rank, other_sketch]))
    keys = [bytes([place, 0xFF]) for place in range(len(values) + 1)]
    with pytest.raises(CorruptRecord, match=rf"entries\[{keys[row + 1].hex()}\] must be version 5 with a sketch of 3"):
        decode_compared(keys, [values[0], *values[:row], damaged, *values[row + 1 :]])
