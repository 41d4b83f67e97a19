"""Confirms pairs of a page and an indexed page by the current host memory, and reads what this needs from the state.

load_host_context reads the memories of a record's hosts, and all entries at once. confirm_all and confirm_page apply
the rule for two pages (pairs.py) to every candidate pair.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, CommonWindows, HostMemories, IndexedEntries, PendingVerdict, StateView
from spotsieve.stream.base.arrays import distinct, distinct_places, places_in
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, is_judged
from spotsieve.stream.judge.by_host import criteria
from spotsieve.stream.judge.by_host.common_text import find_common_text
from spotsieve.stream.judge.by_host.criteria import new_pair_result, thresholds_in, thresholds_of_pages
from spotsieve.stream.judge.by_host.distinctive_text import (
    EntryTexts,
    PageTexts,
    PageView,
    look_up,
    new_view,
    no_texts,
    texts_of,
    texts_of_entries,
)
from spotsieve.stream.judge.by_host.memory import Memory, lay_out, load_memories
from spotsieve.stream.judge.by_host.pairs import judge_pair
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs
from spotsieve.stream.judge.policy import Preference, preferences_of_entries
from spotsieve.stream.sign.schemes import HostThresholds
from spotsieve.stream.sign.schemes.url_rules import PageRules


@dataclass(slots=True)
class HostContext:
    """The hosts of a record's n pages, and the e entries that these pages are compared with.

    row: int64[n], the row of each page's host in `memories`
    numbers: uint64[e], ascending, the entries
    indexed: the contents of the entries; None if there are none
    texts: the columns by which the entries are compared
    pages: the columns by which the pages of the record are compared
    common: the windows of common text in which the pages of the record are counted
    preference: float64[e], of the entries
    """

    row: NDArray[np.int64]
    memories: HostMemories
    numbers: NDArray[np.uint64]
    indexed: IndexedEntries | None
    texts: EntryTexts
    pages: PageTexts
    common: CommonWindows
    preference: NDArray[np.float64]

    def place(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of these entries in `numbers`."""
        return places_in(self.numbers, numbers)


def load_host_context(
    signatures: Signatures,
    pairs: CandidatePairs,
    view: StateView,
    pending_verdicts: list[PendingVerdict | None],
    learns: bool,
    by: int = int(Preference.LENGTH),
) -> HostContext:
    """Read host memories, common text, candidates and the originals of pending verdicts.

    learns: whether the pages of the record count for common text
    by: the value that decides which copy is kept (Preference)
    """
    hosts, row = distinct_places(np.ascontiguousarray(signatures.host, np.uint64))
    memories = view.memories(hosts)
    common, pages = read_pages(signatures, view, learns)
    originals = [pending.original for pending in pending_verdicts if pending is not None and pending.original != NOBODY]
    if originals:
        wanted = distinct(np.append(pairs.number, np.array(originals, np.int64))).view(np.uint64)
    else:  # The candidates of one page ascend.
        wanted = (pairs.number.copy() if len(signatures) == 1 else distinct(pairs.number)).view(np.uint64)
    if not len(wanted):
        return HostContext(row, memories, wanted, None, no_texts(), pages, common, np.empty(0))
    indexed = view.indexed(wanted)
    compared = indexed.compared(False)
    texts = texts_of_entries(compared.host, indexed.distinctive_texts())
    preference = preferences_of_entries(indexed, compared.feature_count, by)
    return HostContext(row, memories, wanted, indexed, texts, pages, common, preference)


def read_memories(signatures: Signatures, hosts: NDArray[np.uint64], row: NDArray[np.int64], view: StateView) -> Memory:
    """The memories of these hosts, with room for the pages of a record. row: int64[n], of each page's host, or
    NOBODY
    """
    teaches = signatures.status == FINGERPRINTED
    blocks, words = new_items(teaches, row, signatures.blocks_bounds, signatures.titles_bounds, np.int64(len(hosts)))
    return load_memories(view.memories(hosts), blocks, words)


@kernel
def new_items(teaches, row, block_bounds, title_bounds, hosts):
    """The numbers of blocks and title words of the pages that teach each host: int64[h], int64[h]."""
    # teaches: bool[n]  row: int64[n]  block_bounds, title_bounds: int64[n + 1]  hosts: int64, their number (h)
    blocks, words = np.zeros(hosts, np.int64), np.zeros(hosts, np.int64)
    for page in range(len(teaches)):
        if teaches[page] and row[page] != NOBODY:
            blocks[row[page]] += block_bounds[page + 1] - block_bounds[page]
            words[row[page]] += title_bounds[page + 1] - title_bounds[page]
    return blocks, words


def read_pages(signatures: Signatures, view: StateView, learns: bool) -> tuple[CommonWindows, PageTexts]:
    """The windows of common text that a record changes, and the columns by which its pages are compared."""
    how_common, *windows = find_common_text(
        *(view.common_text().slots, is_judged(signatures.status), signatures.host, signatures.headline),
        *(signatures.blocks, signatures.blocks_bounds, signatures.samples, signatures.samples_bounds),
        signatures.status == FINGERPRINTED if learns else np.zeros(len(signatures), np.bool_),
    )
    return CommonWindows(*windows), texts_of(signatures, how_common)


class PairNotes(NamedTuple):
    """The values that were recorded for m pairs, or for none.

    values: float64[m, criteria.CRITERIA, 2], the value of the pair and the required value, per criterion
    other_values: float64[m, criteria.OTHER_VALUES], other values of the pair
    """

    values: NDArray[np.float64]
    other_values: NDArray[np.float64]


class PageConfirmations(NamedTuple):
    """The confirmations of one page and its m candidate pairs.

    read: the entries and host memory that were used
    place: int64[m], the place of each pair's indexed page in read.indexed
    accepted: bool[m], score: float64[m], reason: uint8[m] (Reason)
    noted: the recorded values of the m pairs
    page_view: the page's text by the memory of its host
    """

    read: HostContext
    place: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]
    reason: NDArray[np.uint8]
    noted: PairNotes
    page_view: PageView


def confirm_all(
    signatures: Signatures,
    pairs: CandidatePairs,
    view: StateView,
    thresholds: HostThresholds,
    rules: PageRules | None = None,
) -> tuple[IndexedEntries, NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.uint8]]:
    """Confirm every candidate pair, at least one, by the current host memory.

    Returns the entries that were read, and of the m pairs: the place of the indexed page among these entries
    (int64[m]), whether the pair is a match (bool[m]), its score (float64[m]) and its reason (uint8[m], Reason). Score
    and reason are set only for pairs without a decisive key. Raises ValueError if there is no pair.
    """
    result = _confirm(signatures, pairs, view, thresholds, rules, 0)
    if result.read.indexed is None:
        raise ValueError("there must be a pair to confirm")
    return result.read.indexed, result.place, result.accepted, result.score, result.reason


def confirm_page(
    signatures: Signatures,
    pairs: CandidatePairs,
    view: StateView,
    thresholds: HostThresholds,
    rules: PageRules | None = None,
) -> PageConfirmations:
    """Confirm every candidate pair of one page, pairs with a decisive key included, and record the values of each."""
    return _confirm(
        signatures, pairs._replace(proof=np.zeros_like(pairs.proof)), view, thresholds, rules, len(pairs.number)
    )


def look_up_page(
    signatures: Signatures, view: StateView, thresholds: HostThresholds, rules: PageRules | None = None
) -> NDArray[np.uint8]:
    """The flags of the blocks of one page (PageView) by the current memory of its host: uint8[b]."""
    none = np.empty(0, np.uint8)
    pairs = CandidatePairs(np.zeros(2, np.int64), np.empty(0, np.int64), none, none, none, np.full(1, NEVER, np.int64))
    return confirm_page(signatures, pairs, view, thresholds, rules).page_view.flags[: len(signatures.blocks)].copy()


def _confirm(
    signatures: Signatures,
    pairs: CandidatePairs,
    view: StateView,
    thresholds: HostThresholds,
    rules: PageRules | None,
    noting: int,
) -> PageConfirmations:
    """Confirm pairs. noting: number of pairs whose values are recorded, all or 0"""
    read = load_host_context(signatures, pairs, view, [], False)
    place, page_view = read.place(pairs.number), new_view()
    noted = PairNotes(np.zeros((noting, criteria.CRITERIA, 2)), np.zeros((noting, criteria.OTHER_VALUES)))
    accepted, score, reason = _confirm_kernel(
        *(pairs, place, read.row, read.pages, read.texts, read.memories),
        *(*thresholds_of_pages(signatures, thresholds, rules), page_view, new_pair_result(), noted),
    )
    return PageConfirmations(read, place, accepted, score, reason, noted, page_view)


@kernel
def _confirm_kernel(pairs, place, row, pages, indexed, memories, chosen, table, page_view, result, noted):
    # pairs: CandidatePairs of n pages and m pairs  place: int64[m], in indexed: EntryTexts  row: int64[n]  pages:
    # PageTexts  memories: HostMemories  chosen: int64[n], table: float64[r, 6], the thresholds of each page
    # (thresholds_of_pages)  noted: PairNotes, of all pairs or of none
    # -> accepted: bool[m]  score: float64[m]  reason: uint8[m]
    count = len(place)
    accepted, score, reason = np.ones(count, np.bool_), np.ones(count), np.zeros(count, np.uint8)
    explains, nothing = len(noted.other_values) > 0, np.zeros(len(memories.hosts), np.int64)
    memory = lay_out(memories, nothing, nothing)
    for page in range(len(row)):
        thresholds = thresholds_in(table, chosen[page])
        look_up(pages, page, memory, row[page], thresholds.template_share, page_view)
        for at in range(pairs.bounds[page], pairs.bounds[page + 1]):
            if not pairs.proof[at]:
                judge_pair(pages, page, indexed, place[at], memory, row[page], page_view, thresholds, explains, result)
                accepted[at], score[at] = result.confirmed.accepted[0], result.confirmed.score[0]
                reason[at] = result.reason[0]
                if explains:
                    noted.values[at], noted.other_values[at] = result.values, result.other_values
    return accepted, score, reason
