"""One record of each kind that shards and the resolver send, with values at the ends of their ranges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spotsieve.state.horizon import Mark
from spotsieve.state.index import NOBODY, Attempt
from spotsieve.stream.judge.rules import nothing_found
from spotsieve.stream.sharding.confirming import Confirms
from spotsieve.stream.sharding.hosts import Walks
from spotsieve.stream.sharding.meetings import ACCEPTED, OF_HOST, OPEN, REFUSED, Meetings, SentTexts, Sizes
from spotsieve.stream.sharding.records.broken import BrokenRows, read_broken, write_broken
from spotsieve.stream.sharding.records.columns import ColumnReader
from spotsieve.stream.sharding.records.confirms import read_confirms, write_confirms
from spotsieve.stream.sharding.records.frame import (
    KIND_ASK,
    KIND_BROKEN,
    KIND_CONFIRMS,
    KIND_FILLED,
    KIND_GUESS,
    KIND_MEETINGS,
    KIND_OUTCOME,
    KIND_RANGE,
    KIND_RESIZE,
    KIND_WALKS,
    Range,
)
from spotsieve.stream.sharding.records.meetings import read_meetings, write_meetings
from spotsieve.stream.sharding.records.outcome import read_outcome, write_outcome
from spotsieve.stream.sharding.records.range import Named, read_guess, read_named, write_guess, write_named
from spotsieve.stream.sharding.records.resize import (
    read_ask,
    read_filled,
    read_resize,
    write_ask,
    write_filled,
    write_resize,
)
from spotsieve.stream.sharding.records.walks import read_walks, write_walks
from spotsieve.stream.sharding.resizing import Change, Filled, Resize
from spotsieve.stream.sharding.resolving import Resolved
from spotsieve.stream.sharding.rounds import Place
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.signature import Entry, OwnText
from spotsieve.stream.verdict import FoundBy, Kind, Reason, Verdicts

FIRST = 1000
SETTINGS, SHARE = bytes(range(16)), Share(1, 3)
RANGE = Range(Place(7, 2), Place(9, 0), FIRST, 10, -5)
ENTRIES = {
    3: Entry("pages", 0, 12, 1_700_000_000_000, "http://one.example/ä", ""),
    998: Entry("other", -1, 2**40, -1, "http://two.example/\udcff", "label"),
}
TEXTS = SentTexts(
    np.array([2**63, 5], np.uint64),
    np.array([300, 0], np.uint32),
    np.array([[1, 2**64 - 1], [0, 0]], np.uint64),
    OwnText(
        np.array([7, 65_535], np.uint16),
        np.zeros(2, np.uint8),
        np.zeros(2, np.uint16),
        np.empty(0, np.uint32),
        np.zeros(3, np.int64),
        np.array([4, 9], np.uint16),
        np.array([0, 2, 2]),
    ),
)
MEETINGS = Meetings(
    np.array([4, 0, 300]),
    np.array([0, 3, 3, 5]),
    np.array([3, 40, 998, 998, 999]),
    np.array([0, 0, FoundBy.BODY, 0, 0], np.uint8),
    np.array([FoundBy.MINIMA, FoundBy.MINIMA, FoundBy.BODY | FoundBy.MINIMA, FoundBy.TABLES, FoundBy.PRINTS], np.uint8),
    np.array([255, 255, 3, 255, 255], np.uint8),
    np.array([ACCEPTED, REFUSED, REFUSED, OPEN, OF_HOST], np.uint8),
    np.array([0.75, np.nan, np.nan, np.nan, np.nan]),
    np.array([10, 20, 0, 70_000, 0]),
    Sizes(np.array([1, 2**64 - 1], np.uint64), np.array([256, 4])),
    np.array(list(ENTRIES)),
    ENTRIES,
    None,
    {1: Attempt(3, 0.5, Reason.NEAR, FoundBy.MINIMA), 2: Attempt(NOBODY, np.nan, Reason.NO_MATCH, 0)},
)
CONFIRMS = Confirms(
    np.array([REFUSED, OPEN, OF_HOST, OPEN], np.uint8),
    np.array(list(ENTRIES)),
    ENTRIES,
    TEXTS,
    np.array([True, False, True]),
)
RESOLVED = Resolved(
    Verdicts(
        np.array([Kind.DUPLICATE, Kind.NOVEL, Kind.UNCHECKED], np.uint8),
        np.array([Reason.OWN_TEXT, Reason.LONGER, Reason.EMPTY], np.uint8),
        np.array([0.25, np.nan, np.nan]),
        (ENTRIES[3], None, None),
        np.array([9, 300, 0]),
        np.array([FoundBy.TITLE, 0, 0], np.uint8),
        np.array([True, False, False]),
        (None, ENTRIES[998], None),
    ),
    np.array([NOBODY, FIRST, NOBODY]),
    FIRST + 1,
    np.array([3, NOBODY, NOBODY]),
    np.array([NOBODY, 998, NOBODY]),
    np.array([2, 1, 0], np.uint8),
    np.array([True, True, False]),
)


def walks() -> Walks:
    """Of pages 0 and 2: one is a copy of a filed page, one of an earlier page of the round."""
    filed, within = nothing_found(2), nothing_found(2)
    filed.number[0], filed.score[0], filed.reason[0], filed.found_by[0] = 3, 0.5, Reason.OWN_TEXT, FoundBy.TITLE
    filed.replaced[1] = 998
    within.number[1], within.proof[1], within.found_by[1], within.cut[1] = 0, FoundBy.BODY, FoundBy.BODY, True
    return Walks(
        np.array([0, 2]),
        filed,
        within,
        np.array([False, False]),
        np.array([2, 0], np.uint8),
        np.array([True, False]),
        np.array([5, 6]),
        {3: ENTRIES[3]},
    )


NAMED = Named(2**63, (Mark(-7, 3), Mark(2, 900)), (0, 2**32, 9), ((7, 2), (8, 0), (300, 4)))
GUESS = np.array([True, False, True])
BROKEN = BrokenRows(12, {0: "Defect: ä", 9: "", 11: "Defect: ä"})


class Kept(NamedTuple):
    """A kind of record. write: the body again, of what was read"""

    kind: int
    body: bytes
    read: Callable[[ColumnReader], Any]
    write: Callable[[Any], bytes]


def kept() -> dict[str, Kept]:
    """One record of each kind that has a body."""
    return {
        "meetings": Kept(
            KIND_MEETINGS,
            write_meetings(MEETINGS, FIRST),
            lambda columns: read_meetings(columns, FIRST),
            lambda read: write_meetings(read, FIRST),
        ),
        "confirms": Kept(
            KIND_CONFIRMS,
            write_confirms(CONFIRMS, 2**64 - 2, FIRST),
            lambda columns: read_confirms(columns, FIRST),
            lambda read: write_confirms(read, 2**64 - 2, FIRST),
        ),
        "walks": Kept(
            KIND_WALKS,
            write_walks(walks(), GUESS, FIRST),
            lambda columns: read_walks(columns, FIRST),
            lambda read: write_walks(read[0], read[1], FIRST),
        ),
        "range": Kept(
            KIND_RANGE,
            write_named(NAMED),
            lambda columns: read_named(columns, RANGE.start.record),
            write_named,
        ),
        "guess": Kept(KIND_GUESS, write_guess(GUESS), read_guess, write_guess),
        "broken": Kept(KIND_BROKEN, write_broken(BROKEN), read_broken, write_broken),
        "resize": Kept(KIND_RESIZE, write_resize(Resize(Change.SWITCHED, 5, 2**40)), read_resize, write_resize),
        "ask": Kept(KIND_ASK, write_ask(5), read_ask, write_ask),
        "filled": Kept(KIND_FILLED, write_filled(Filled(True, 2**40)), read_filled, write_filled),
        "outcome": Kept(
            KIND_OUTCOME, write_outcome(RESOLVED), lambda columns: read_outcome(columns, FIRST), write_outcome
        ),
    }
