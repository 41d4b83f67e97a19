"""Packs what the resolver says beside the range of a round: the bodies of records of kind 4 and kind 5.

    range   = last record u64, marks u32 (m), step (words, two's complement: m), number (numbers: m),
              shards u32 (s), answers[s] (numbers), records u32 (k), offset less that of the start, pages[k] (numbers)
    guess   = pages u32 (n), filed (bits)

A worker finds its own pages by the records and their pages. Who begins in the middle of a round finds the answers to it
from these offsets of `matches` on, and has the clock of the horizon by its marks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import StepMark
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.shares import MOST_SHARDS


class RoundAnnouncement(NamedTuple):
    """What is said of a round that is next.

    last_record: checksum of the last record that it has pages of  marks: of its clock
    answers: by shard, the offset in `matches` from which on the shard's answers to it stand
    records: (offset in the log, how many pages of it are in the round)
    """

    last_record: int
    marks: tuple[StepMark, ...]
    answers: tuple[int, ...]
    records: tuple[tuple[int, int], ...]


def write_announcement(named: RoundAnnouncement) -> bytes:
    """Write the body of kind 4."""
    columns = ColumnWriter()
    columns.words(np.array([named.last_record], np.uint64))
    columns.count(len(named.marks))
    columns.words(np.array([mark.step for mark in named.marks], np.int64).view(np.uint64))
    columns.numbers(np.array([mark.number for mark in named.marks], np.int64))
    columns.count(len(named.answers))
    columns.numbers(np.array(named.answers, np.int64))
    columns.count(len(named.records))
    first = named.records[0][0] if named.records else 0
    columns.numbers(np.array([offset - first for offset, _ in named.records], np.int64))
    columns.numbers(np.array([pages for _, pages in named.records], np.int64))
    return columns.body()


def read_announcement(columns: ColumnReader, first_record: int) -> RoundAnnouncement:
    """Read the body of kind 4. first_record: offset of the record in which the round begins. Raises ValueError."""
    last_record = int(columns.words(1)[0])
    marks = columns.count_of_words()
    steps, numbers = columns.words(marks).view(np.int64), columns.numbers(marks)
    answers = columns.numbers(columns.count(MOST_SHARDS))
    records = columns.pages()
    offsets, pages = columns.numbers(records) + first_record, columns.numbers(records)
    if (np.diff(steps) <= 0).any() or (np.diff(numbers) <= 0).any() or (np.diff(offsets) <= 0).any():
        raise ValueError
    return RoundAnnouncement(
        last_record,
        tuple(map(StepMark, steps.tolist(), numbers.tolist())),
        tuple(answers.tolist()),
        tuple(zip(offsets.tolist(), pages.tolist(), strict=True)),
    )


def write_speculation(speculation: NDArray[np.bool_]) -> bytes:
    """Write the body of kind 5. speculation: bool[n], which pages of the round are filed, as far as is known"""
    columns = ColumnWriter()
    columns.count(len(speculation))
    columns.bits(speculation)
    return columns.body()


def read_speculation(columns: ColumnReader) -> NDArray[np.bool_]:
    """Read the body of kind 5. Raises ValueError."""
    return columns.bits(columns.pages())
