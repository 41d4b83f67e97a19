"""Buckets in memory equal those of a dictionary, while they grow, shrink and go."""

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.state.store.backend import Batch
from spotsieve.state.store.memory_buckets import MemoryBuckets

Contents = dict[int, list[tuple[int, int]]]


def buckets_of(rows: list[list[tuple[int, int]]]) -> Buckets:
    bounds = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=bounds[1:])
    postings = np.array([pair for row in rows for pair in row], np.uint64).reshape(-1, 2)
    return Buckets(bounds, postings[:, 0].copy(), postings[:, 1].copy())


def rows_of(buckets: Buckets) -> list[list[tuple[int, int]]]:
    pairs = list(zip(buckets.numbers.tolist(), buckets.inlines.tolist(), strict=True))
    return [pairs[first:end] for first, end in zip(buckets.bounds, buckets.bounds[1:], strict=False)]


def assert_equal(buckets: MemoryBuckets, reference_kernel: Contents, wanted: NDArray[np.uint64]) -> None:
    assert rows_of(buckets.read(wanted)) == [reference_kernel.get(key, []) for key in wanted.tolist()]
    assert len(buckets) == len(reference_kernel)
    assert sorted(buckets.keys().tolist()) == sorted(reference_kernel)
    for first, most in ((0, 3), (2**63, 10_000)):
        expected = sorted(key for key in reference_kernel if key >= first)[:most]
        keys, found = buckets.next_buckets(first, most)
        assert keys.tolist() == expected
        assert rows_of(found) == [reference_kernel[key] for key in expected]


@pytest.mark.parametrize("seed", range(3))
def test_buckets_are_those_of_a_dictionary(seed: int) -> None:
    random, buckets, reference_kernel = np.random.default_rng(seed), MemoryBuckets(), Contents()
    # 0 and the greatest key are keys as all others. Runs of keys look alike but for their last bits.
    known = np.concatenate(
        [random.integers(0, 2**64, 3000, np.uint64), np.arange(500, dtype=np.uint64), np.array([2**64 - 1], np.uint64)]
    )
    for step in range(40):
        keys = random.choice(known, int(random.integers(0, 400)), replace=False)
        most = 2 if step % 4 else 70
        # Every third filing deletes much, also keys that are not there.
        least = 0 if step % 3 else 1
        rows = [
            [tuple(pair) for pair in random.integers(0, 2**64, (int(size), 2), np.uint64).tolist()]
            for size in random.integers(least, most, len(keys))
        ]
        buckets.put(Batch(), keys, buckets_of(rows))
        for key, row in zip(keys.tolist(), rows, strict=True):
            reference_kernel.pop(key, None)
            if row:
                reference_kernel[key] = row
        assert_equal(buckets, reference_kernel, known)
    buckets.put(Batch(), known, buckets_of([[] for _ in known]))
    assert_equal(buckets, {}, known)


def test_what_is_read_stays_when_the_bucket_changes() -> None:
    buckets, key = MemoryBuckets(), np.array([7], np.uint64)
    buckets.put(Batch(), key, buckets_of([[(1, 2)]]))
    read = buckets.read(key)
    buckets.put(Batch(), key, buckets_of([[(3, 4)]]))
    assert rows_of(read) == [[(1, 2)]]


def test_rooms_that_are_given_back_are_used_again() -> None:
    buckets, keys = MemoryBuckets(), np.arange(300, dtype=np.uint64)
    full = buckets_of([[(one, one) for one in range(40)] for _ in keys])
    for _ in range(3):
        buckets.put(Batch(), keys, full)
        count = buckets._counts[2]
        buckets.put(Batch(), keys, buckets_of([[] for _ in keys]))
    buckets.put(Batch(), keys + np.uint64(1000), full)
    assert buckets._counts[2] == count == 1 + 300 * 64
