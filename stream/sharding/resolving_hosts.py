"""Resolves a round that the shards of its hosts have walked through: checks what each took from a guess, and numbers.

A wrong guess about a page of another shard's hosts puts it into buckets or keeps it out, and with it those for whom a
bucket has no room then. A later page rests on that guess where its search for the original comes to one of them, and
it matters: the key decides, the page may meet more candidates than count, the other one is the original (all keys that
lead to it are told), or, whatever the memories of hosts say, the two could be copies. The search ends at the original.
So a third copy of a story does not rest on the second one. Who is filed rests on no guess beside: a page without an
original fits the bucket of its bytes, which nobody else is in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.jit import kernel
from spotsieve.stream.judge import verdicts_of
from spotsieve.stream.judge.addresses import no_urls
from spotsieve.stream.judge.by_host.pairs import could_be_copy_across
from spotsieve.stream.judge.by_host.texts import estimated_jaccard, texts_of
from spotsieve.stream.judge.filed import IndexedOriginals
from spotsieve.stream.judge.rules import Limits, OriginalSearch, empty_search
from spotsieve.stream.judge.slots import Postings
from spotsieve.stream.judge.walk import Resolution
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.entries import SentEntries
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.keys import lay_out_keys
from spotsieve.stream.sharding.meetings import ShardCandidates
from spotsieve.stream.sharding.resolving import RoundOutcome, known_sizes, make_outcome
from spotsieve.stream.sharding.rounds import Round

_NONE, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)
_NO_POSTINGS = Postings(_NONE, _NONE, _NO_WORDS, _NO_WORDS)
"""The resolver files nothing itself."""


class SpeculationCheck(NamedTuple):
    """What became of a guess. speculation: bool[n], a better one, where a page rests on a wrong one; None where none does

    postings: int64[n], how many more lie in the buckets of each page than its walk counted
    """

    speculation: NDArray[np.bool_] | None
    postings: NDArray[np.int64]


def check_speculation(
    round_: Round,
    scheme: Scheme,
    limits: Limits,
    shard_candidates: Sequence[ShardCandidates],
    walks: Sequence[HostResolutions],
    speculation: NDArray[np.bool_],
) -> SpeculationCheck:
    """Compare what the walks found with the guess under which they resolution: bool[n]. walks: of all shards, in order"""
    pages, signatures = len(speculation), round_.signatures
    shard, is_indexed, search_end = np.zeros(pages, np.int64), np.zeros(pages, np.bool_), np.full(pages, pages)
    most_met: NDArray[np.int64] = np.sum([sizes_of(one.bounds) for one in shard_candidates], axis=0)
    for number, one in enumerate(walks):
        shard[one.rows], is_indexed[one.rows] = number, one.is_indexed
        original = np.where(one.within.number == NOBODY, pages, one.within.number)
        search_end[one.rows] = np.where(one.indexed.number == NOBODY, original, NOBODY)
        most_met[one.rows] += one.postings
    wrong, more = speculation != is_indexed, np.zeros(pages, np.int64)
    if not wrong.any() or scheme.bars is None:
        return SpeculationCheck(None, more)
    laid = lay_out_keys(signatures, scheme)
    slots = laid.slots
    page = np.repeat(np.arange(pages), sizes_of(slots.bounds))
    in_round = np.bincount(slots.bucket, minlength=len(laid.keys))
    np.add.at(most_met, page, in_round[slots.bucket])
    size = known_sizes(laid, [one.sizes for one in shard_candidates])[slots.bucket]
    room = np.minimum(slots.cap, limits.cap) - size
    has_wrong = np.zeros(len(laid.keys), np.bool_)
    has_wrong[slots.bucket[wrong[page]]] = True
    # Nobody is met in a bucket that was full before the round, whoever is filed.
    some = np.flatnonzero((room > 0) & has_wrong[slots.bucket] & (in_round[slots.bucket] > 1))
    some = some[np.argsort(slots.bucket[some], kind="stable")]
    of_slots = slots.bucket[some], page[some], slots.decisive[some], room[some]
    of_pages = shard, speculation, is_indexed, most_met > limits.candidates, search_end
    rests = _check_kernel(*of_slots, *of_pages, texts_of(signatures), scheme.bars, more)
    return SpeculationCheck(is_indexed if rests else None, more)


@kernel
def _check_kernel(bucket, page, decides, room, shard, speculation, is_indexed, crowded, search_end, texts, bars, more):
    # bucket, page: int64[s], of slots, by bucket and page  decides: bool[s]  room: int64[s], how many of the round
    # its bucket takes  shard: int64[n]  speculation, is_indexed, crowded: bool[n]  texts: Texts  bars: HostThresholds
    # search_end: int64[n], where the search of each page ends: its original's row, n without an original, and
    # NOBODY where the original was filed before the round
    # ->  more: int64[n]; returns whether a page rests on a wrong guess
    first = 0
    for at in range(len(bucket)):
        if bucket[at] != bucket[first]:
            first = at
        asking = page[at]
        resolution, right = 0, 0
        for before in range(first, at):
            # A full bucket takes nobody else. Without this line 16,384 pages of one key take .9 s.
            if resolution >= room[at] and right >= room[at]:
                break
            other = page[before]
            same = shard[other] == shard[asking]
            was_met = (is_indexed[other] if same else speculation[other]) and resolution < room[at]
            is_met = is_indexed[other] and right < room[at]
            resolution += was_met
            right += is_met
            if was_met == is_met:
                continue
            if other <= search_end[asking]:
                if same or decides[at] or crowded[asking] or other == search_end[asking]:
                    return True
                jaccard = estimated_jaccard(texts, asking, texts, other)
                if could_be_copy_across(texts, asking, texts, other, bars, jaccard):
                    return True
        more[asking] += right - resolution
    return False


def merge_resolutions(
    round_: Round,
    scheme: Scheme,
    shard_candidates: Sequence[ShardCandidates],
    walks: Sequence[HostResolutions],
    checked: SpeculationCheck,
) -> RoundOutcome:
    """The outcome of a round. walks: of all shards, none of which rests on a wrong guess"""
    signatures = round_.signatures
    pages = len(signatures)
    indexed, within = empty_search(pages), empty_search(pages)
    is_indexed, is_new = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    taught = np.zeros(pages, np.uint8)
    postings = checked.postings.copy()
    for met in shard_candidates:
        postings += met.postings
    for one in walks:
        _put(indexed, one.rows, one.indexed)
        _put(within, one.rows, one.within)
        is_indexed[one.rows], is_new[one.rows], taught[one.rows] = one.is_indexed, one.is_new, one.taught
        postings[one.rows] += one.postings
    entry = np.where(is_indexed, round_.first_number + np.cumsum(is_indexed) - 1, NOBODY)
    resolution = Resolution(within, postings, entry, _NO_POSTINGS, 0)
    sent = SentEntries([*(one.entries for one in shard_candidates), *(one.entries for one in walks)])
    originals = IndexedOriginals(indexed, sent.numbers.astype(np.uint64), sent, no_urls(pages, 1))
    verdicts = verdicts_of(signatures, scheme, originals, resolution)
    resolved = make_outcome(round_, verdicts, originals, resolution)
    return resolved._replace(taught=taught, is_new=is_new)


def _put(found: OriginalSearch, rows: NDArray[np.int64], some: OriginalSearch) -> None:
    """Write what was found of these pages: int64[k]."""
    for name, values in some._asdict().items():
        getattr(found, name)[rows] = values
