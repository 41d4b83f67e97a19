"""Derives the verdicts of a record from its originals among the indexed pages and within the record."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import filled
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import FINGERPRINTED, Entry, Signatures, SignatureStatus
from spotsieve.stream.base.verdict import Kind, Reason, TemplateMarks, Verdicts
from spotsieve.stream.judge.indexed import IndexedOriginals
from spotsieve.stream.judge.resolution import Resolution
from spotsieve.stream.judge.rules import OriginalSearch, reason_of
from spotsieve.stream.sign.schemes import Scheme

_NOVEL, _DUPLICATE, _UNCHECKED = (np.uint8(kind) for kind in (Kind.NOVEL, Kind.DUPLICATE, Kind.UNCHECKED))
_NO_MATCH, _FIRST_ATTEMPT, _LONGER, _RECRAWL = (
    np.uint8(reason) for reason in (Reason.NO_MATCH, Reason.FIRST_ATTEMPT, Reason.LONGER, Reason.RECRAWL)
)
_REASON_OF_STATUS = np.zeros(max(SignatureStatus) + 1, np.uint8)
"""The reason of a page by its SignatureStatus: a page that could not be judged has the reason of the same name."""
_REASON_OF_STATUS[SignatureStatus.FINGERPRINTED] = Reason.NO_MATCH
_REASON_OF_STATUS[SignatureStatus.PARTIAL] = Reason.INCOMPLETE
for _status in SignatureStatus:
    if _status.name in Reason.__members__:
        _REASON_OF_STATUS[_status] = Reason[_status.name]


def verdicts_of(
    signatures: Signatures,
    scheme: Scheme,
    indexed: IndexedOriginals,
    resolution: Resolution,
    marks: TemplateMarks | None = None,
) -> Verdicts:
    """The verdict of each page, from the originals among the indexed pages and within the record.

    marks: the template text in the pages; None if it is not known
    """
    pages = len(signatures)
    originals: list[Entry | None] = [None] * pages
    itself = np.zeros(pages, np.bool_)
    for page, entry in _accepted(signatures, indexed, resolution):
        if _is_entry(signatures, page, entry):
            itself[page] = True
        else:
            originals[page] = entry
    # A kernel would take 1 us for each array that it returns.
    kind, reason, score = np.empty(pages, np.uint8), np.empty(pages, np.uint8), filled(pages, np.nan, np.float64)
    found_by, distance = np.zeros(pages, np.uint8), np.zeros(pages, np.uint8)
    by_proof, replaces_one = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    any_of_both = _verdict_kernel(
        *(signatures.status, _REASON_OF_STATUS, itself, (*indexed.found,), (*resolution.found,)),
        *(kind, reason, score, found_by, distance, by_proof, replaces_one),
    )
    replaces: tuple[Entry | None, ...] = (None,) * pages
    if any_of_both:
        score[by_proof] = scheme.score(distance[by_proof])
        replaces = _superseded(signatures, indexed, resolution, replaces_one)
    return Verdicts(
        kind, reason, score, tuple(originals), resolution.postings, found_by, resolution.found.cut, replaces, marks
    )


@kernel
def _verdict_kernel(status, of_status, itself, indexed, within, *columns):
    # status: uint8[n]  of_status: uint8[...], reasons by SignatureStatus  itself: bool[n], the original of the page is
    # the page itself  indexed, within: the fields of OriginalSearch
    # -> columns: kind, reason: uint8[n]  score: float64[n], nan if no pair was confirmed  found_by, distance: uint8[n]
    # by_proof: bool[n], the score is to be computed from the distance  replaces: bool[n], the page supersedes another
    # one; returns whether by_proof or replaces is true for any page
    indexed, within, any_of_both = OriginalSearch(*indexed), OriginalSearch(*within), False
    kind, reason, score, found_by, distance, by_proof, replaces = columns
    for page in range(len(status)):
        judged = status[page] == FINGERPRINTED
        kind[page], reason[page] = _NOVEL if judged else _UNCHECKED, of_status[status[page]]
        found = indexed if indexed.number[page] != NOBODY else within
        if found.number[page] != NOBODY and not itself[page]:
            kind[page], reason[page] = _DUPLICATE, reason_of(found.proof[page], found.reason[page])
            by_proof[page], distance[page] = found.proof[page] != 0, found.distance[page]
            score[page], found_by[page] = found.score[page], found.found_by[page]
            any_of_both |= by_proof[page]
        elif found.number[page] != NOBODY and judged:
            reason[page] = _FIRST_ATTEMPT
        if kind[page] != _NOVEL:
            continue
        replaces[page] = indexed.replaced[page] != NOBODY or within.replaced[page] != NOBODY
        any_of_both |= replaces[page]
        if reason[page] == _NO_MATCH and replaces[page]:
            reason[page] = _LONGER
        elif reason[page] == _NO_MATCH and (indexed.recrawl[page] or within.recrawl[page]):
            reason[page] = _RECRAWL
    return any_of_both


def _accepted(signatures: Signatures, indexed: IndexedOriginals, resolution: Resolution) -> list[tuple[int, Entry]]:
    """The pages that have an original, each with its original: an indexed page or a page of this record."""
    found, from_state = list[tuple[int, Entry]](), (indexed.found.number != NOBODY).nonzero()[0]
    if len(from_state):
        found.extend(zip(from_state.tolist(), indexed.entries(indexed.found.number[from_state]), strict=True))
    for page, number in enumerate(resolution.found.number.tolist()):
        if number != NOBODY:
            found.append((page, entry_of(signatures, number)))
    return found


def _is_entry(signatures: Signatures, page: int, entry: Entry) -> bool:
    """Whether an entry is the page itself, by its page id."""
    return (
        signatures.offset.item(page) == entry.offset
        and signatures.partition.item(page) == entry.partition
        and signatures.sources[signatures.source.item(page)] == entry.source
    )


def _superseded(
    signatures: Signatures, indexed: IndexedOriginals, resolution: Resolution, replaces: NDArray[np.bool_]
) -> tuple[Entry | None, ...]:
    """The page that each page supersedes, or None. replaces: bool[n]"""
    found: list[Entry | None] = [None] * len(signatures)
    within = resolution.found.replaced
    for page in np.flatnonzero(replaces & (within != NOBODY)).tolist():
        found[page] = entry_of(signatures, within.item(page))
    pages = np.flatnonzero(replaces & (within == NOBODY))
    for page, entry in zip(pages.tolist(), indexed.entries(indexed.found.replaced[pages]), strict=True):
        found[page] = entry
    return tuple(found)


def entry_of(signatures: Signatures, index: int) -> Entry:
    """The entry of a page of a record."""
    return Entry(
        signatures.sources[signatures.source[index]],
        int(signatures.partition[index]),
        int(signatures.offset[index]),
        int(signatures.event_time_ms[index]),
        signatures.urls[index].decode("utf-8", "replace"),
        signatures.labels[index].decode("utf-8", "replace"),
    )
