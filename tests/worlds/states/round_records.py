"""One record of each kind that shards and the resolver send, with values at the ends of their ranges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spotsieve.state.horizon import StepMark
from spotsieve.state.index import NOBODY, PendingVerdict
from spotsieve.stream.base.signature import Entry, OwnText
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason, Verdicts
from spotsieve.stream.judge.rules import empty_search
from spotsieve.stream.sharding.candidates import (
    ACCEPTED,
    OF_HOST,
    OPEN,
    REFUSED,
    BucketSizes,
    SentTexts,
    ShardCandidates,
)
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_REQUEST,
    KIND_RESIZE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    ColumnReader,
    RoundRange,
)
from spotsieve.stream.sharding.records.resolver import (
    PoisonRows,
    RoundAnnouncement,
    read_announcement,
    read_fill_progress,
    read_outcome,
    read_poison_rows,
    read_request,
    read_resize,
    read_speculation,
    write_announcement,
    write_fill_progress,
    write_outcome,
    write_poison_rows,
    write_request,
    write_resize,
    write_speculation,
)
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_confirmations,
    read_resolutions,
    write_candidates,
    write_confirmations,
    write_resolutions,
)
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import FillProgress, Resize, ResizeEvent, Share

FIRST = 1000
SETTINGS, SHARE = bytes(range(16)), Share(1, 3)
RANGE = RoundRange(LogPlace(7, 2), LogPlace(9, 0), FIRST, 10, -5)
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
MEETINGS = ShardCandidates(
    np.array([4, 0, 300]),
    np.array([0, 3, 3, 5]),
    np.array([3, 40, 998, 998, 999]),
    np.array([0, 0, KeyKind.BODY, 0, 0], np.uint8),
    np.array([KeyKind.MINIMA, KeyKind.MINIMA, KeyKind.BODY | KeyKind.MINIMA, KeyKind.TABLES, KeyKind.PRINTS], np.uint8),
    np.array([255, 255, 3, 255, 255], np.uint8),
    np.array([ACCEPTED, REFUSED, REFUSED, OPEN, OF_HOST], np.uint8),
    np.array([0.75, np.nan, np.nan, np.nan, np.nan]),
    np.array([10, 20, 0, 70_000, 0]),
    BucketSizes(np.array([1, 2**64 - 1], np.uint64), np.array([256, 4])),
    np.array(list(ENTRIES)),
    ENTRIES,
    None,
    {1: PendingVerdict(3, 0.5, Reason.NEAR, KeyKind.MINIMA), 2: PendingVerdict(NOBODY, np.nan, Reason.NO_MATCH, 0)},
)
CONFIRMS = ShardConfirmations(
    np.array([REFUSED, OPEN, OF_HOST, OPEN], np.uint8),
    np.array(list(ENTRIES)),
    ENTRIES,
    TEXTS,
    np.array([True, False, True]),
)
RESOLVED = RoundOutcome(
    Verdicts(
        np.array([Kind.DUPLICATE, Kind.NOVEL, Kind.UNCHECKED], np.uint8),
        np.array([Reason.OWN_TEXT, Reason.LONGER, Reason.EMPTY], np.uint8),
        np.array([0.25, np.nan, np.nan]),
        (ENTRIES[3], None, None),
        np.array([9, 300, 0]),
        np.array([KeyKind.TITLE, 0, 0], np.uint8),
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


def walks() -> HostResolutions:
    """Verdicts of pages 0 and 2: a copy of an indexed page, and a copy of an earlier page of the round."""
    indexed, within = empty_search(2), empty_search(2)
    indexed.number[0], indexed.score[0], indexed.reason[0], indexed.found_by[0] = 3, 0.5, Reason.OWN_TEXT, KeyKind.TITLE
    indexed.replaced[1] = 998
    within.number[1], within.proof[1], within.found_by[1], within.cut[1] = 0, KeyKind.BODY, KeyKind.BODY, True
    return HostResolutions(
        np.array([0, 2]),
        indexed,
        within,
        np.array([False, False]),
        np.array([2, 0], np.uint8),
        np.array([True, False]),
        np.array([5, 6]),
        {3: ENTRIES[3]},
    )


NAMED = RoundAnnouncement(2**63, (StepMark(-7, 3), StepMark(2, 900)), (0, 2**32, 9), ((7, 2), (8, 0), (300, 4)))
GUESS = np.array([True, False, True])
BROKEN = PoisonRows(12, {0: "Defect: ä", 9: "", 11: "Defect: ä"})


class Kept(NamedTuple):
    """A kind of record. write: encode the body again from the decoded one"""

    kind: int
    body: bytes
    read: Callable[[ColumnReader], Any]
    write: Callable[[Any], bytes]


def kept() -> dict[str, Kept]:
    """One record of each kind that has a body."""
    return {
        "meetings": Kept(
            KIND_CANDIDATES,
            write_candidates(MEETINGS, FIRST),
            lambda columns: read_candidates(columns, FIRST),
            lambda read: write_candidates(read, FIRST),
        ),
        "confirms": Kept(
            KIND_CONFIRMATIONS,
            write_confirmations(CONFIRMS, 2**64 - 2, FIRST),
            lambda columns: read_confirmations(columns, FIRST),
            lambda read: write_confirmations(read, 2**64 - 2, FIRST),
        ),
        "walks": Kept(
            KIND_RESOLUTIONS,
            write_resolutions(walks(), GUESS, FIRST),
            lambda columns: read_resolutions(columns, FIRST),
            lambda read: write_resolutions(read[0], read[1], FIRST),
        ),
        "range": Kept(
            KIND_RANGE,
            write_announcement(NAMED),
            lambda columns: read_announcement(columns, RANGE.start.record),
            write_announcement,
        ),
        "guess": Kept(KIND_SPECULATION, write_speculation(GUESS), read_speculation, write_speculation),
        "broken": Kept(KIND_POISON_ROWS, write_poison_rows(BROKEN), read_poison_rows, write_poison_rows),
        "resize": Kept(KIND_RESIZE, write_resize(Resize(ResizeEvent.SWITCHED, 5, 2**40)), read_resize, write_resize),
        "ask": Kept(KIND_REQUEST, write_request(5), read_request, write_request),
        "filled": Kept(
            KIND_FILL_PROGRESS, write_fill_progress(FillProgress(True, 2**40)), read_fill_progress, write_fill_progress
        ),
        "outcome": Kept(
            KIND_OUTCOME, write_outcome(RESOLVED), lambda columns: read_outcome(columns, FIRST), write_outcome
        ),
    }
