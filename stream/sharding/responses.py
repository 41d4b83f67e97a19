"""Finds a shard's response to a round: candidates of the pages under the shard's own keys.

A response contains nothing that depends on the verdicts of the round, or on what hosts learn in it. A shard lists one
candidate more than the limit allows, so that the merged list shows when the limit is reached. Candidates after the
first one that the shard accepts cannot be originals, and are not sent.

It also looks up the entries that shards send to each other, by number.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, IndexedPages, PendingVerdict, StateView
from spotsieve.stream.base.arrays import bounds_of, distinct, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import (
    Entry,
    Signatures,
    candidate_columns,
    is_judged,
    page_ids_at,
)
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.indexed import confirm_candidates
from spotsieve.stream.judge.policy import PLAIN_PAIR, preferences_of_pages
from spotsieve.stream.judge.rules import Limits, final_kinds, supersedes
from spotsieve.stream.sharding.candidates import ACCEPTED, OF_HOST, REFUSED, BucketSizes, ShardCandidates
from spotsieve.stream.sharding.keys import OwnKeys, ShardReads
from spotsieve.stream.sharding.shares import Share, shards_of_pages
from spotsieve.stream.sign.schemes import Scheme


def find_shard_candidates(
    signatures: Signatures, reads: ShardReads, scheme: Scheme, view: StateView, limits: Limits, share: Share
) -> ShardCandidates:
    """Candidates of the pages of a round under keys that are not mixed with a host.

    view: the live part of the shard's state by the clock of the round  limits: with the scheme's own candidate limit
    """
    listed = limits._replace(candidates=_listed(reads, limits))
    if scheme.host_thresholds is None:
        return _confirmed_response(signatures, reads.own, view, scheme, listed)
    return _candidate_response(reads.of_host(False), listed, _own_pending_verdicts(signatures, view, share))


def find_host_candidates(reads: ShardReads, limits: Limits) -> ShardCandidates:
    """Candidates of the pages of the shard's hosts under keys that are mixed with their hosts, for this shard only.

    The shard holds the entries of all pages of its hosts, so no other shard has to confirm them.
    """
    pairs = _candidate_response(reads.of_host(True), limits._replace(candidates=limits.candidates + 1), {})
    return pairs._replace(result=np.full(len(pairs.number), OF_HOST, np.uint8))


def _confirmed_response(
    signatures: Signatures, own: OwnKeys, view: StateView, scheme: Scheme, limits: Limits
) -> ShardCandidates:
    """The response of a scheme that confirms candidates. limits: with the number of listed candidates"""
    buckets = own.buckets
    pairs = find_candidates(own.slots, buckets, limits.candidates, final_kinds(limits))
    pages = candidate_columns(signatures, scheme.compares_features)
    numbers, place = np.unique(pairs.number, return_inverse=True)
    count = len(place)
    is_sent, accepted = np.zeros(count, np.bool_), pairs.proof != 0
    score, length = np.full(count, np.nan), np.zeros(count, np.int64)
    indexed: IndexedPages | None = None
    if count:
        indexed = view.indexed(numbers.astype(np.uint64))
        facts = confirm_candidates(pairs, place, indexed, scheme, pages, limits)
        candidate = np.flatnonzero(pairs.proof == 0)
        accepted[candidate] = facts.confirmed.accepted[facts.row[candidate]]
        score[candidate] = facts.confirmed.score[facts.row[candidate]]
        length[:] = facts.preference
        _keep_kernel(
            pairs, accepted, facts.preference, preferences_of_pages(signatures, limits.preference).own, limits, is_sent
        )
    result = np.where(accepted & (pairs.proof == 0), np.uint8(ACCEPTED), np.uint8(REFUSED))
    sent = distinct(place[is_sent & accepted])
    return ShardCandidates(
        _postings(own, buckets),
        *_sent_pairs(pairs, is_sent, result, score, length),
        _near_sizes(own, buckets, limits.cap),
        numbers[sent],
        _by_number(numbers[sent], indexed.entries(sent)) if indexed is not None else {},
        None,
        {},
    )


def _candidate_response(
    own: OwnKeys, limits: Limits, pending_verdicts: Mapping[int, PendingVerdict]
) -> ShardCandidates:
    """The response where the shard that holds an entry confirms it (confirmation.py).

    limits: with the number of listed candidates  pending_verdicts: by page
    """
    buckets = own.buckets
    pairs = find_candidates(own.slots, buckets, limits.candidates, final_kinds(limits))
    count = len(pairs.number)
    unknown = np.zeros(count, np.uint8), np.full(count, np.nan), np.zeros(count, np.int64)
    return ShardCandidates(
        _postings(own, buckets),
        *_sent_pairs(pairs, np.ones(count, np.bool_), *unknown),
        _near_sizes(own, buckets, limits.cap),
        np.empty(0, np.int64),
        {},
        None,
        pending_verdicts,
    )


def _listed(reads: ShardReads, limits: Limits) -> int:
    """Number of candidates that a shard lists: one more than the limit.

    It is unlimited where a candidate may be decisive in another shard.
    """
    mixed = not reads.all_decide and reads.decided & ~final_kinds(limits)
    return NEVER if mixed else limits.candidates + 1


def _own_pending_verdicts(signatures: Signatures, view: StateView, share: Share) -> dict[int, PendingVerdict]:
    """The pending verdicts of pages whose ids belong to the shard, by page.

    The original of some of them may be gone.
    """
    own = shards_of_pages(signatures, share.shards) == share.number
    rows = np.flatnonzero(own & is_judged(signatures.status))
    found = view.pending_verdicts(page_ids_at(signatures, rows))
    return {row: pending for row, pending in zip(rows.tolist(), found, strict=True) if pending is not None}


def _by_number(numbers: NDArray[np.int64], entries: Sequence[Entry]) -> dict[int, Entry]:
    return dict(zip(numbers.tolist(), entries, strict=True))


def _postings(own: OwnKeys, buckets: Buckets) -> NDArray[np.int64]:
    """Number of postings in the buckets of each page: int64[n]."""
    reached = bounds_of(sizes_of(buckets.bounds)[own.slots.bucket])
    return sizes_of(reached[own.slots.bounds])


def _near_sizes(own: OwnKeys, buckets: Buckets, cap: int) -> BucketSizes:
    """The sizes of the buckets that would be full if all pages of the round were indexed."""
    sizes, slots = sizes_of(buckets.bounds), own.slots
    least = np.full(len(sizes), cap, np.int64)
    np.minimum.at(least, slots.bucket, slots.cap)
    near = sizes + np.bincount(slots.bucket, minlength=len(sizes)) > least
    return BucketSizes(own.keys[near], sizes[near])


def _sent_pairs(
    pairs: CandidatePairs,
    is_sent: NDArray[np.bool_],
    result: NDArray[np.uint8],
    score: NDArray[np.float64],
    length: NDArray[np.int64],
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.uint8],
    NDArray[np.uint8],
    NDArray[np.uint8],
    NDArray[np.float64],
    NDArray[np.int64],
]:
    """The pairs to send, as the columns of ShardCandidates from `bounds` on. is_sent: bool[m]"""
    before = bounds_of(is_sent)
    return (
        before[pairs.bounds],
        pairs.number[is_sent],
        pairs.proof[is_sent],
        pairs.kinds[is_sent],
        pairs.distance[is_sent],
        result[is_sent],
        np.where(result == ACCEPTED, score, np.nan)[is_sent],
        length[is_sent],
    )


@kernel
def _keep_kernel(pairs, accepted, entry_preferences, preference, limits, is_sent):
    # pairs: CandidatePairs of m pairs  accepted: bool[m]  entry_preferences: float64[m], of the entries
    # preference: float64[n], of the pages  limits: Limits  ->  is_sent: bool[m]
    for page in range(len(preference)):
        settled = False
        for at in range(pairs.bounds[page], pairs.bounds[page + 1]):
            proof = pairs.proof[at]
            if settled and not proof:
                continue
            is_sent[at] = True
            if accepted[at] and not supersedes(preference[page], entry_preferences[at], proof, PLAIN_PAIR, limits):
                settled = True
                if proof:
                    break


class Entries(Mapping[int, Entry]):
    """A mapping of entries by number with a fast lookup of many entries. numbers: int64[e], ascending"""

    numbers: NDArray[np.int64]

    @abstractmethod
    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """The entries with these numbers: int64[a]. Raises KeyError if one is missing."""


def _numbers_of(sent: Mapping[int, Entry]) -> NDArray[np.int64]:
    return sent.numbers if isinstance(sent, Entries) else np.fromiter(sent, np.int64, len(sent))


def _entries_of(sent: Mapping[int, Entry], numbers: NDArray[np.int64]) -> list[Entry]:
    """The entries with these numbers: int64[a]. Raises KeyError if one is missing."""
    return sent.entries(numbers) if isinstance(sent, Entries) else [sent[number] for number in numbers.tolist()]


class SentEntries:
    """The entries in the records of all shards. numbers: int64[e], ascending"""

    def __init__(self, sent: Sequence[Mapping[int, Entry]]) -> None:
        """sent: the entries of each shard, by number"""
        self._sent = sent
        every = np.concatenate([np.empty(0, np.int64), *map(_numbers_of, sent)])
        self.numbers, first = np.unique(every, return_index=True)
        self._part = np.repeat(np.arange(len(sent)), [len(one) for one in sent])[first]

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """The entries at these places, for verdicts. places: int64[a]"""
        numbers, part = self.numbers[places], self._part[places]
        found = np.empty(len(places), np.object_)
        for number, one in enumerate(self._sent):
            rows = np.flatnonzero(part == number)
            if len(rows):
                found[rows] = _entries_of(one, numbers[rows])
        return list(found)
