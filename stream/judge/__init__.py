"""Judges one record of the log over a read view of the state: a verdict for each page, and the pages to index.

slots.py       the keys of the pages and the postings under them, laid out for the kernels
candidates.py  the earlier pages that share keys with a page: the one merge of postings
policy.py      the settings beside the scheme: preference between copies, pages fetched again, URL relations
rules.py       the verdict rule
indexed.py     the search for originals among the indexed pages
resolution.py  the sequential resolution: originals within the record, and indexing
verdicts.py    the verdicts of a record, from both searches
by_host/       the same for a scheme that remembers hosts: page by page, since each page may change template text

`judge_record` does this for a record. `judge_alone` judges each page on its own and indexes nothing, and `find_matches`
lists all matches of each page. `judge_isolated` judges a record that holds poison pages: only these are unchecked, and
they are not indexed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, IndexedPages, IndexUpdate, StateView
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import isolate
from spotsieve.stream.base.signature import Entry, Signatures, SignatureStatus, candidate_columns
from spotsieve.stream.base.verdict import Reason, Verdicts
from spotsieve.stream.judge.by_host.confirmation import confirm_all
from spotsieve.stream.judge.by_host.distinctive_text import marks_of
from spotsieve.stream.judge.by_host.resolution import judge_with_hosts
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.indexed import IndexedOriginals, confirm_candidates, find_originals
from spotsieve.stream.judge.policy import (
    KEEP_FIRST,
    PLAIN,
    Policy,
    Preference,
    keeps_ranks,
    policy_of,
    preferences_of_pages,
)
from spotsieve.stream.judge.resolution import Resolution, grown_buckets, resolve_record
from spotsieve.stream.judge.rules import limits_of, reasons_of
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.judge.verdicts import entry_of, verdicts_of
from spotsieve.stream.sign.schemes import Scheme

__all__ = [
    "KEEP_FIRST",
    "PLAIN",
    "Policy",
    "RecordJudgment",
    "entry_of",
    "judge",
    "judge_record",
    "policy_of",
    "verdicts_of",
]


class RecordJudgment(NamedTuple):
    """The judgment of a record of n pages.

    indexed: originals among the indexed pages
    resolution: originals within the record
    is_new: bool[n], pages whose id was not seen before
    flags: uint8[b], the flags of the blocks of indexed pages (by_host/distinctive_text.py)
    is_new and flags are None if the scheme has no host memory.
    """

    verdicts: Verdicts
    index_update: IndexUpdate
    indexed: IndexedOriginals
    resolution: Resolution
    is_new: NDArray[np.bool_] | None = None
    flags: NDArray[np.uint8] | None = None


def judge(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    policy: Policy = PLAIN,
    *,
    alone: bool = False,
) -> tuple[Verdicts, IndexUpdate]:
    """The verdicts of a record's pages, and the update that indexing them makes to the state.

    The parameters are those of judge_record.
    """
    judged = judge_record(signatures, scheme, view, cap, candidate_limit, policy, alone=alone)
    return judged.verdicts, judged.index_update


def judge_record(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    policy: Policy = PLAIN,
    *,
    alone: bool = False,
) -> RecordJudgment:
    """Judge the pages of a record.

    cap: maximum number of postings in a bucket
    candidate_limit: maximum number of candidates per page that are confirmed; 0 selects the limit of the scheme
    alone: judge each page on its own, as if it were new; pass a cap of 0 too, so that no page is indexed. The update
    is then empty.
    """
    limits = limits_of(policy, cap, candidate_limit or scheme.candidate_limit)
    preferences = preferences_of_pages(signatures, limits.preference)
    keys, slots = slots_of(scheme.probe(signatures), signatures.status)
    buckets = view.buckets(keys)
    first_number, learned, is_new, flags = view.entry_count, None, None, None
    if scheme.host_thresholds is not None:
        indexed, resolution, learned, is_new, flags = judge_with_hosts(
            signatures, slots, buckets, view, scheme.host_thresholds, preferences, limits, policy.rules, alone
        )
    else:
        pages = candidate_columns(signatures, scheme.compares_features)
        indexed = find_originals(slots, buckets, view, scheme, signatures, pages, preferences, limits, policy.rules)
        resolution = resolve_record(
            slots, sizes_of(buckets.bounds), indexed, scheme, pages, preferences, first_number, limits
        )
    if alone:
        index_update = empty_update(signatures, first_number)
    else:
        grown, contents = grown_buckets(buckets, resolution.added, resolution.entry)
        index_update = IndexUpdate(
            signatures,
            (resolution.entry != NOBODY).nonzero()[0],
            first_number,
            keys[grown],
            contents,
            resolution.capped,
            scheme.compares_features,
            learned,
            keeps_ranks=keeps_ranks(limits.preference),
        )
    marks = None if flags is None or is_new is None or alone else marks_of(signatures, flags, is_new)
    verdicts = verdicts_of(signatures, scheme, indexed, resolution, marks)
    if limits.preference != Preference.LENGTH:
        verdicts.reason[verdicts.reason == Reason.LONGER] = Reason.BETTER
    return RecordJudgment(verdicts, index_update, indexed, resolution, is_new, flags)


def empty_update(signatures: Signatures, first_number: int) -> IndexUpdate:
    """The index update of a record that indexes no page. It may still carry commit marks."""
    none = np.empty(0, np.int64)
    no_words = np.empty(0, np.uint64)
    return IndexUpdate(signatures, none, first_number, no_words, Buckets(np.zeros(1, np.int64), no_words, no_words), 0)


_NO_ROOM = 0
"""The cap of every bucket under which no page is indexed, so that the pages of a record do not match each other."""
_NEVER_ENDS = np.uint8(0)
"""The kinds of decisive keys that end the search for all matches: none."""


class Match(NamedTuple):
    """An indexed page that a page is accepted as a copy of. reason: the reason that a duplicate of it would get"""

    entry: Entry
    score: float
    reason: Reason


def judge_alone(
    signatures: Signatures, scheme: Scheme, view: StateView, candidate_limit: int, policy: Policy = PLAIN
) -> Verdicts:
    """The verdict that each page would get if it came next, independent of the other pages. Nothing is indexed.

    candidate_limit: maximum number of candidates per page that are confirmed; 0 selects the limit of the scheme
    """
    return judge(signatures, scheme, view, _NO_ROOM, candidate_limit, policy, alone=True)[0]


def find_matches(signatures: Signatures, scheme: Scheme, view: StateView, policy: Policy = PLAIN) -> list[list[Match]]:
    """All indexed pages that each page is accepted as a copy of, in indexing order, not only the earliest.

    The candidate limit bounds the cost of a page in a stream and is not applied here. The matches in a full bucket are
    limited to its postings. If a page is indexed itself, it is among its matches.
    """
    keys, slots = slots_of(scheme.probe(signatures), signatures.status)
    pairs = find_candidates(slots, view.buckets(keys), NEVER, _NEVER_ENDS)
    if not len(pairs.number):
        return [[] for _ in range(len(signatures))]
    if scheme.host_thresholds is not None:
        indexed, place, copies, scores, reasons = confirm_all(
            signatures, pairs, view, scheme.host_thresholds, policy.rules
        )
    else:
        indexed, place, copies, scores, reasons = _confirm(signatures, pairs, view, scheme)
    by_proof = np.flatnonzero(pairs.proof)
    scores[by_proof] = scheme.score(pairs.distance[by_proof])
    reasons = reasons_of(pairs.proof, reasons)
    accepted = np.flatnonzero(copies)
    asking = np.repeat(np.arange(len(signatures)), sizes_of(pairs.bounds))[accepted]
    found: list[list[Match]] = [[] for _ in range(len(signatures))]
    entries = indexed.entries(place[accepted])
    for page, entry, score, reason in zip(
        asking.tolist(), entries, scores[accepted].tolist(), reasons[accepted].tolist(), strict=True
    ):
        found[page].append(Match(entry, score, Reason(reason)))
    return found


def _confirm(
    signatures: Signatures, pairs: CandidatePairs, view: StateView, scheme: Scheme
) -> tuple[IndexedPages, NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.uint8]]:
    """Confirm m candidate pairs by a scheme without host memory. Returns the same tuple as confirm_all:

    the entries that were read, and per pair its place among them (int64[m]), whether it is a match (bool[m]), its score
    (float64[m]) and its reason (uint8[m]).
    """
    numbers, place = np.unique(pairs.number, return_inverse=True)
    indexed = view.indexed(numbers.astype(np.uint64))
    pages = candidate_columns(signatures, scheme.compares_features)
    facts = confirm_candidates(pairs, place, indexed, scheme, pages)
    count = len(place)
    copies, scores, reasons = np.ones(count, np.bool_), np.ones(count), np.full(count, Reason.NEAR, np.uint8)
    candidate = np.flatnonzero(pairs.proof == 0)
    copies[candidate] = facts.confirmed.accepted[facts.row[candidate]]
    scores[candidate] = facts.confirmed.score[facts.row[candidate]]
    return indexed, place, copies, scores, reasons


JudgeRecord = Callable[[Signatures], tuple[Verdicts, IndexUpdate]]


def judge_isolated(judge: JudgeRecord, signatures: Signatures) -> tuple[Verdicts, IndexUpdate, Mapping[int, Exception]]:
    """The result of judge(signatures), and the errors of its poison pages by row; nearly always none.

    A poison page counts as empty: it matches nothing, is unchecked (INTERNAL_ERROR) and is not indexed. It is found
    over the same state, so every reader of the log isolates the same pages. Raises
    spotsieve.stream.base.errors.ENVIRONMENT_ERRORS.
    """
    (verdicts, index_update), poison = isolate(
        lambda rows: judge(as_empty(signatures, rows) if rows else signatures), len(signatures)
    )
    if poison:
        mark_poison(verdicts, poison)
    return verdicts, index_update, poison


def as_empty(signatures: Signatures, rows: Iterable[int]) -> Signatures:
    """The same pages, with these rows marked as empty: they have no keys, match nothing and are not indexed."""
    status = signatures.status.copy()
    status[_array(rows)] = SignatureStatus.EMPTY
    return replace(signatures, status=status)


def mark_poison(verdicts: Verdicts, rows: Iterable[int]) -> None:
    """Set the reason of poison pages, which were judged as empty."""
    verdicts.reason[_array(rows)] = Reason.INTERNAL_ERROR


def _array(rows: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(rows, np.int64)
