"""Signatures for tests of state and log: any number of pages, some near others, with addresses."""

import dataclasses
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.log import pages_body
from spotsieve.state.log.record import encode
from spotsieve.stream.base.signature import Signatures, SignatureStatus

SKETCH_WORDS = 2


def make_signatures(
    count: int, seed: int, first: int = 0, sources: tuple[str, ...] = ("pages", "news/ärger.jsonl")
) -> Signatures:
    """Pages first..first + count - 1; about a third are near an earlier one, a few have no fingerprint."""
    random = np.random.default_rng(seed)
    fingerprint = random.integers(0, 2**64, count, np.uint64)
    for index in range(1, count):
        if index % 3 == 0:
            changed = np.uint64(1) << np.uint64(random.integers(0, 64))
            fingerprint[index] = fingerprint[random.integers(0, index)] ^ changed
    status = np.where(random.random(count) < 0.1, random.integers(1, 4, count), SignatureStatus.FINGERPRINTED).astype(
        np.uint8
    )
    ids = range(first, first + count)
    return Signatures(
        sources,
        random.integers(0, len(sources), count).astype(np.uint16),
        np.array([i % 4 for i in ids], np.int32),
        np.array(ids, np.int64),
        np.array(ids, np.int64) + 1_700_000_000_000,
        random.integers(0, 4, (count, 2), np.uint64),
        np.where(status == 0, fingerprint, np.uint64(0)),
        status,
        random.integers(0, 500, count).astype(np.uint32),
        tuple(f"https://example.org/ü/{i}".encode() for i in ids),
        tuple(b"" if i % 2 else b"label-%d" % i for i in ids),
        random.integers(0, 2**64, (count, 2), np.uint64),
        random.integers(0, 5, count, np.uint64),
        random.integers(0, 3, count).astype(np.uint8),
        *_minima(random, count),
        random.integers(0, 2**64, (count, SKETCH_WORDS), np.uint64),
        random.integers(0, 3, count).astype(np.uint16),
        random.integers(0, 3, count).astype(np.uint16),
        *some_blocks(random, count),
        *_titles(random, count),
        np.zeros(count, np.uint64),
    )


def packed_block(identity: int, words: int, kept: bool = True, wide: bool = False, numbers: int = 0) -> int:
    """A packed block of fewer than 32 words, all outside links."""
    return identity << 24 | numbers << 16 | words << 8 | 15 << 4 | wide << 1 | kept


def packed_sample(shingle: int, position: int, place: int, width: int) -> int:
    """A packed sample of a shingle whose block has this place on its page."""
    return shingle << 32 | position << 16 | place << 4 | width


def some_blocks(
    random: np.random.Generator, count: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """0..5 of a few blocks for each page, in any order, and 0..4 samples of each: the two columns and their bounds."""
    blocks, samples = list[list[int]](), list[list[int]]()
    for _ in range(count):
        its_blocks, its_samples, position = list[int](), list[int](), 0
        for place in range(random.integers(0, 6)):
            words, kept, wide = int(random.integers(1, 32)), random.random() < 0.5, random.random() < 0.5
            its_blocks.append(packed_block(int(random.integers(0, 2**10)), words, kept, wide))
            for _ in range(random.integers(0, 5)):
                position += int(random.integers(0, 9))
                shingle, width = int(random.integers(0, 2**32)), min(words, 8 if wide else 3)
                its_samples.append(packed_sample(shingle, position, place, width))
        blocks.append(its_blocks)
        samples.append(its_samples)
    columns = (np.array([word for row in rows for word in row], np.uint64) for rows in (blocks, samples))
    bounds = (np.cumsum([0, *map(len, rows)]) for rows in (blocks, samples))
    (of_blocks, of_samples), (block_bounds, sample_bounds) = columns, bounds
    return of_blocks, block_bounds, of_samples, sample_bounds


def _titles(random: np.random.Generator, count: int) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """0..3 of a few words for each page, ascending."""
    rows = [np.unique(random.integers(0, 20, random.integers(0, 4))).astype(np.uint16) for _ in range(count)]
    return np.concatenate([np.empty(0, np.uint16), *rows]), np.cumsum([0, *map(len, rows)])


def _minima(random: np.random.Generator, count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """0..3 of a few hashes for each page, ascending."""
    rows = [np.unique(random.integers(0, 20, random.integers(0, 4), np.uint64)) for _ in range(count)]
    bounds = np.cumsum([0, *map(len, rows)])
    return np.concatenate([np.empty(0, np.uint64), *rows]), bounds


def one_page() -> Signatures:
    """The page of the golden records."""
    return Signatures(
        ("pages",),
        np.array([0], np.uint16),
        np.array([7], np.int32),
        np.array([258], np.int64),
        np.array([1_700_000_000_000], np.int64),
        np.array([[0x1122334455667788, 0x99AABBCCDDEEFF00]], np.uint64),
        np.array([0x0123456789ABCDEF], np.uint64),
        np.array([0], np.uint8),
        np.array([300], np.uint32),
        (b"https://example.org/a",),
        (b"a",),
        np.array([[0x0102030405060708, 0x090A0B0C0D0E0F10]], np.uint64),
        np.array([0xAABBCCDD], np.uint64),
        np.array([3], np.uint8),
        np.array([5, 0x5152535455565758], np.uint64),
        np.array([0, 2]),
        np.array([[0x6162636465666768, 1]], np.uint64),
        np.array([0x7172], np.uint16),
        np.zeros(1, np.uint16),
        np.array([packed_block(0x0102030405, 12), packed_block(0x8182838485, 2, kept=False, numbers=7)], np.uint64),
        np.array([0, 2]),
        np.array(
            [packed_sample(*row) for row in ((0xE1E2E3E4, 0, 0, 3), (0x11121314, 5, 0, 3), (0x21222324, 258, 1, 2))],
            np.uint64,
        ),
        np.array([0, 3]),
        np.array([0x9192, 0xA1A2, 0xB1B2], np.uint16),
        np.array([0, 3]),
        np.zeros(1, np.uint64),
    )


def record_of_broken_columns(**columns: Any) -> bytes:
    """A record of one page whose columns break rules, as a careless writer would seal it."""
    with mock.patch.object(pages_body, "_fault", return_value=0):
        return encode(dataclasses.replace(one_page(), **columns), bytes(16), 1, bytes(16))


def assert_same(one: Signatures, other: Signatures) -> None:
    """Every column equal, in value and in meaning of its dtype."""
    assert (one.sources, one.urls, one.labels) == (other.sources, other.urls, other.labels)
    columns = [field.name for field in dataclasses.fields(Signatures)]
    for name in sorted(set(columns) - {"sources", "urls", "labels"}):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)


def without_sketches(signatures: Signatures) -> Signatures:
    """The same pages without sketches, as the default scheme signs pages."""
    return replace(signatures, sketch=np.empty((len(signatures), 0), np.uint64))
