"""Resolves a round that the shards of its hosts have walked through: checks what each took from a guess, and numbers.

A page rests on the guess of an earlier one, of a host that another shard remembers, where they share a key and it
matters whether that page is filed: the key decides, or may become full; the page may meet more candidates than count;
or, whatever the memories of hosts say, the two could be copies. Pages that have their original among the filed ones
rest on nothing in the round.
"""

# mypy: disable-error-code="no-untyped-def"
# numba compiles the kernels from their argument types; the comment of each says what these are.

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.judge import verdicts_of
from spotsieve.stream.judge.addresses import no_addresses
from spotsieve.stream.judge.by_host.pairs import could_be_copy_across
from spotsieve.stream.judge.by_host.texts import estimated_jaccard, texts_of
from spotsieve.stream.judge.filed import FiledOriginals
from spotsieve.stream.judge.rules import Found, Limits, judge_sources, nothing_found
from spotsieve.stream.judge.slots import Postings
from spotsieve.stream.judge.walk import Walked
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.entries import SentEntries
from spotsieve.stream.sharding.hosts import Walks
from spotsieve.stream.sharding.keys import lay_out
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.resolving import Resolved, known_sizes, places_of, resolved_of
from spotsieve.stream.sharding.rounds import Round

_NONE, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)
_NO_POSTINGS = Postings(_NONE, _NONE, _NO_WORDS, _NO_WORDS)
"""The resolver files nothing itself."""


class Checked(NamedTuple):
    """What became of a guess. guess: bool[n], a better one, where a page rests on a wrong one; None where none does

    postings: int64[n], how many more lie in the buckets of each page than its walk counted
    """

    guess: NDArray[np.bool_] | None
    postings: NDArray[np.int64]


def check_guess(
    round_: Round,
    scheme: Scheme,
    limits: Limits,
    meetings: Sequence[Meetings],
    walks: Sequence[Walks],
    guess: NDArray[np.bool_],
) -> Checked:
    """Compare what the walks found with the guess under which they walked: bool[n]. walks: of all shards, in order"""
    pages, signatures = len(guess), round_.signatures
    shard, is_filed, settled = np.zeros(pages, np.int64), np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    most_met: NDArray[np.int64] = np.sum([sizes_of(one.bounds) for one in meetings], axis=0)
    for number, one in enumerate(walks):
        shard[one.rows], is_filed[one.rows] = number, one.is_filed
        settled[one.rows] = one.filed.number != NOBODY
        most_met[one.rows] += one.postings
    wrong, more = guess != is_filed, np.zeros(pages, np.int64)
    if not wrong.any() or scheme.bars is None:
        return Checked(None, more)
    laid = lay_out(signatures, scheme)
    slots = laid.slots
    page = np.repeat(np.arange(pages), sizes_of(slots.bounds))
    in_round = np.bincount(slots.bucket, minlength=len(laid.keys))
    np.add.at(most_met, page, in_round[slots.bucket])
    near, has_wrong = np.zeros(len(laid.keys), np.bool_), np.zeros(len(laid.keys), np.bool_)
    for sizes in (one.sizes.keys for one in meetings):
        near[places_of(laid, sizes)[0]] = True
    has_wrong[slots.bucket[wrong[page]]] = True
    # Nobody is met in a bucket that was full before the round, whoever is filed.
    size = known_sizes(laid, [one.sizes for one in meetings])
    has_room = size[slots.bucket] < np.minimum(slots.cap, limits.cap)
    some = np.flatnonzero(has_room & has_wrong[slots.bucket] & (in_round[slots.bucket] > 1))
    some = some[np.argsort(slots.bucket[some], kind="stable")]
    bucket = slots.bucket[some]
    decides = near[bucket] | slots.decisive[some]
    change = is_filed.astype(np.int64) - guess
    crowded = most_met > limits.candidates
    texts = texts_of(signatures)
    rests = _check_kernel()(bucket, page[some], decides, shard, change, crowded, settled, texts, scheme.bars, more)
    return Checked(is_filed if rests else None, more)


@cache
def _check_kernel():
    sources = judge_sources()

    @njit(nogil=True, cache=True)
    def check(bucket, page, decides, shard, change, crowded, settled, texts, bars, more):
        # bucket, page: int64[s], of slots, by bucket and page  decides: bool[s]  shard: int64[n]  crowded, settled:
        # bool[n]  change: int64[n], 1 or -1 of a page that was guessed wrong  texts: Texts  bars: Bars
        # ->  more: int64[n]; returns whether a page rests on a wrong guess
        first = 0
        for at in range(len(bucket) if sources >= 0 else 0):
            if bucket[at] != bucket[first]:
                first = at
            asking = page[at]
            for before in range(first, at):
                other = page[before]
                if change[other] == 0 or shard[other] == shard[asking]:
                    continue
                if decides[at] or (not settled[asking] and crowded[asking]):
                    return True
                jaccard = estimated_jaccard(texts, asking, texts, other)
                if not settled[asking] and could_be_copy_across(texts, asking, texts, other, bars, jaccard):
                    return True
                more[asking] += change[other]
        return False

    return check


def resolve_walks(
    round_: Round, scheme: Scheme, meetings: Sequence[Meetings], walks: Sequence[Walks], checked: Checked
) -> Resolved:
    """The outcome of a round. walks: of all shards, none of which rests on a wrong guess"""
    signatures = round_.signatures
    pages = len(signatures)
    filed, within = nothing_found(pages), nothing_found(pages)
    is_filed, is_new = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    taught = np.zeros(pages, np.uint8)
    postings = checked.postings.copy()
    for met in meetings:
        postings += met.postings
    for one in walks:
        _put(filed, one.rows, one.filed)
        _put(within, one.rows, one.within)
        is_filed[one.rows], is_new[one.rows], taught[one.rows] = one.is_filed, one.is_new, one.taught
        postings[one.rows] += one.postings
    entry = np.where(is_filed, round_.first_number + np.cumsum(is_filed) - 1, NOBODY)
    walked = Walked(within, postings, entry, _NO_POSTINGS, 0)
    sent = SentEntries([*(one.entries for one in meetings), *(one.entries for one in walks)])
    originals = FiledOriginals(filed, sent.numbers.astype(np.uint64), sent, no_addresses(pages, 1))
    verdicts = verdicts_of(signatures, scheme, originals, walked)
    resolved = resolved_of(round_, verdicts, originals, walked)
    return resolved._replace(taught=taught, is_new=is_new)


def _put(found: Found, rows: NDArray[np.int64], some: Found) -> None:
    """Write what was found of these pages: int64[k]."""
    for name, values in some._asdict().items():
        getattr(found, name)[rows] = values
