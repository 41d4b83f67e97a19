"""Writes values that are put together of runs of bytes: one run of each column for each value."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.byte_texts import ByteTexts


class Runs(NamedTuple):
    """A run of bytes for each of f values. raw: uint8[...]  first, size: int64[f], where each begins in raw"""

    raw: NDArray[np.uint8]
    first: NDArray[np.int64]
    size: NDArray[np.int64]


def runs_of_rows(rows: NDArray[Any]) -> Runs:
    """Each row of a column of one size: [f, ...], as its bytes."""
    size = rows.itemsize * int(np.prod(rows.shape[1:]))
    return Runs(_bytes_of(rows), np.arange(len(rows)) * size, np.full(len(rows), size))


def runs_of_ragged(column: NDArray[Any], first: NDArray[np.int64], size: NDArray[np.int64]) -> Runs:
    """The numbers of a ragged column, as their bytes. first, size: int64[f], in numbers of the column"""
    return Runs(_bytes_of(column), first * column.itemsize, size * column.itemsize)


def runs_of_texts(texts: ByteTexts, rows: NDArray[np.int64]) -> Runs:
    """The byte strings of these rows: int64[f]."""
    first = texts.bounds[:-1][rows]
    return Runs(np.frombuffer(texts.raw, np.uint8), first, texts.bounds[1:][rows] - first)


def put_together(columns: Sequence[Runs]) -> list[bytes]:
    """Write f values: of each the runs of all columns, one after the other."""
    ends = np.zeros(len(columns[0].first) + 1, np.int64)
    np.cumsum(np.sum([column.size for column in columns], axis=0), out=ends[1:])
    buffer, at = np.empty(ends[-1], np.uint8), ends[:-1].copy()
    for column in columns:
        _copy(*column, at, buffer)
    raw = buffer.tobytes()
    return [raw[start:end] for start, end in pairwise(ends.tolist())]


def _bytes_of(column: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a column, for reading alone: the kernel is compiled for one type, and those of texts are so."""
    raw = np.ascontiguousarray(column).reshape(-1).view(np.uint8)
    raw.flags.writeable = False
    return raw


@numba.njit(nogil=True, cache=True)
def _copy(raw, first, size, at, buffer):  # type: ignore[no-untyped-def]
    # raw, first, size: as of Runs  at: int64[f], where each value goes on, moved on  ->  buffer: uint8[...]
    for row in range(len(first)):
        source, target = first[row], at[row]
        for byte in range(size[row]):
            buffer[target + byte] = raw[source + byte]
        at[row] = target + size[row]
