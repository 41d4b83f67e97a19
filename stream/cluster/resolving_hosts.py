"""Resolves a round that the shards of its hosts have walked through: checks what each took from a guess, and numbers.

A page rests on a guess where it shares a key with an earlier page of a host that another shard remembers: whether that
page is filed decides whether they meet, and what else has room under the key.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.cluster.hosts import Walks
from spotsieve.stream.cluster.meetings import Meetings, all_entries
from spotsieve.stream.cluster.resolving import Resolved, SentEntries, resolved_of
from spotsieve.stream.cluster.rounds import Round
from spotsieve.stream.cluster.shares import lay_out
from spotsieve.stream.judge import verdicts_of
from spotsieve.stream.judge.filed import FiledOriginals
from spotsieve.stream.judge.rules import Found, nothing_found
from spotsieve.stream.judge.slots import Postings
from spotsieve.stream.judge.walk import Walked
from spotsieve.stream.schemes import Scheme

_NONE, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)
_NO_POSTINGS = Postings(_NONE, _NONE, _NO_WORDS, _NO_WORDS)
"""The resolver files nothing itself."""


def better_guess(
    round_: Round, scheme: Scheme, walks: Sequence[Walks], guess: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """What is filed by these walks, where one of them rests on something else: bool[n]; None where none does.

    walks: of all shards, in their order, under this guess: bool[n]
    """
    shard, is_filed = np.zeros(len(guess), np.int64), np.zeros(len(guess), np.bool_)
    for number, one in enumerate(walks):
        shard[one.rows], is_filed[one.rows] = number, one.is_filed
    wrong = np.flatnonzero(guess != is_filed)
    if not len(wrong):
        return None
    # Nearly always no guess is wrong, and nobody needs the keys.
    laid = lay_out(round_.signatures, scheme, len(walks))
    slots = laid.slots
    page = np.repeat(np.arange(len(guess)), np.diff(slots.bounds))
    plain = ~laid.of_host[slots.bucket]
    # Of each bucket the first wrong page, and the first of another shard than that one's.
    is_wrong = np.zeros(len(guess), np.bool_)
    is_wrong[wrong] = True
    at = np.flatnonzero(is_wrong[page] & plain)
    first, shard_of_first = np.full(len(laid.keys), len(guess)), np.full(len(laid.keys), NOBODY)
    np.minimum.at(first, slots.bucket[at], page[at])
    known = first < len(guess)
    shard_of_first[known] = shard[first[known]]
    second, others = np.full(len(laid.keys), len(guess)), at[shard[page[at]] != shard_of_first[slots.bucket[at]]]
    np.minimum.at(second, slots.bucket[others], page[others])
    rests = plain & (
        ((page > first[slots.bucket]) & (shard[page] != shard_of_first[slots.bucket])) | (page > second[slots.bucket])
    )
    return is_filed if rests.any() else None


def resolve_walks(round_: Round, scheme: Scheme, meetings: Sequence[Meetings], walks: Sequence[Walks]) -> Resolved:
    """The outcome of a round. walks: of all shards, none of which rests on a wrong guess"""
    signatures = round_.signatures
    pages = len(signatures)
    filed, within = nothing_found(pages), nothing_found(pages)
    is_filed, is_new = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    taught = np.zeros(pages, np.uint8)
    postings: NDArray[np.int64] = np.sum([one.postings for one in meetings], axis=0)
    entries = all_entries(meetings)
    for one in walks:
        _put(filed, one.rows, one.filed)
        _put(within, one.rows, one.within)
        is_filed[one.rows], is_new[one.rows], taught[one.rows] = one.is_filed, one.is_new, one.taught
        postings[one.rows] += one.postings
        entries |= one.entries
    entry = np.where(is_filed, round_.first_number + np.cumsum(is_filed) - 1, NOBODY)
    walked = Walked(within, postings, entry, _NO_POSTINGS, 0)
    sent = SentEntries(entries)
    originals = FiledOriginals(filed, sent.numbers.astype(np.uint64), sent)
    verdicts = verdicts_of(signatures, scheme, originals, walked)
    resolved = resolved_of(round_, verdicts, originals, walked)
    return resolved._replace(taught=taught, is_new=is_new)


def _put(found: Found, rows: NDArray[np.int64], some: Found) -> None:
    """Write what was found of these pages: int64[k]."""
    for column, values in zip(found, some, strict=True):
        column[rows] = values
