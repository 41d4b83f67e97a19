"""Reads what judging a record with its hosts needs of the state: their memories, and all entries at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Attempt, FiledEntries, StateView
from spotsieve.stream.distinct import distinct, distinct_places, places_in
from spotsieve.stream.judge.by_host.memory import Memory, living_leads, recall, recall_leads
from spotsieve.stream.judge.by_host.texts import Texts, texts_filed
from spotsieve.stream.judge.met import Met
from spotsieve.stream.judge.worth import Worth, worth_of_filed
from spotsieve.stream.signature import OwnText, Signatures


@dataclass(frozen=True, slots=True)
class Recalled:
    """The hosts of a record's n pages, and the e entries that these are compared with.

    row: int64[n], of each page's host in memory  numbers: uint64[e], ascending  filed: None where there are no entries
    worth: float64[e], of the entries
    """

    row: NDArray[np.int64]
    memory: Memory
    numbers: NDArray[np.uint64]
    filed: FiledEntries | None
    texts: Texts
    worth: NDArray[np.float64]

    def place(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these entries are."""
        return places_in(self.numbers, numbers)


def recall_record(
    signatures: Signatures, met: Met, view: StateView, attempts: list[Attempt | None], by: int = int(Worth.LENGTH)
) -> Recalled:
    """Read memories, the pages that are met, those that stand for a memory, and the originals of attempts.

    by: what pages are worth (Worth)
    """
    hosts, row = distinct_places(np.ascontiguousarray(signatures.host, np.uint64))
    memories = view.memories(hosts)
    memory, leads = recall(memories), living_leads(memories, view)
    originals = [attempt.original for attempt in attempts if attempt is not None and attempt.original != NOBODY]
    wanted = distinct(np.concatenate([met.number, leads, np.array(originals, np.int64)])).astype(np.uint64)
    if not len(wanted):
        return Recalled(row, memory, wanted, None, no_texts(signatures.sketch.shape[1]), np.empty(0))
    filed = view.filed(wanted)
    compared, own = filed.compared(False), filed.own_texts()
    recall_leads(memory, leads, places_in(wanted, leads), own)
    texts = texts_filed(compared.host, compared.feature_count, compared.sketch, own)
    return Recalled(row, memory, wanted, filed, texts, worth_of_filed(filed, compared.feature_count, by))


def no_texts(words: int) -> Texts:
    """What no pages are compared by. words: of a sketch"""
    none, bounds = np.empty(0, np.uint16), np.zeros(1, np.int64)
    own = OwnText(none, none.astype(np.uint8), none, none.astype(np.uint32), bounds, none, bounds)
    return texts_filed(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty((0, words), np.uint64), own)
