"""Numbers the offsets of a range of a topic, so that what is known of its pages fits in arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of

OUTSIDE = -1
"""The place of a page that is not in the range, or of another topic."""


class RangePlaces:
    """Partition after partition, offset after offset: place 0 is the first offset of partition 0."""

    def __init__(self, topic: str, spans: Sequence[tuple[int, int]]) -> None:
        """spans: for each partition 0, 1, ... the first offset, and the one after the last"""
        self.topic = topic
        self.spans = tuple((first, max(first, end)) for first, end in spans)
        self._first = np.array([first for first, _ in self.spans], np.int64)
        self._end = np.array([end for _, end in self.spans], np.int64)
        self._base = bounds_of(self._end - self._first)

    def __len__(self) -> int:
        return int(self._base[-1])

    def of(self, partition: NDArray[np.int32], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of pages, or OUTSIDE.  partition: int32[n]  offset: int64[n]  ->  int64[n]"""
        known = (partition >= 0) & (partition < len(self.spans))
        row = np.where(known, partition, 0)
        inside = known & (offset >= self._first[row]) & (offset < self._end[row])
        return np.where(inside, self._base[row] + offset - self._first[row], OUTSIDE)

    def of_page(self, source: str, partition: int, offset: int) -> int:
        """The place of one page, or OUTSIDE."""
        if source != self.topic or not 0 <= partition < len(self.spans):
            return OUTSIDE
        first, end = self.spans[partition]
        return int(self._base[partition]) + offset - first if first <= offset < end else OUTSIDE

    def page(self, place: int) -> tuple[int, int]:
        """The page at a place, as (partition, offset)."""
        partition = int(self.partitions(np.array([place], np.int64))[0])
        return partition, int(place - self._base[partition] + self._first[partition])

    def partitions(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The partitions of places.  places: int64[n], all in the range  ->  int64[n]"""
        return np.searchsorted(self._base, places, "right") - 1

    def offsets(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets of places.  places: int64[n], all in the range  ->  int64[n]"""
        partitions = self.partitions(places)
        return places - self._base[partitions] + self._first[partitions]
