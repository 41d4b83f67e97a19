"""Judges pages against a view of the state, each by itself: none is filed, or meets others of its record."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexedPages, StateView
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.by_host.confirming import confirm_all
from spotsieve.stream.judge.filed import confirm_candidates
from spotsieve.stream.judge.met import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.policy import PLAIN, Policy
from spotsieve.stream.judge.rules import reasons_of
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Entry, Signatures, candidate_columns
from spotsieve.stream.verdict import Reason, Verdicts

_NO_ROOM = 0
"""Cap of every bucket: so no page of a record is filed, and none is met by a later one."""
_NEVER_ENDS = np.uint8(0)
"""The kinds of keys that end the search for all matches: none."""


class Match(NamedTuple):
    """A filed page that a page would be accepted as a copy of. reason: as a duplicate of it would have"""

    entry: Entry
    score: float
    reason: Reason


def judge_alone(
    signatures: Signatures, scheme: Scheme, view: StateView, candidate_limit: int, policy: Policy = PLAIN
) -> Verdicts:
    """The verdict that each page would get if it came next, whatever stands beside it. Limits as of `judge`."""
    return judge(signatures, scheme, view, _NO_ROOM, candidate_limit, policy, alone=True)[0]


def find_matches(signatures: Signatures, scheme: Scheme, view: StateView, policy: Policy = PLAIN) -> list[list[Match]]:
    """All filed pages that each page is accepted as a copy of, in the order of filing, and not only the earliest.

    The candidate limit, which bounds what a stream pays for a page, is not applied; full buckets hold no more than they
    do. A page that is filed itself is among its matches.
    """
    keys, slots = slots_of(scheme.probe(signatures))
    met = find_candidates(slots, view.buckets(keys), NEVER, _NEVER_ENDS)
    if not len(met.number):
        return [[] for _ in range(len(signatures))]
    if scheme.bars is not None:
        indexed, place, copies, scores, reasons = confirm_all(signatures, met, view, scheme.bars, policy.rules)
    else:
        indexed, place, copies, scores, reasons = _confirm(signatures, met, view, scheme)
    by_proof = np.flatnonzero(met.proof)
    scores[by_proof] = scheme.score(met.distance[by_proof])
    reasons = reasons_of(met.proof, reasons)
    accepted = np.flatnonzero(copies)
    asking = np.repeat(np.arange(len(signatures)), sizes_of(met.bounds))[accepted]
    found: list[list[Match]] = [[] for _ in range(len(signatures))]
    entries = indexed.entries(place[accepted])
    for page, entry, score, reason in zip(
        asking.tolist(), entries, scores[accepted].tolist(), reasons[accepted].tolist(), strict=True
    ):
        found[page].append(Match(entry, score, Reason(reason)))
    return found


def _confirm(
    signatures: Signatures, met: CandidatePairs, view: StateView, scheme: Scheme
) -> tuple[IndexedPages, NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.uint8]]:
    """What stream.judge.confirming.confirm_all returns, of a scheme that confirms by itself."""
    numbers, place = np.unique(met.number, return_inverse=True)
    indexed = view.indexed(numbers.astype(np.uint64))
    pages = candidate_columns(signatures, scheme.compares_features)
    answers = confirm_candidates(met, place, indexed, scheme, pages)
    pairs = len(place)
    copies, scores, reasons = np.ones(pairs, np.bool_), np.ones(pairs), np.full(pairs, Reason.NEAR, np.uint8)
    candidate = np.flatnonzero(met.proof == 0)
    copies[candidate] = answers.confirmed.accepted[answers.row[candidate]]
    scores[candidate] = answers.confirmed.score[answers.row[candidate]]
    return indexed, place, copies, scores, reasons
