"""Judges pages against a view of the state, each by itself: none is filed, or meets others of its record."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.state.index import StateView
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.filed import confirm_met
from spotsieve.stream.judge.met import NEVER, meet_filed
from spotsieve.stream.judge.rules import KEEP_FIRST, accepts, judge_sources
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Entry, Signatures, compared_pages
from spotsieve.stream.verdict import FoundBy, Reason, Verdicts

_NO_ROOM = 0
"""Cap of every bucket: so no page of a record is filed, and none is met by a later one."""
_NEVER_ENDS = np.uint8(0)
"""The kinds of keys that end the search for all matches: none."""


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
    met = meet_filed(slots, view.buckets(keys), NEVER, _NEVER_ENDS)
    numbers, place = np.unique(met.number, return_inverse=True)
    if not len(numbers):
        return [[] for _ in range(len(signatures))]
    filed = view.filed(numbers.astype(np.uint64))
    pages = compared_pages(signatures, scheme.compares_features)
    answers = confirm_met(met, place, filed, scheme, pages, with_lengths=False)
    accepted = np.flatnonzero(_accept_kernel()(met.proof, answers))
    proof = met.proof[accepted]
    confirmed, by_proof = answers.row[accepted[proof == 0]], scheme.score(met.distance[accepted[proof != 0]])
    score = np.empty(len(accepted))
    score[proof == 0], score[proof != 0] = answers.confirmed.score[confirmed], by_proof
    page = np.repeat(np.arange(len(signatures)), np.diff(met.bounds))[accepted]
    return _by_page(signatures, page, filed.entries(place[accepted]), score, proof)


@cache
def _accept_kernel():  # type: ignore[no-untyped-def]
    sources = judge_sources()

    @njit(nogil=True, cache=True)
    def accept(proof, answers):  # type: ignore[no-untyped-def]
        # proof: uint8[m]  answers: Answers  ->  accepted: bool[m]
        accepted = np.zeros(len(proof), np.bool_)
        for pair in range(len(proof) if sources >= 0 else 0):
            accepted[pair] = accepts(
                proof[pair], np.int64(answers.template[pair]), answers.confirmed, answers.row[pair]
            )
        return accepted

    return accept


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
