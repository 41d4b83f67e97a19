"""Synthetic index updates of a scheme with host memories, for tests of the stores."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, CommitMark, HostMemories, HostUpdate, IndexUpdate, PendingVerdict
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import OwnText, Signatures
from tests.reference.signatures import make_signatures

HostRow = tuple[int, int, int, int, Sequence[int], Sequence[int]]
NO_KEYS = np.empty(0, np.uint64)
NO_BUCKETS = Buckets(np.zeros(1, np.int64), NO_KEYS, NO_KEYS)


def ragged(rows: Sequence[Sequence[int]], dtype: type) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Rows of any length as a column and its bounds."""
    return np.array([word for row in rows for word in row], dtype), np.cumsum([0, *map(len, rows)])


def own_text(rows: Sequence[tuple[int, int, int, Sequence[int], Sequence[int]]]) -> OwnText:
    """Own texts from (site, share, listed, prints, titles) of each page."""
    return OwnText(
        np.array([row[0] for row in rows], np.uint16),
        np.array([row[1] for row in rows], np.uint8),
        np.array([row[2] for row in rows], np.uint16),
        *ragged([row[3] for row in rows], np.uint32),  # type: ignore[arg-type]  # the dtype is the given one
        *ragged([row[4] for row in rows], np.uint16),  # type: ignore[arg-type]
    )


def memories_of(rows: Sequence[HostRow]) -> HostMemories:
    """Memories from (host, pages, last, first, items, words) of each host, ascending."""
    return HostMemories(
        np.array([row[0] for row in rows], np.uint64),
        np.array([row[1] for row in rows], np.uint32),
        np.array([row[2] for row in rows], np.uint64),
        np.array([row[3] for row in rows], np.int64),
        *ragged([row[4] for row in rows], np.uint32),  # type: ignore[arg-type]  # the dtype is the given one
        *ragged([row[5] for row in rows], np.uint32),  # type: ignore[arg-type]
    )


def some_own_text(count: int, random: np.random.Generator) -> OwnText:
    """Own texts of any size, also empty ones."""
    return own_text(
        [
            (
                int(random.integers(2**16)),
                int(random.integers(2**8)),
                int(random.integers(2**16)),
                [identity << 5 | int(random.integers(32)) for identity in some_numbers(2**27, 44, random)],
                some_numbers(2**16, 10, random),
            )
            for _ in range(count)
        ]
    )


def some_memories(hosts: Sequence[int], last: int, random: np.random.Generator) -> HostMemories:
    """A memory of each host: none, of one indexed page, or of several pages."""
    rows = list[HostRow]()
    for host in hosts:
        kind = random.integers(4)
        if kind == 0:
            rows.append((host, 0, last, NOBODY, [], []))
        elif kind == 1:
            rows.append((host, 1, last, last, [], []))
        else:
            items = [identity << 4 | int(random.integers(1, 16)) for identity in some_numbers(2**27, 60, random)]
            words = [word << 8 | int(random.integers(1, 256)) for word in some_numbers(2**16, 20, random)]
            rows.append((host, int(random.integers(1, 2**32)), last, NOBODY, items, words))
    return memories_of(rows)


def some_numbers(beyond: int, most: int, random: np.random.Generator) -> list[int]:
    """At most `most` different numbers, ascending."""
    return sorted({int(number) for number in random.integers(0, beyond, random.integers(0, most + 1))})


def index_update_of(
    first_number: int,
    indexed: int,
    memories: HostMemories | None = None,
    pending_verdicts: Sequence[tuple[PageId, PendingVerdict]] = (),
    committed: Sequence[CommitMark] = (),
    seed: int = 0,
    signatures: Signatures | None = None,
) -> IndexUpdate:
    """An index update of `indexed` pages, with learned memories and pending verdicts."""
    signatures = signatures or make_signatures(indexed, seed, first_number)
    learned = HostUpdate(
        some_own_text(indexed, np.random.default_rng(seed)),
        memories_of([]) if memories is None else memories,
        tuple(page_id for page_id, _ in pending_verdicts),
        tuple(attempt for _, attempt in pending_verdicts),
    )
    pages = np.arange(indexed)
    return IndexUpdate(
        signatures, pages, first_number, NO_KEYS, NO_BUCKETS, 0, learned=learned, committed=tuple(committed)
    )


def remember_more(state: State) -> None:
    """Put memories of every kind and pending verdicts of every kind into a state, at its position in the log."""
    random, count = np.random.default_rng(7), state.entry_count
    memories = some_memories([host << 50 for host in range(1, 60)], count, random)
    tried = [
        (("pages", partition, offset), PendingVerdict(*verdict))
        for partition in (-3, 0, 2)
        for offset, verdict in ((5, (3, 0.1, 2, 1)), (10**9, (NOBODY, float("nan"), 4, 0)), (2**40, (8, 1.0, 1, 2)))
    ]
    tried += [(("only/tried.jsonl", 0, 0), PendingVerdict(5, 0.5, 2, 1))]
    state.file(index_update_of(count, 0, memories, tried), state.position, state.last_record, clock=state.clock)
