"""Excludes poison pages from a round, so that the round completes without them, as a record does in one process.

An excluded page has no keys. Responses that name the page, from shards that did not fail on it, are stripped of it. The
rest of a response is the same as if the page had never been there.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.judge import as_empty
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.hosts import HostResolutions, take_rows
from spotsieve.stream.sharding.rounds import Round


def exclude_pages(round_: Round, rows: Iterable[int]) -> Round:
    """The round without these pages, and without the pages that it excludes already."""
    every = tuple(sorted({*round_.excluded, *rows}))
    return round_._replace(signatures=as_empty(round_.signatures, every), excluded=every) if every else round_


def without_excluded(shard_candidates: Sequence[ShardCandidates], round_: Round) -> list[ShardCandidates]:
    """The candidates of shards, without the excluded pages of the round. A response may be older than the exclusion."""
    return (
        [_without(one, is_excluded(round_)) for one in shard_candidates] if round_.excluded else list(shard_candidates)
    )


def resolutions_without_excluded(resolutions: Sequence[HostResolutions], round_: Round) -> list[HostResolutions]:
    """The resolutions of shards, without the excluded pages of the round.

    This suffices to test whether the other pages raise an error.
    """
    return (
        [_resolutions_without(one, round_, is_excluded(round_)) for one in resolutions]
        if round_.excluded
        else list(resolutions)
    )


def is_excluded(round_: Round) -> NDArray[np.bool_]:
    """Which pages the round excludes: bool[n]."""
    excluded = np.zeros(len(round_.signatures), np.bool_)
    excluded[list(round_.excluded)] = True
    return excluded


def _without(shard_candidates: ShardCandidates, excluded: NDArray[np.bool_]) -> ShardCandidates:
    page = np.repeat(np.arange(len(excluded)), sizes_of(shard_candidates.bounds))
    kept = ~excluded[page]
    bounds = bounds_of(np.where(excluded, 0, sizes_of(shard_candidates.bounds)))
    of_pairs = ("number", "proof", "kinds", "distance", "result", "score", "length")
    return shard_candidates._replace(
        postings=np.where(excluded, 0, shard_candidates.postings),
        bounds=bounds,
        pending_verdicts={
            row: pending for row, pending in shard_candidates.pending_verdicts.items() if not excluded[row]
        },
        **{name: getattr(shard_candidates, name)[kept] for name in of_pairs},
    )


def _resolutions_without(resolutions: HostResolutions, round_: Round, excluded: NDArray[np.bool_]) -> HostResolutions:
    kept, indexed = ~excluded[resolutions.rows], resolutions.rows[resolutions.is_indexed]
    blocks = sizes_of(round_.signatures.blocks_bounds)[indexed]
    within = take_rows(resolutions.within, kept)
    for rows in (within.number, within.replaced):
        rows[excluded[np.maximum(rows, 0)]] = NOBODY
    return HostResolutions(
        resolutions.rows[kept],
        take_rows(resolutions.indexed, kept),
        within,
        resolutions.is_indexed[kept],
        resolutions.is_new[kept],
        resolutions.flags[np.repeat(~excluded[indexed], blocks)],
        resolutions.postings[kept],
        resolutions.entries,
    )
