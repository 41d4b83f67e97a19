"""Spares pages of a round that break the code, so that it goes on without them, as a record does in one process.

A page that is spared has no keys. What was said of it before, by who did not break on it, is left out: of the rest the
answers say what they would have said without it.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.judge.isolation import as_empty
from spotsieve.stream.sharding.hosts import Walks, taken
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.rounds import Round


def spare(round_: Round, rows: Iterable[int]) -> Round:
    """The round without these pages, and without those that it spares already."""
    every = tuple(sorted({*round_.spared, *rows}))
    return round_._replace(signatures=as_empty(round_.signatures, every), spared=every) if every else round_


def left_out(meetings: Sequence[Meetings], round_: Round) -> list[Meetings]:
    """What shards met, but for the pages that the round spares. An answer may be older than that."""
    return [_without(one, is_spared(round_)) for one in meetings] if round_.spared else list(meetings)


def left_out_of_walks(walks: Sequence[Walks], round_: Round) -> list[Walks]:
    """What shards found, but for the pages that the round spares: enough to try whether the rest breaks the code."""
    return [_walked_without(one, is_spared(round_)) for one in walks] if round_.spared else list(walks)


def is_spared(round_: Round) -> NDArray[np.bool_]:
    """Which pages the round spares: bool[n]."""
    spared = np.zeros(len(round_.signatures), np.bool_)
    spared[list(round_.spared)] = True
    return spared


def _without(meetings: Meetings, spared: NDArray[np.bool_]) -> Meetings:
    page = np.repeat(np.arange(len(spared)), sizes_of(meetings.bounds))
    kept = ~spared[page]
    bounds = bounds_of(np.where(spared, 0, sizes_of(meetings.bounds)))
    of_pairs = ("number", "proof", "kinds", "distance", "said", "score", "length")
    return meetings._replace(
        postings=np.where(spared, 0, meetings.postings),
        bounds=bounds,
        attempts={row: attempt for row, attempt in meetings.attempts.items() if not spared[row]},
        **{name: getattr(meetings, name)[kept] for name in of_pairs},
    )


def _walked_without(walks: Walks, spared: NDArray[np.bool_]) -> Walks:
    kept = ~spared[walks.rows]
    within = taken(walks.within, kept)
    for rows in (within.number, within.replaced):
        rows[spared[np.maximum(rows, 0)]] = NOBODY
    return Walks(
        walks.rows[kept],
        taken(walks.filed, kept),
        within,
        walks.is_filed[kept],
        walks.taught[kept],
        walks.is_new[kept],
        walks.postings[kept],
        walks.entries,
    )
