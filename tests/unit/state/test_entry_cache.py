"""Entries that were read last are read from memory, and never after they were forgotten."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotsieve.state.index import Removal
from spotsieve.state.log.record import encode
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from tests.reference.signatures import make_signatures


class Disk:
    """Two hundred entries, and which were read."""

    def __init__(self) -> None:
        self.values = {number: b"%d" % number * (number % 7) for number in range(200)}
        self.requested = list[int]()

    def read(self, numbers: NDArray[np.uint64]) -> Sequence[bytes]:
        self.requested += numbers.tolist()
        return [self.values[number] for number in numbers.tolist()]


def some(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


@settings(deadline=None)  # kernels are compiled
@given(
    st.lists(st.lists(st.integers(0, 199), max_size=12, unique=True), max_size=30),
    st.integers(0, 2_000),
    st.sampled_from([4, 16, 64, 512]),
)
def test_values_are_those_of_the_disk_whatever_room_there_is(
    records: list[list[int]], most_bytes: int, most_entries: int
) -> None:
    disk = Disk()
    cache = EntryCache(most_bytes, most_entries)
    for numbers in records:
        assert list(cache.read(some(*numbers), disk.read)) == [disk.values[number] for number in numbers]


def test_an_entry_is_read_from_the_disk_once() -> None:
    disk, cache = Disk(), EntryCache()
    for _ in range(3):
        cache.read(some(4, 7, 8), disk.read)
        cache.read(some(8, 9), disk.read)
    assert disk.requested == [4, 7, 8, 9]


@pytest.mark.parametrize("cache", [EntryCache(600, 2**10), EntryCache(2**20, 2**7)], ids=["bytes", "places"])
def test_those_that_were_asked_for_last_stay_where_there_is_no_more_room(cache: EntryCache) -> None:
    disk = Disk()
    for number in range(104, 200):
        cache.read(some(103), disk.read)
        cache.read(some(number), disk.read)
    assert disk.requested == list(range(103, 200))
    disk.requested.clear()
    cache.read(some(103, *range(190, 200)), disk.read)
    assert disk.requested == []
    cache.read(some(104), disk.read)
    assert disk.requested == [104]


def test_what_was_let_go_is_read_again() -> None:
    disk, cache = Disk(), EntryCache()
    cache.read(some(4), disk.read)
    disk.values[4] = b"another"
    assert list(cache.read(some(4), disk.read)) == [b"4444"]
    cache.clear()
    assert list(cache.read(some(4), disk.read)) == [b"another"]


def test_a_state_does_not_give_a_forgotten_entry_that_it_read_before(tmp_path: Path) -> None:
    with disk_state(tmp_path, "{}", "log", IndexSettings(write_buffer_mb=1)) as state:
        engine = Engine(ChainScheme(ChainSettings()), state, IndexSettings(), bytes(16), "log")
        engine.apply(encode(make_signatures(20, seed=1, first=0), bytes(16), 0, bytes(16)), 0)
        first = np.array([0])
        assert len(state.indexed(some(0)).entries(first)) == 1
        none = np.array([], np.uint64)
        removal = Removal((), some(0), none, state.buckets(none), none)
        state.remove(removal, 2, 0)
        with pytest.raises(CorruptRecord):
            state.indexed(some(0)).entries(first)
