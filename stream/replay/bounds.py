"""Reads --from and --to: an offset, one offset for each partition, or a time."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from spotsieve.stream.errors import PageError, SettingError
from spotsieve.stream.intake.times import read_time

FIRST_MILLISECONDS = 10**11
"""A whole number from here on is a time. It is 1973 in milliseconds, and more messages than a partition has."""
_BY_PARTITION = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*", re.ASCII)
_DATED = re.compile(r"\d{4}-", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bound:
    """One of three: an offset for every partition, offsets by partition, or milliseconds since the epoch."""

    offset: int | None = None
    by_partition: Mapping[int, int] = field(default_factory=dict)
    time_ms: int | None = None


def parse_bound(flag: str, text: str) -> Bound:
    """Read a bound. A time without zone is UTC.  flag: its name in messages. Raises SettingError."""
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
    held: tuple[int, int],
    first: Bound | None,
    end: Bound | None,
    times: Mapping[str, Mapping[int, int | None]],
) -> tuple[int, int]:
    """The first offset of a partition that is replayed, and the one after the last.

    held: the same two offsets of what the topic holds  times: for "first" and "end", by partition, the first offset at
    or after the bound's time, None where there is none
    """
    low, high = held
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
