"""Reads what judging a record with its hosts needs of the state: their memories, and all entries at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, IndexedEntries, PendingVerdict, StateView
from spotsieve.stream.distinct import distinct, distinct_places, places_in
from spotsieve.stream.judge.by_host.memory import Memory, live_leads, load_leads, load_memories
from spotsieve.stream.judge.by_host.texts import Texts, texts_of_entries
from spotsieve.stream.judge.met import CandidatePairs
from spotsieve.stream.judge.worth import Preference, preferences_of_entries
from spotsieve.stream.signature import OwnText, Signatures


@dataclass(frozen=True, slots=True)
class HostContext:
    """The hosts of a record's n pages, and the e entries that these are compared with.

    row: int64[n], of each page's host in memory  numbers: uint64[e], ascending  indexed: None where there are no entries
    preference: float64[e], of the entries
    """

    row: NDArray[np.int64]
    memory: Memory
    numbers: NDArray[np.uint64]
    indexed: IndexedEntries | None
    texts: Texts
    preference: NDArray[np.float64]

    def place(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these entries are."""
        return places_in(self.numbers, numbers)


def load_host_context(
    signatures: Signatures,
    met: CandidatePairs,
    view: StateView,
    pending_verdicts: list[PendingVerdict | None],
    by: int = int(Preference.LENGTH),
) -> HostContext:
    """Read memories, the pages that are met, those that stand for a memory, and the originals of attempts.

    by: what pages are worth (Worth)
    """
    hosts, row = distinct_places(np.ascontiguousarray(signatures.host, np.uint64))
    memories = view.memories(hosts)
    memory, leads = load_memories(memories), live_leads(memories, view)
    originals = [attempt.original for attempt in pending_verdicts if attempt is not None and attempt.original != NOBODY]
    wanted = distinct(np.concatenate([met.number, leads, np.array(originals, np.int64)])).astype(np.uint64)
    if not len(wanted):
        return HostContext(row, memory, wanted, None, no_texts(signatures.sketch.shape[1]), np.empty(0))
    indexed = view.indexed(wanted)
    compared, own = indexed.compared(False), indexed.own_texts()
    load_leads(memory, leads, places_in(wanted, leads), own)
    texts = texts_of_entries(compared.host, compared.feature_count, compared.sketch, own)
    return HostContext(row, memory, wanted, indexed, texts, preferences_of_entries(indexed, compared.feature_count, by))


def no_texts(words: int) -> Texts:
    """What no pages are compared by. words: of a sketch"""
    none, bounds = np.empty(0, np.uint16), np.zeros(1, np.int64)
    own = OwnText(none, none.astype(np.uint8), none, none.astype(np.uint32), bounds, none, bounds)
    return texts_of_entries(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty((0, words), np.uint64), own)
