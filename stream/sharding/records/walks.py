"""Packs what a shard found of the pages of its hosts: the body of a record of kind 2.

    body  = pages u32 (n), guess (bits), own (bits: k pages), flags[k], postings[k] (numbers), found among the filed
            ones, found within the round, entries
    flags = filed 1 | new 2 | cut 4 | what it taught << 3
    found = original[k], replaced[k] (numbers), and of the pages with an original proof, distance, found_by,
            reason (numbers), and of those without proof the score (reals)

Both are 0 where there is none, else an age: the first number of the round less the entry, or n less the row in it.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.judge.by_host.learning import TAUGHT_REST
from spotsieve.stream.judge.rules import OriginalSearch, empty_search
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.records.entries import PackedEntries, write_entries
from spotsieve.stream.verdict import Reason

_FILED, _NEW, _CUT, _TAUGHT_SHIFT = 1, 2, 4, 3
_OF_PAIR = ("proof", "distance", "found_by", "reason")


def write_resolutions(walks: HostResolutions, speculation: NDArray[np.bool_], first_number: int) -> bytes:
    """Write the body. speculation: bool[n], under which the shard walked  first_number: of the round"""
    columns, pages = ColumnWriter(), len(speculation)
    own = np.zeros(pages, np.bool_)
    own[walks.rows] = True
    columns.count(pages)
    columns.bits(speculation)
    columns.bits(own)
    columns.numbers(
        walks.is_indexed * _FILED | walks.is_new * _NEW | walks.within.cut * _CUT | walks.taught << _TAUGHT_SHIFT
    )
    columns.numbers(walks.postings)
    _write_found(columns, walks.indexed, first_number)
    _write_found(columns, walks.within, pages)
    write_entries(columns, walks.entries, first_number)
    return columns.body()


def read_resolutions(columns: ColumnReader, first_number: int) -> tuple[HostResolutions, NDArray[np.bool_]]:
    """Read the body, and the guess under which the shard walked. Raises ValueError."""
    pages = columns.pages()
    speculation = columns.bits(pages)
    rows = np.flatnonzero(columns.bits(pages))
    flags = columns.numbers(len(rows), int(TAUGHT_REST) << _TAUGHT_SHIFT | _FILED | _NEW | _CUT)
    postings = columns.numbers(len(rows))
    indexed = _read_found(columns, len(rows), first_number)
    within = _read_found(columns, len(rows), pages)
    within.cut[:] = flags & _CUT != 0
    taught = (flags >> _TAUGHT_SHIFT).astype(np.uint8)
    entries = PackedEntries(columns, first_number)
    is_indexed, is_new = flags & _FILED != 0, flags & _NEW != 0
    return HostResolutions(rows, indexed, within, is_indexed, taught, is_new, postings, entries), speculation


def _write_found(columns: ColumnWriter, found: OriginalSearch, end: int) -> None:
    """end: greater than every number of an original"""
    for number in (found.number, found.replaced):
        columns.numbers(np.where(number == NOBODY, 0, end - number))
    some = found.number != NOBODY
    for name in _OF_PAIR:
        columns.numbers(getattr(found, name)[some])
    columns.reals(found.score[some & (found.proof == 0)])


def _read_found(columns: ColumnReader, rows: int, end: int) -> OriginalSearch:
    found = empty_search(rows)
    for number in (found.number, found.replaced):
        age = columns.numbers(rows, end)
        number[:] = np.where(age == 0, NOBODY, end - age)
    some = found.number != NOBODY
    for name in _OF_PAIR:
        most = max(Reason) if name == "reason" else 255
        getattr(found, name)[some] = columns.numbers(int(some.sum()), most)
    scored = some & (found.proof == 0)
    found.score[scored] = columns.reals(int(scored.sum()))
    return found
