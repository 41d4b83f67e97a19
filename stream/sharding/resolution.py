"""Resolves a round: merges the responses of all shards, judges the pages in log order, and numbers the indexed pages.

The verdicts, the indexed pages and their entry numbers are a function of the round and the responses.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.signature import Signatures, candidate_columns
from spotsieve.stream.base.verdict import TemplateMarks, Verdicts
from spotsieve.stream.judge import RecordJudgment, mark_poison, verdicts_of
from spotsieve.stream.judge.by_host.distinctive_text import marks_of
from spotsieve.stream.judge.indexed import IndexedOriginals, choose_originals
from spotsieve.stream.judge.policy import no_urls, preferences_of_pages
from spotsieve.stream.judge.resolution import Resolution, resolve_record
from spotsieve.stream.judge.rules import Limits, empty_search, final_kinds
from spotsieve.stream.sharding.candidates import (
    BucketSizes,
    SentFlags,
    ShardCandidates,
    flags_of_pages,
    merge_candidates,
    put_flags,
)
from spotsieve.stream.sharding.keys import RoundKeys
from spotsieve.stream.sharding.responses import SentEntries
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sign.schemes import Scheme


class RoundOutcome(NamedTuple):
    """The outcome of a round of n pages.

    entry: int64[n], the entry number of an indexed page, or NOBODY
    next_number: the number of the next page to be indexed
    original: int64[n], the entry number of each page's original, its own if it was indexed before, or NOBODY
    replaced: int64[n], the entry number of the page that it replaces according to `verdicts`, or NOBODY
    flags: uint8[c], the flags of the blocks of indexed pages (SentFlags)
    is_new: bool[n], whether its verdict is new; new pages teach their hosts
    flags and is_new are None without a memory of hosts.
    """

    verdicts: Verdicts
    entry: NDArray[np.int64]
    next_number: int
    original: NDArray[np.int64]
    replaced: NDArray[np.int64]
    flags: NDArray[np.uint8] | None = None
    is_new: NDArray[np.bool_] | None = None


def resolve(
    round_: Round, laid: RoundKeys, scheme: Scheme, limits: Limits, shard_candidates: Sequence[ShardCandidates]
) -> RoundOutcome:
    """The outcome of a round, for schemes that confirm candidates.

    laid: all keys of the round  shard_candidates: of all shards, for this round
    """
    signatures = round_.signatures
    merged = merge_candidates(shard_candidates, limits.candidates, final_kinds(limits))
    pages, found = candidate_columns(signatures, scheme.compares_features), empty_search(len(signatures))
    # Shards reject settings under which URLs decide (rounds.py), so any place among the URLs will do.
    urls, place = no_urls(len(signatures), 1), np.zeros(len(merged.pairs.number), np.int64)
    preferences = preferences_of_pages(signatures, limits.preference)
    choose_originals(merged.pairs, place, merged.facts, preferences, urls, limits, found)
    sent = SentEntries([one.entries for one in shard_candidates])
    indexed = IndexedOriginals(found, sent.numbers.astype(np.uint64), sent, urls)
    sizes = bucket_sizes(laid, [one.sizes for one in shard_candidates])
    resolution = resolve_record(laid.slots, sizes, indexed, scheme, pages, preferences, round_.first_number, limits)
    resolution = resolution._replace(postings=counted_postings(resolution, laid, sizes, shard_candidates))
    verdicts = verdicts_of(signatures, scheme, indexed, resolution)
    return make_outcome(round_, verdicts, indexed, resolution)


def bucket_sizes(laid: RoundKeys, reported: Sequence[BucketSizes]) -> NDArray[np.int64]:
    """Number of postings in each bucket that may become full; 0 for all other buckets: int64[u]."""
    sizes = np.zeros(len(laid.keys), np.int64)
    for one in reported:
        place, known_here = _places_of(laid, one.keys)
        sizes[place] = one.size[known_here]
    return sizes


def _places_of(laid: RoundKeys, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of these keys: int64[k], and which of the keys are there: bool[...].

    Keys that only excluded pages have are missing.
    """
    place = np.searchsorted(laid.keys, keys)
    if not len(laid.keys):
        return place[:0], np.zeros(len(keys), np.bool_)
    is_there = laid.keys[np.minimum(place, len(laid.keys) - 1)] == keys
    return place[is_there], is_there


def counted_postings(
    resolution: Resolution, laid: RoundKeys, sizes: NDArray[np.int64], shard_candidates: Sequence[ShardCandidates]
) -> NDArray[np.int64]:
    """Number of postings in the buckets of each page: int64[n]. sizes: the sizes that the resolution knew"""
    reached = bounds_of(sizes[laid.slots.bucket])
    in_round = resolution.postings - sizes_of(reached[laid.slots.bounds])
    total: NDArray[np.int64] = in_round + sum(one.postings for one in shard_candidates)
    return total


def make_outcome(round_: Round, verdicts: Verdicts, indexed: IndexedOriginals, resolution: Resolution) -> RoundOutcome:
    """The outcome of a round, without the updates of host memories. Excluded pages are unchecked, with a reason."""
    mark_poison(verdicts, round_.excluded)
    found, within = indexed.found, resolution.found

    def numbered(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(rows == NOBODY, NOBODY, resolution.entry[rows])

    original = np.where(found.number != NOBODY, found.number, numbered(within.number))
    longest = np.where(within.replaced != NOBODY, numbered(within.replaced), found.replaced)
    originals = np.fromiter((entry is not None for entry in verdicts.replaces), np.bool_, len(verdicts))
    next_number = round_.first_number + int(np.count_nonzero(resolution.entry != NOBODY))
    return RoundOutcome(verdicts, resolution.entry, next_number, original, np.where(originals, longest, NOBODY))


def marks_of_round(signatures: Signatures, resolved: RoundOutcome) -> TemplateMarks | None:
    """The template text in the new pages of a round that were indexed; None without a memory of hosts.

    signatures: of the pages of the round
    """
    if resolved.flags is None or resolved.is_new is None:
        return None
    is_indexed = resolved.entry != NOBODY
    flags = np.zeros(len(signatures.blocks), np.uint8)
    put_flags(signatures, SentFlags(np.flatnonzero(is_indexed), resolved.flags), flags, is_indexed.copy())
    return marks_of(signatures, flags, is_indexed & resolved.is_new)


def outcome_of_one_process(round_: Round, judged: RecordJudgment) -> RoundOutcome:
    """The outcome of a round that one process has judged."""
    resolved = make_outcome(round_, judged.verdicts, judged.indexed, judged.resolution)
    if judged.flags is None:
        return resolved
    flags = flags_of_pages(round_.signatures, judged.flags, resolved.entry != NOBODY)
    return resolved._replace(flags=flags.flags, is_new=judged.is_new)
