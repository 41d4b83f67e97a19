"""Packs columns: each number of a column takes as many bytes as the greatest of them needs.

    numbers = width u8 (0..8), number[n], each of `width` bytes
    bits    = u8[(n + 7) / 8], the first one in the highest bit
    words   = u64[n]
    reals   = f64[n]
    texts   = numbers (lengths in bytes), UTF-8

All integers are little endian. How many there are stands before or follows from what was read before.
"""

import struct
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.settings.cluster import MOST_ROUND_PAGES

_COUNT = struct.Struct("<I")


class ColumnWriter:
    """Columns, one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def count(self, number: int) -> None:
        """Write how many rows follow."""
        self._parts.append(_COUNT.pack(number))

    def numbers(self, column: NDArray[Any]) -> None:
        """Write numbers that are not negative: int[n] or uint[n]."""
        words = np.ascontiguousarray(column, "<u8")
        width = (int(words.max(initial=0)).bit_length() + 7) // 8
        self._parts += [bytes([width]), words.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()]

    def words(self, column: NDArray[np.uint64]) -> None:
        """Write uint64[n] that are spread over all values."""
        self._parts.append(np.ascontiguousarray(column, "<u8").tobytes())

    def bits(self, column: NDArray[np.bool_]) -> None:
        """Write bool[n]."""
        self._parts.append(np.packbits(column).tobytes())

    def reals(self, column: NDArray[np.float64]) -> None:
        """Write float64[n]."""
        self._parts.append(np.ascontiguousarray(column, "<f8").tobytes())

    def texts(self, column: Sequence[str]) -> None:
        """Write texts; a lone surrogate is written as it is."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in column]
        self.numbers(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        self._parts += encoded

    def body(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)


class PackedTexts(Sequence[str]):
    """Texts that are decoded one by one."""

    def __init__(self, raw: bytes, bounds: list[int]) -> None:
        self._raw, self._bounds = raw, bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        return self._raw[self._bounds[row] : self._bounds[row + 1]].decode("utf-8", "surrogatepass")

    def take(self, rows: NDArray[np.int64]) -> list[str]:
        """These texts: int64[a]."""
        raw, bounds = self._raw, self._bounds
        return [raw[bounds[row] : bounds[row + 1]].decode("utf-8", "surrogatepass") for row in rows.tolist()]


class ColumnReader:
    """Reads columns in the order in which they were written. Raises ValueError where they are not there.

    A body of few bytes may not ask for much memory, so every count has a bound: the pages of a round, or what the bytes
    that are left can hold.
    """

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._body) - self._at

    def pages(self) -> int:
        """How many pages the round has. Their columns may take no bytes, so the bytes that are left are no bound."""
        return self.count(MOST_ROUND_PAGES)

    def count_of_words(self) -> int:
        """How many rows follow, each of which has a word."""
        return self.count(max(0, self.left - _COUNT.size) // 8)

    def count(self, most: int) -> int:
        """How many rows follow, of so many at most."""
        (number,) = _COUNT.unpack(self._take(_COUNT.size))
        if number > most:
            raise ValueError
        return int(number)

    def numbers(self, rows: int, most: int = 2**63 - 1) -> NDArray[np.int64]:
        """int64[rows], each of 0..most."""
        width = self._take(1)[0]
        if width > 8:
            raise ValueError
        words = np.zeros((rows, 8), np.uint8)
        words[:, :width] = np.frombuffer(self._take(rows * width), np.uint8).reshape(rows, width)
        found = words.view("<u8").reshape(rows)
        if int(found.max(initial=0)) > most:
            raise ValueError
        return found.astype(np.int64)

    def words(self, rows: int) -> NDArray[np.uint64]:
        """uint64[rows]."""
        return np.frombuffer(self._take(8 * rows), "<u8").astype(np.uint64)

    def bits(self, rows: int) -> NDArray[np.bool_]:
        """bool[rows]."""
        packed = np.frombuffer(self._take((rows + 7) // 8), np.uint8)
        if int(np.unpackbits(packed)[rows:].sum()):
            raise ValueError
        return np.unpackbits(packed, count=rows).astype(np.bool_)

    def reals(self, rows: int) -> NDArray[np.float64]:
        """float64[rows]."""
        return np.frombuffer(self._take(8 * rows), "<f8").astype(np.float64)

    def texts(self, rows: int) -> "PackedTexts":
        """As many texts. Each is decoded when it is asked for, and can be: all are looked at here."""
        ends = np.cumsum(self.numbers(rows, self.left), dtype=np.int64)
        raw = self._take(int(ends[-1]) if rows else 0)
        if not raw.isascii():
            raw.decode("utf-8", "surrogatepass")  # Raises UnicodeDecodeError, a ValueError.
            begins = np.frombuffer(raw, np.uint8)[ends[ends < len(raw)]]
            if (begins & 0xC0 == 0x80).any():
                raise ValueError  # A text begins within a character.
        return PackedTexts(raw, [0, *ends.tolist()])

    def end(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._body):
            raise ValueError

    def _take(self, size: int) -> bytes:
        part = self._body[self._at : self._at + size]
        if len(part) != size:
            raise ValueError
        self._at += size
        return part
