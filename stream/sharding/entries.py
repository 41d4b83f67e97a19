"""Holds entries that shards tell each other, by number."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.signature import Entry


class Entries(Mapping[int, Entry]):
    """Entries by number that give many at a time for less. numbers: int64[e], ascending"""

    numbers: NDArray[np.int64]

    @abstractmethod
    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """What verdicts tell of these: int64[a]. Raises KeyError where one is not there."""


def _numbers_of(sent: Mapping[int, Entry]) -> NDArray[np.int64]:
    return sent.numbers if isinstance(sent, Entries) else np.fromiter(sent, np.int64, len(sent))


def _entries_of(sent: Mapping[int, Entry], numbers: NDArray[np.int64]) -> list[Entry]:
    """What verdicts tell of these: int64[a]. Raises KeyError where one is not there."""
    return sent.entries(numbers) if isinstance(sent, Entries) else [sent[number] for number in numbers.tolist()]


class SentEntries:
    """Entries that shards have sent, as read. numbers: int64[e], ascending"""

    def __init__(self, sent: Sequence[Mapping[int, Entry]]) -> None:
        """sent: by number"""
        self._sent = sent
        every = np.concatenate([np.empty(0, np.int64), *map(_numbers_of, sent)])
        self.numbers, first = np.unique(every, return_index=True)
        self._part = np.repeat(np.arange(len(sent)), [len(one) for one in sent])[first]

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """places: int64[a] -> what verdicts tell of them."""
        numbers, part = self.numbers[places], self._part[places]
        found = np.empty(len(places), np.object_)
        for number, one in enumerate(self._sent):
            rows = np.flatnonzero(part == number)
            if len(rows):
                found[rows] = _entries_of(one, numbers[rows])
        return list(found)
