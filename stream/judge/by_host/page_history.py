"""Recognizes pages that were judged before, by their ids: each gets its first verdict again, and teaches nothing.

1. Indexed pages find themselves under their body digest.
2. The verdict of a page that was not indexed, or that supersedes another, is stored as a pending verdict. It is kept
   until the offset of the page is committed and no crash can bring the page back; log records say which offsets are
   committed.
3. A page that occurs twice in the record gets the verdict of its first place.

So text that hosts learned in between does not change a verdict. Two facts make rule 2 sound. A watermark in the log was
committed before its record was written, and committed offsets grow as long as the group keeps them: a crash brings back
only pages at or above every watermark. Where a partition has no committed offset, a watermark above all offsets first
removes its pending verdicts (service/pages/offsets.py). And pending verdicts are written and removed in the record's
own batch, so they are a function of the log, like the rest of the state. A page that is sent again long after its
commit is judged by the current state.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, PendingVerdict, StateView
from spotsieve.stream.base.arrays import filled
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.verdict import KeyKind, Reason
from spotsieve.stream.judge.by_host.confirmation import HostContext
from spotsieve.stream.judge.candidates import CandidatePairs
from spotsieve.stream.judge.resolution import Resolution
from spotsieve.stream.judge.rules import OriginalSearch

_BODY = np.uint8(KeyKind.BODY)
_EXACT, _LONGER, _RECRAWL, _NO_MATCH = (
    np.uint8(reason) for reason in (Reason.EXACT, Reason.LONGER, Reason.RECRAWL, Reason.NO_MATCH)
)
NEW, SETTLED, AGAIN, INDEXED_ELSEWHERE, ELSEWHERE = (np.uint8(state) for state in range(5))
"""How a page is judged. NEW: by the rule. SETTLED: its verdict was loaded. AGAIN: an earlier page of the record has
the same id. INDEXED_ELSEWHERE, ELSEWHERE: another shard has the memory of its host, and the page is assumed to be
indexed, or not to be indexed (stream/sharding)."""


class PageHistory(NamedTuple):
    """The known verdicts of n pages, by their ids.

    state: uint8[n] (NEW, ...)
    first: int64[n], the earlier place of a page that is AGAIN
    """

    state: NDArray[np.uint8]
    first: NDArray[np.int64]


def load_pending_verdicts(
    page_ids: list[PageId], judged: NDArray[np.bool_], view: StateView
) -> list[PendingVerdict | None]:
    """The pending verdict of each page; None if there is none, or if its original was removed."""
    pending_verdicts = view.pending_verdicts(page_ids)
    if pending_verdicts.count(None) == len(page_ids):
        return pending_verdicts
    found = {page: pending for page, pending in enumerate(pending_verdicts) if pending is not None and judged[page]}
    if not found:
        return [None] * len(page_ids)
    originals = np.array([pending.original for pending in found.values()], np.int64)
    alive = view.page_ids(np.maximum(originals, 0).astype(np.uint64))
    usable = {
        page: pending
        for (page, pending), original in zip(found.items(), alive, strict=True)
        if pending.original == NOBODY or original is not None
    }
    return list(map(usable.get, range(len(page_ids))))


def find_loaded(
    page_ids: Mapping[int, PageId],
    judged: NDArray[np.bool_],
    pairs: CandidatePairs,
    read: HostContext,
    pending_verdicts: list[PendingVerdict | None],
    found: OriginalSearch,
) -> PageHistory:
    """Look up pages by their ids, and write the known verdicts to `found`.

    page_ids: ids by page, at least those of judged pages
    judged: bool[n]
    """
    history = PageHistory(np.zeros(len(judged), np.uint8), filled(len(judged), NOBODY, np.int64))
    under_body = (pairs.proof & _BODY).nonzero()[0]
    if len(under_body) and read.indexed is not None:
        page_of = pairs.bounds.searchsorted(under_body, side="right") - 1
        entries = read.indexed.entries(read.place(pairs.number[under_body]))
        for pair, page, entry in zip(under_body.tolist(), page_of.tolist(), entries, strict=True):
            if judged[page] and (entry.source, entry.partition, entry.offset) == page_ids[page]:
                history.state[page], found.number[page] = SETTLED, pairs.number[pair]
                found.proof[page], found.found_by[page] = pairs.proof[pair], pairs.kinds[pair]
    for page, pending in enumerate(pending_verdicts):
        if pending is None:
            continue
        if pending.reason == Reason.LONGER:
            found.replaced[page] = pending.original
        if history.state[page] != NEW:
            continue
        history.state[page] = SETTLED
        found.recrawl[page] = pending.reason == Reason.RECRAWL
        if pending.reason != Reason.LONGER and pending.original != NOBODY:
            found.number[page], found.score[page] = pending.original, pending.score
            found.reason[page], found.found_by[page] = pending.reason, pending.found_by
            found.proof[page] = KeyKind.BODY if pending.reason == Reason.EXACT else 0
    return history


def find_repeated(page_ids: Mapping[int, PageId], judged: NDArray[np.bool_], history: PageHistory) -> None:
    """Mark pages whose id occurs earlier in the record. page_ids: ids by page, in the order of the record"""
    if len(set(page_ids.values())) == len(page_ids):
        return
    places = dict[PageId, int]()
    for page, page_id in page_ids.items():
        first = places.setdefault(page_id, page)
        if first != page and judged[page] and history.state[page] == NEW:
            history.state[page], history.first[page] = AGAIN, first


def new_pending_verdicts(
    judged: NDArray[np.bool_], history: PageHistory, indexed: OriginalSearch, resolution: Resolution
) -> tuple[NDArray[np.int64], tuple[PendingVerdict, ...]]:
    """The new pending verdicts, and their pages: int64[a].

    A page gets one if it is not indexed, or if it supersedes a page, since its entry does not say which.
    judged: bool[n]
    """
    replaced = *indexed.replaced.tolist(), *resolution.found.replaced.tolist()
    if NOBODY not in resolution.entry.tolist() and replaced.count(NOBODY) == len(replaced):
        return np.empty(0, np.int64), ()
    pages, *columns = _pending_kernel(judged, history.state, (*indexed,), (*resolution.found,), resolution.entry)
    if not len(pages):
        return pages, ()
    return pages, tuple(map(PendingVerdict, *(column.tolist() for column in columns)))


@kernel
def _pending_kernel(judged, state, indexed, within, entry):
    # judged: bool[n]  state: uint8[n] (NEW, ...)  indexed, within: the fields of OriginalSearch  entry: int64[n]
    # -> pages: int64[a], and the fields of PendingVerdict except the page: original: int64[a], score: float64[a],
    # reason and found_by: uint8[a]
    pages, indexed, within = np.empty(len(entry), np.int64), OriginalSearch(*indexed), OriginalSearch(*within)
    originals, scores = np.empty(len(entry), np.int64), np.empty(len(entry))
    reasons, kinds = np.empty(len(entry), np.uint8), np.empty(len(entry), np.uint8)
    count = 0
    for page in range(len(entry)):
        replaces = indexed.replaced[page] != NOBODY or within.replaced[page] != NOBODY
        if not judged[page] or state[page] != NEW or (entry[page] != NOBODY and not replaces):
            continue
        from_state = indexed.number[page] != NOBODY
        found = indexed if from_state else within
        original, exact = found.number[page], found.proof[page] & _BODY
        if not from_state and original != NOBODY:
            original = entry[original]
        replaced = within.replaced[page]
        replaced = indexed.replaced[page] if replaced == NOBODY else entry[replaced]
        score, kind = np.nan, np.uint8(0)
        if original != NOBODY:
            score, reason = (1.0, _EXACT) if exact else (found.score[page], found.reason[page])
            kind = found.found_by[page]
        elif replaced != NOBODY:
            original, score, reason = replaced, 0.0, _LONGER
        else:
            reason = _RECRAWL if indexed.recrawl[page] or within.recrawl[page] else _NO_MATCH
        pages[count], originals[count], scores[count] = page, original, score
        reasons[count], kinds[count] = reason, kind
        count += 1
    return pages[:count], originals[:count], scores[:count], reasons[:count], kinds[:count]


@inlined
def repeat_verdict(
    first, page, indexed, resolution
):  # int64, int64  ->  indexed: OriginalSearch, resolution: Resolution
    """Copy the verdict of the earlier page of the record that has the same id."""
    for found in (indexed, resolution.found):
        found.replaced[page], found.recrawl[page] = found.replaced[first], found.recrawl[first]
    if resolution.entry[first] != NOBODY:
        resolution.found.number[page], resolution.found.proof[page] = first, _BODY
        return
    for found in (indexed, resolution.found):
        found.number[page], found.score[page], found.proof[page] = (
            found.number[first],
            found.score[first],
            found.proof[first],
        )
        found.distance[page], found.found_by[page] = found.distance[first], found.found_by[first]
        found.reason[page] = found.reason[first]
