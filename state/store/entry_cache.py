"""Keeps the entries that were read last: pages meet those of the same few pages again, in record after record."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 4 * 2**20
"""Kept at once. Entries have 120 to 300 bytes, and some kilobytes where a scheme compares features."""
_BESIDE = 150
"""Bytes that the dictionary and its objects take for an entry, beside what the entry itself has."""


class EntryCache:
    """The values of entries by number. An entry changes only when it is forgotten: call clear() then."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._bytes = most_bytes, 0
        self._values = dict[int, bytes]()

    def read(
        self, numbers: NDArray[np.uint64], read: Callable[[NDArray[np.uint64]], Sequence[bytes | None]]
    ) -> list[bytes | None]:
        """Return the value of each entry, or None where there is none. numbers: uint64[e]

        read: reads the entries that are not kept, in the same way
        """
        kept = self._values
        asked: list[int] = numbers.tolist()
        values: list[bytes | None] = list(map(kept.get, asked))
        missing = [place for place, value in enumerate(values) if value is None]
        if not missing:
            return values
        for place, value in zip(missing, read(numbers[missing]), strict=True):
            values[place] = value
            if value is not None:
                self._keep(asked[place], value)
        if self._bytes > self._most:
            self._drop()
        return values

    def clear(self) -> None:
        """Let go of all."""
        self._values.clear()
        self._bytes = 0

    def _keep(self, number: int, value: bytes) -> None:
        if number not in self._values:
            self._values[number] = value
            self._bytes += len(value) + _BESIDE

    def _drop(self) -> None:
        """Let go of those that came first, half of all. One that is popular is read once more, and stays again."""
        for number in list(self._values):
            if self._bytes <= self._most // 2:
                return
            self._bytes -= len(self._values.pop(number)) + _BESIDE
