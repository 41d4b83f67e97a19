"""Byte strings of many pages that lie one after the other in one buffer, as the log holds addresses."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of, sizes_of


class ByteTexts(Sequence[bytes]):
    """n byte strings. Each is cut out when somebody asks for it: most readers of a record ask for few or none.

    raw: the buffer  bounds: int64[n + 1], string i lies between bounds i and i + 1
    """

    __slots__ = ("bounds", "raw")

    def __init__(self, raw: bytes, bounds: NDArray[np.int64]) -> None:
        self.raw, self.bounds = raw, bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> "ByteTexts": ...
    def __getitem__(self, row: int | slice) -> "bytes | ByteTexts":
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            if step != 1:
                raise ValueError(f"byte texts are cut in steps of 1, got {step}")
            return ByteTexts(self.raw, self.bounds[start : max(start, stop) + 1])
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        return self.raw[self.bounds[row] : self.bounds[row + 1]]

    def __iter__(self) -> Iterator[bytes]:
        raw = self.raw
        return (raw[start:end] for start, end in pairwise(self.bounds.tolist()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(bytes.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


def byte_texts(texts: Sequence[bytes]) -> ByteTexts:
    """Lay byte strings one after the other, if they do not lie so."""
    if isinstance(texts, ByteTexts):
        return texts
    bounds = bounds_of(text_lengths(texts))
    return ByteTexts(b"".join(texts), bounds)


def text_lengths(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """N byte strings -> how long each is: int64[n], bytes."""
    return (
        sizes_of(texts.bounds) if isinstance(texts, ByteTexts) else np.fromiter(map(len, texts), np.int64, len(texts))
    )


def joined_texts(parts: Sequence[Sequence[bytes]]) -> ByteTexts:
    """The byte strings of all parts, in order."""
    laid, raws, bounds, end = [byte_texts(part) for part in parts], list[bytes](), [np.zeros(1, np.int64)], 0
    for part in laid:
        first, last = int(part.bounds[0]), int(part.bounds[-1])
        raws.append(part.raw[first:last])
        bounds.append(part.bounds[1:] + (end - first))
        end += last - first
    return ByteTexts(b"".join(raws), np.concatenate(bounds))
