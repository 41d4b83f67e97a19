"""Asks about every pair of a page and a filed page that are met, by what is known of the hosts now."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import FiledEntries, StateView
from spotsieve.stream.jit import kernel
from spotsieve.stream.judge.by_host import ways
from spotsieve.stream.judge.by_host.bars import bars_in, bars_of_pages
from spotsieve.stream.judge.by_host.own_text import Asked, ask, new_asked
from spotsieve.stream.judge.by_host.pairs import confirm_pair, new_answer
from spotsieve.stream.judge.by_host.recalled import Recalled, recall_record
from spotsieve.stream.judge.by_host.texts import texts_of
from spotsieve.stream.judge.met import Met
from spotsieve.stream.schemes import Bars
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import Signatures


class Noted(NamedTuple):
    """What was noted of m pairs, or of none: bars: float64[m, ways.BARS, 2]  figures: float64[m, ways.FIGURES]"""

    bars: NDArray[np.float64]
    figures: NDArray[np.float64]


class OfPage(NamedTuple):
    """What is told of one page and of the pairs that it meets.

    read: the entries and the memory that it was judged by  place: int64[m], where in read.filed each pair's page is
    accepted: bool[m], score: float64[m], reason: uint8[m]  noted: of the m pairs  asked: what is known of the page
    """

    read: Recalled
    place: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]
    reason: NDArray[np.uint8]
    noted: Noted
    asked: Asked


def confirm_all(
    signatures: Signatures, met: Met, view: StateView, bars: Bars, rules: PageRules | None = None
) -> tuple[FiledEntries, NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.uint8]]:
    """Ask about every pair that is met, at least one, by what is known of the hosts now.

    -> the entries that were read, and of the m pairs: where in these its page is: int64[m], whether it is a copy:
    bool[m], score: float64[m], reason: uint8[m] (Reason); the last two where no decisive key found the page
    """
    answer = _confirm(signatures, met, view, bars, rules, 0)
    if answer.read.filed is None:
        raise ValueError("no pair is met, so there is nothing to confirm")
    return answer.read.filed, answer.place, answer.accepted, answer.score, answer.reason


def confirm_page(
    signatures: Signatures, met: Met, view: StateView, bars: Bars, rules: PageRules | None = None
) -> OfPage:
    """Ask about every pair that one page meets, also where a decisive key found it, and note what each pair has."""
    return _confirm(signatures, met._replace(proof=np.zeros_like(met.proof)), view, bars, rules, len(met.number))


def _confirm(
    signatures: Signatures, met: Met, view: StateView, bars: Bars, rules: PageRules | None, noting: int
) -> OfPage:
    """noting: how many pairs are noted, all or none"""
    read = recall_record(signatures, met, view, [])
    place, asked = read.place(met.number), new_asked()
    noted = Noted(np.zeros((noting, ways.BARS, 2)), np.zeros((noting, ways.FIGURES)))
    accepted, score, reason = _confirm_kernel(
        *(met, place, read.row, texts_of(signatures), read.texts, read.memory),
        *(*bars_of_pages(signatures, bars, rules), asked, new_answer(), noted),
    )
    return OfPage(read, place, accepted, score, reason, noted, asked)


@kernel
def _confirm_kernel(met, place, row, pages, filed, memory, chosen, table, asked, answer, noted):
    # met: Met of n pages and m pairs  place: int64[m], in filed: Texts  row: int64[n]  pages: Texts
    # chosen, table: as of bars_of_pages
    # noted: Noted, of all pairs or of none  ->  accepted: bool[m]  score: float64[m]  reason: uint8[m]
    pairs = len(place)
    accepted, score, reason = np.ones(pairs, np.bool_), np.ones(pairs), np.zeros(pairs, np.uint8)
    for page in range(len(row)):
        bars = bars_in(table, chosen[page])
        ask(pages, page, memory, row[page], bars.template_share, asked)
        for at in range(met.bounds[page], met.bounds[page + 1]):
            if not met.proof[at]:
                confirm_pair(pages, page, filed, place[at], memory, row[page], asked, bars, answer)
                accepted[at], score[at] = answer.confirmed.accepted[0], answer.confirmed.score[0]
                reason[at] = answer.reason[0]
                if len(noted.figures):
                    noted.bars[at], noted.figures[at] = answer.bars, answer.figures
    return accepted, score, reason
