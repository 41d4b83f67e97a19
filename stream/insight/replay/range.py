"""The range of a replay: parses --from and --to, and numbers the offsets of the range.

A bound is an offset, an offset for each partition, or a time. `RangePlaces` maps (partition, offset) to an array index.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.sign.intake.fields import read_time

FIRST_MILLISECONDS = 10**11
"""Whole numbers from here on are times: this is 1973 in ms, and more messages than a partition has."""
_BY_PARTITION = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*", re.ASCII)
_DATED = re.compile(r"\d{4}-", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
OUTSIDE = -1
"""The place of a page that is not in the range."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One of three: an offset for all partitions, offsets by partition, or milliseconds since the epoch."""

    offset: int | None = None
    by_partition: Mapping[int, int] = field(default_factory=dict)
    time_ms: int | None = None


def parse_bound(flag: str, text: str) -> Bound:
    """Parse a bound. A time without zone is UTC. flag: the option, for messages. Raises SettingError."""
    if _WHOLE.fullmatch(text):
        number = int(text)
        return Bound(offset=number) if number < FIRST_MILLISECONDS else Bound(time_ms=number)
    if _BY_PARTITION.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return Bound(by_partition={int(partition): int(offset) for partition, offset in pairs})
    time_ms = -1
    if _DATED.match(text):
        with suppress(PageError):
            time_ms = read_time(text, time_ms)
    if time_ms < 0:
        raise SettingError(
            flag,
            "must be an offset, PARTITION:OFFSET joined by commas, or a time in ISO 8601 or epoch milliseconds",
            text,
            "such as 120000, 0:120000,1:98000 or 2026-11-21T10:00:00Z",
        )
    return Bound(time_ms=time_ms)


def span(
    partition: int,
    available: tuple[int, int],
    first: Bound | None,
    end: Bound | None,
    times: Mapping[str, Mapping[int, int | None]],
) -> tuple[int, int]:
    """The first offset of a partition to replay, and the offset after the last.

    available: the same two offsets of the topic  times: for "first" and "end", the first offset at or after the bound's
    time by partition, None without one
    """
    low, high = available
    begin = _offset_of(first, partition, low, high, times["first"])
    last = _offset_of(end, partition, high, high, times["end"])
    return (min(max(begin, low), high), min(max(last, begin, low), high))


def _offset_of(bound: Bound | None, partition: int, default: int, high: int, times: Mapping[int, int | None]) -> int:
    if bound is None:
        return default
    if bound.offset is not None:
        return bound.offset
    if bound.time_ms is not None:
        found = times.get(partition)
        return high if found is None else found
    return bound.by_partition.get(partition, default)


class RangePlaces:
    """Numbers the pages of a range by partition, then offset: place 0 is the first offset of partition 0."""

    def __init__(self, topic: str, spans: Sequence[tuple[int, int]]) -> None:
        """spans: first offset and offset after the last, for partitions 0, 1, ..."""
        self.topic = topic
        self.spans = tuple((first, max(first, end)) for first, end in spans)
        self._first = np.array([first for first, _ in self.spans], np.int64)
        self._end = np.array([end for _, end in self.spans], np.int64)
        self._base = bounds_of(self._end - self._first)

    def __len__(self) -> int:
        return int(self._base[-1])

    def of(self, partition: NDArray[np.int32], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of pages, or OUTSIDE. partition: int32[n]  offset: int64[n]  -> int64[n]"""
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
        """The partitions of places. places: int64[n], all in the range  -> int64[n]"""
        return np.searchsorted(self._base, places, "right") - 1

    def offsets(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets of places. places: int64[n], all in the range  -> int64[n]"""
        partitions = self.partitions(places)
        return places - self._base[partitions] + self._first[partitions]
