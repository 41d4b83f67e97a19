"""A round knows which pages marks say are committed, by one look-up for each page however many marks there are."""

import random
from dataclasses import replace

import numpy as np
import pytest

from spotsieve.state.horizon import Clock
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.loaded import EVERY_PARTITION
from spotsieve.stream.base.page import PageId
from spotsieve.stream.sharding.rounds import CommittedPages, next_round
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.states.remembering import any_case
from tests.fixtures.states.shards import DIGEST

RECORDS = 400
SOURCES = ("pages", "others")
ROUND_SECONDS = 1.5
"""CPU for a round of many marks. One look at all marks for each page took ten times as much."""


def is_below(page_id: PageId, mark: CommitMark) -> bool:
    """What a mark says of a page."""
    if mark.partition == EVERY_PARTITION:
        return True
    return page_id[:2] == (mark.source, mark.partition) and page_id[2] < mark.offset


@pytest.mark.parametrize("seed", range(20))
def test_pages_are_committed_as_each_mark_by_itself_says(seed: int) -> None:
    dice, committed, marks = random.Random(seed), CommittedPages(), list[CommitMark]()
    for _ in range(30):
        partition = EVERY_PARTITION if dice.random() < 0.01 else dice.randrange(3)
        marks.append(CommitMark(dice.choice(SOURCES), partition, dice.randrange(50)))
        committed.add(marks[-1])
        for _ in range(20):
            page_id = (dice.choice(SOURCES), dice.randrange(3), dice.randrange(50))
            assert (page_id in committed) == any(is_below(page_id, mark) for mark in marks)


def test_a_round_with_thousands_of_marks_is_cut_in_little_time() -> None:
    some, records = signatures_of(any_case(8003)[1]), []
    pages = len(some)
    for number in range(RECORDS):
        signatures = replace(some, offset=np.arange(pages, dtype=np.int64) + number * pages)
        # Of other partitions, so that none of them ends the round.
        marks = [CommitMark("others", partition, number) for partition in range(64)]
        records.append((number, decode(encode(signatures, bytes(16), number, DIGEST, marks))))
    round_ = next_round(records, 0, Clock(), 0, 0, RECORDS * pages)
    assert_cpu_below(ROUND_SECONDS, lambda: next_round(records, 0, Clock(), 0, 0, RECORDS * pages))
    assert len(round_.signatures) == RECORDS * pages
    assert len(round_.marks) == RECORDS * 64
