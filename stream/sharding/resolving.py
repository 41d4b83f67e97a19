"""Resolves a round: merges the answers of all shards, walks through it in log order, and numbers what is filed.

What a page is, and which pages are filed under which numbers, is a function of the round and of the answers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.judge import Judged, verdicts_of
from spotsieve.stream.judge.addresses import no_addresses
from spotsieve.stream.judge.filed import FiledOriginals, choose
from spotsieve.stream.judge.isolation import mark_poison
from spotsieve.stream.judge.rules import Limits, final_kinds, nothing_found
from spotsieve.stream.judge.walk import Walked, walk_record
from spotsieve.stream.judge.worth import worth_of_pages
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.entries import SentEntries
from spotsieve.stream.sharding.keys import Laid
from spotsieve.stream.sharding.meetings import Meetings, Sizes, merge
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.signature import compared_pages
from spotsieve.stream.verdict import Verdicts


class Resolved(NamedTuple):
    """The outcome of a round of n pages.

    entry: int64[n], the entry number of a page that is filed, or NOBODY  next_number: of the next page to be filed
    original: int64[n], the entry number of each page's original, or its own where it was filed before, or NOBODY
    replaced: int64[n], the entry number of what `verdicts` says that it replaces, or NOBODY
    taught: uint8[n] (judge/by_host/learning.py), what a page taught its host  is_new: bool[n], its verdict is
    new; both None without a memory of hosts
    """

    verdicts: Verdicts
    entry: NDArray[np.int64]
    next_number: int
    original: NDArray[np.int64]
    replaced: NDArray[np.int64]
    taught: NDArray[np.uint8] | None = None
    is_new: NDArray[np.bool_] | None = None


def resolve(round_: Round, laid: Laid, scheme: Scheme, limits: Limits, meetings: Sequence[Meetings]) -> Resolved:
    """The outcome of a round where the scheme confirms candidates. meetings: of all shards, for this very round"""
    signatures = round_.signatures
    merged = merge(meetings, limits.candidates, final_kinds(limits))
    pages, found = compared_pages(signatures, scheme.compares_features), nothing_found(len(signatures))
    # Addresses make no difference in shards (limits.py), so any place in them will do.
    addresses, place = no_addresses(len(signatures), 1), np.zeros(len(merged.met.number), np.int64)
    worths = worth_of_pages(signatures, limits.worth)
    choose(merged.met, place, merged.answers, worths, addresses, limits, found)
    sent = SentEntries([one.entries for one in meetings])
    filed = FiledOriginals(found, sent.numbers.astype(np.uint64), sent, addresses)
    sizes = known_sizes(laid, [one.sizes for one in meetings])
    walked = walk_record(laid.slots, sizes, filed, scheme, pages, worths, round_.first_number, limits)
    walked = walked._replace(postings=counted_postings(walked, laid, sizes, meetings))
    verdicts = verdicts_of(signatures, scheme, filed, walked)
    return resolved_of(round_, verdicts, filed, walked)


def known_sizes(laid: Laid, sizes: Sequence[Sizes]) -> NDArray[np.int64]:
    """Postings of the buckets that may become full, 0 of all others, which will not: int64[u]."""
    known = np.zeros(len(laid.keys), np.int64)
    for one in sizes:
        place, known_here = _places_of(laid, one.keys)
        known[place] = one.size[known_here]
    return known


def _places_of(laid: Laid, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where keys lie: int64[k], of those that are there: bool[...]. Keys of spared pages alone lie nowhere."""
    place = np.searchsorted(laid.keys, keys)
    if not len(laid.keys):
        return place[:0], np.zeros(len(keys), np.bool_)
    is_there = laid.keys[np.minimum(place, len(laid.keys) - 1)] == keys
    return place[is_there], is_there


def counted_postings(
    walked: Walked, laid: Laid, sizes: NDArray[np.int64], meetings: Sequence[Meetings]
) -> NDArray[np.int64]:
    """How many postings lay in the buckets of each page: int64[n]. sizes: those that the walk knew of"""
    reached = bounds_of(sizes[laid.slots.bucket])
    in_round = walked.postings - sizes_of(reached[laid.slots.bounds])
    total: NDArray[np.int64] = in_round + sum(one.postings for one in meetings)
    return total


def resolved_of(round_: Round, verdicts: Verdicts, filed: FiledOriginals, walked: Walked) -> Resolved:
    """The outcome of a round, but for what was taught. Pages that it spares are unchecked, and it is said why."""
    mark_poison(verdicts, round_.spared)
    found, within = filed.found, walked.found

    def numbered(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(rows == NOBODY, NOBODY, walked.entry[rows])

    original = np.where(found.number != NOBODY, found.number, numbered(within.number))
    longest = np.where(within.replaced != NOBODY, numbered(within.replaced), found.replaced)
    named = np.fromiter((entry is not None for entry in verdicts.replaces), np.bool_, len(verdicts))
    next_number = round_.first_number + int(np.count_nonzero(walked.entry != NOBODY))
    return Resolved(verdicts, walked.entry, next_number, original, np.where(named, longest, NOBODY))


def resolved_alone(round_: Round, judged: Judged) -> Resolved:
    """The outcome of a round that one process has judged."""
    resolved = resolved_of(round_, judged.verdicts, judged.filed, judged.walked)
    return resolved._replace(taught=judged.taught, is_new=judged.is_new)
