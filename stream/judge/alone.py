"""Owns judging pages against a view of the state, each by itself: none is filed, or meets others of its record."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import StateView
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.filed import KEEP_FIRST, NEVER, slots_of
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Entry, Signatures, compared_pages
from spotsieve.stream.verdict import FoundBy, Reason, Verdicts

_NO_ROOM = 0
"""Cap of every bucket: so no page of a record is filed, and none is met by a later one."""


class Match(NamedTuple):
    """A filed page that a page would be accepted as a copy of. reason: NEAR, SAME_TEXT or EXACT"""

    entry: Entry
    score: float
    reason: Reason


def judge_alone(
    signatures: Signatures, scheme: Scheme, view: StateView, candidate_limit: int, longer_by: float = KEEP_FIRST
) -> Verdicts:
    """The verdict that each page would get if it came next, whatever stands beside it. Limits as of `judge`."""
    return judge(signatures, scheme, view, _NO_ROOM, candidate_limit, longer_by)[0]


def find_matches(signatures: Signatures, scheme: Scheme, view: StateView) -> list[list[Match]]:
    """All filed pages that each page is accepted as a copy of, in the order of filing, and not only the earliest.

    The candidate limit, which bounds what a stream pays for a page, is not applied; full buckets hold no more than they
    do. A page that is filed itself is among its matches.
    """
    keys, slots = slots_of(scheme.probe(signatures))
    buckets = view.buckets(keys)
    # one row for each posting that shares a key with a page
    page = np.repeat(np.arange(len(signatures)), np.diff(slots.bounds))
    sizes = np.diff(buckets.bounds)[slots.bucket]
    slot = np.repeat(np.arange(len(slots.bucket)), sizes)
    posting = np.arange(len(slot)) + np.repeat(buckets.bounds[slots.bucket] - (np.cumsum(sizes) - sizes), sizes)
    distance = np.bitwise_count(buckets.inlines[posting] ^ slots.inline[slot])
    passing = distance <= slots.limit[slot]
    slot, posting, distance = slot[passing], posting[passing], distance[passing]
    # one for each pair of a page and a filed one
    numbers, place = np.unique(buckets.numbers[posting], return_inverse=True)
    pairs, pair = np.unique(page[slot] * np.int64(len(numbers)) + place, return_inverse=True)
    if not len(pairs):
        return [[] for _ in range(len(signatures))]
    asking, met = pairs // len(numbers), pairs % len(numbers)
    proof, near = np.zeros(len(pairs), np.uint8), np.full(len(pairs), NEVER)
    decisive = slots.decisive[slot]
    np.bitwise_or.at(proof, pair[decisive], slots.kind[slot][decisive])
    np.minimum.at(near, pair[decisive], distance[decisive])
    filed = view.filed(numbers)
    score, accepted = np.zeros(len(pairs)), proof != 0
    score[accepted] = scheme.score(near[accepted].astype(np.uint8))
    others = np.flatnonzero(~accepted)
    if len(others):
        candidates = filed.compared(scheme.compares_features).take(met[others])
        asked = compared_pages(signatures, scheme.compares_features).take(asking[others])
        confirmed = scheme.confirm(asked, candidates)
        accepted[others] = candidates.template <= confirmed.most_template
        score[others] = confirmed.score
    return _by_page(signatures, asking[accepted], filed.entries(met[accepted]), score[accepted], proof[accepted])


def _by_page(
    signatures: Signatures,
    asking: NDArray[np.int64],
    entries: list[Entry],
    score: NDArray[np.float64],
    proof: NDArray[np.uint8],
) -> list[list[Match]]:
    found: list[list[Match]] = [[] for _ in range(len(signatures))]
    for page, entry, value, kinds in zip(asking.tolist(), entries, score.tolist(), proof.tolist(), strict=True):
        reason = Reason.EXACT if kinds & FoundBy.BODY else Reason.SAME_TEXT if kinds & FoundBy.TEXT else Reason.NEAR
        found[page].append(Match(entry, value, reason))
    return found
