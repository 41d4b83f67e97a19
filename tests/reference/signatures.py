"""Signatures for tests of state and log: any number of pages, some near others, with addresses."""

import dataclasses
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
        *_prints(random, count),
        *_titles(random, count),
        np.zeros(count, np.uint64),
    )


def _prints(random: np.random.Generator, count: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """0..5 of a few blocks for each page, ascending, each identity once."""
    rows = [np.unique(random.integers(0, 2**10, random.integers(0, 6))) << 5 for _ in range(count)]
    flagged = [(row | random.integers(0, 2**5, len(row))).astype(np.uint32) for row in rows]
    return np.concatenate([np.empty(0, np.uint32), *flagged]), np.cumsum([0, *map(len, rows)])


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
        np.array([0x00000033, 0x81828384], np.uint32),
        np.array([0, 2]),
        np.array([0x9192, 0xA1A2, 0xB1B2], np.uint16),
        np.array([0, 3]),
        np.zeros(1, np.uint64),
    )


def record_of_broken_columns(**columns: Any) -> bytes:
    """A record of one page whose columns break rules, as a careless writer would seal it."""
    with mock.patch.object(pages_body, "_sound", return_value=True):
        return encode(dataclasses.replace(one_page(), **columns), bytes(16), 1, bytes(16))


def assert_same(one: Signatures, other: Signatures) -> None:
    """Every column equal, in value and in meaning of its dtype."""
    assert (one.sources, one.urls, one.labels) == (other.sources, other.urls, other.labels)
    columns = [field.name for field in dataclasses.fields(Signatures)]
    for name in sorted(set(columns) - {"sources", "urls", "labels"}):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)
