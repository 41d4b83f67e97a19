"""Entries that were read last are read from memory, and never after they were forgotten."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotsieve.state.index import Removal
from spotsieve.state.log.record import encode
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.rocks import RocksState
from spotsieve.stream.engine import Engine
from spotsieve.stream.errors import CorruptRecord
from spotsieve.stream.schemes.simhash.chain import ChainScheme
from spotsieve.stream.settings.model import IndexSettings
from spotsieve.stream.settings.schemes import ChainSettings
from tests.reference.signatures import make_signatures

BESIDE = 150


class Disk:
    """A hundred entries, and how often each was read."""

    def __init__(self) -> None:
        self.values = {number: b"%d" % number * (number % 7 + 1) for number in range(0, 200, 2)}
        self.asked = list[int]()

    def read(self, numbers: NDArray[np.uint64]) -> Sequence[bytes | None]:
        self.asked += numbers.tolist()
        return [self.values.get(number) for number in numbers.tolist()]


def some(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


@given(st.lists(st.lists(st.integers(0, 199), max_size=12), max_size=30), st.integers(0, 5_000))
def test_values_are_those_of_the_disk_with_room_for_any_number(records: list[list[int]], most: int) -> None:
    disk = Disk()
    cache = EntryCache(most)
    for numbers in records:
        assert cache.read(some(*numbers), disk.read) == [disk.values.get(number) for number in numbers]


def test_an_entry_is_read_once_and_one_that_is_not_there_each_time() -> None:
    disk, cache = Disk(), EntryCache()
    for _ in range(3):
        cache.read(some(4, 7, 8), disk.read)
    assert disk.asked == [4, 7, 8, 7, 7]


def test_those_that_came_first_go_where_there_is_no_more_room() -> None:
    disk, cache = Disk(), EntryCache(10 * (BESIDE + 20))
    for number in range(0, 40, 2):
        cache.read(some(number), disk.read)
    disk.asked.clear()
    cache.read(some(38, 36, 34), disk.read)
    assert disk.asked == []
    cache.read(some(0), disk.read)
    assert disk.asked == [0]


def test_what_was_let_go_is_read_again() -> None:
    disk, cache = Disk(), EntryCache()
    cache.read(some(4), disk.read)
    disk.values[4] = b"another"
    assert cache.read(some(4), disk.read) == [b"44444"]
    cache.clear()
    assert cache.read(some(4), disk.read) == [b"another"]


def test_a_state_does_not_give_a_forgotten_entry_that_it_read_before(tmp_path: Path) -> None:
    with RocksState.open(tmp_path, "{}", "log", IndexSettings(write_buffer_mb=1)) as state:
        engine = Engine(ChainScheme(ChainSettings()), state, IndexSettings(), bytes(16), "log")
        engine.apply(encode(make_signatures(20, seed=1, first=0), bytes(16), 0, bytes(16)), 0)
        first = np.array([0])
        assert len(state.filed(some(0)).entries(first)) == 1
        none = np.array([], np.uint64)
        removal = Removal((), some(0), none, state.buckets(none), none)
        state.remove(removal, 2, 0)
        with pytest.raises(CorruptRecord):
            state.filed(some(0)).entries(first)
