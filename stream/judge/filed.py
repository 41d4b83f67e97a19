"""Finds the original of each page among the filed ones: reads and confirms what it meets, and applies the rule."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, FiledEntries, FiledPages, StateView
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.distinct import distinct
from spotsieve.stream.jit import kernel
from spotsieve.stream.judge.addresses import Addresses, addresses_of, no_addresses, relation_to_filed
from spotsieve.stream.judge.met import NEVER, Met, meet_filed
from spotsieve.stream.judge.policy import ANY_KIND, KEEP_FIRST
from spotsieve.stream.judge.rules import (
    NO_PAIRS,
    Found,
    Limits,
    Pair,
    final_kinds,
    is_refused,
    nothing_found,
    weigh,
)
from spotsieve.stream.judge.slots import Slots
from spotsieve.stream.judge.worth import Worths, worth_of_filed
from spotsieve.stream.schemes import Confirmed, Scheme
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import Compared, Entry, Signatures


@dataclass(frozen=True, slots=True)
class FiledOriginals:
    """What is found among the filed pages.

    found: of all pages  numbers: uint64[e], ascending, the entries that were read  filed: the same, as read
    addresses: of pages and entries
    """

    found: Found
    numbers: NDArray[np.uint64]
    filed: FiledEntries | None
    addresses: Addresses

    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """numbers: int64[a], of entries that were read -> the filed pages."""
        if self.filed is None:
            return []
        return self.filed.entries(np.searchsorted(self.numbers, numbers.astype(np.uint64)))


class Answers(NamedTuple):
    """What the rule asks of m pairs of a page and a filed page.

    worth: float64[m], of the filed page; 0 where it cannot matter
    row: int64[m], of a candidate, its row in confirmed  confirmed: the scheme's answers to the candidates
    """

    worth: NDArray[np.float64]
    row: NDArray[np.int64]
    confirmed: Confirmed


def find_filed(
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    scheme: Scheme,
    signatures: Signatures,
    pages: Compared,
    worths: Worths,
    limits: Limits,
    rules: PageRules | None,
) -> FiledOriginals:
    """The original of each page among the filed ones. All entries of a record are read and confirmed at once.

    worths: of the pages
    """
    met = meet_filed(slots, buckets, limits.candidates, final_kinds(limits))
    found = nothing_found(len(pages))
    wanted = distinct(met.number).astype(np.uint64)
    filed = view.filed(wanted) if len(wanted) else None
    addresses = known_addresses(signatures, filed, len(wanted), limits, rules)
    if filed is None:
        return FiledOriginals(found, wanted, None, addresses)
    place = np.searchsorted(wanted, met.number.astype(np.uint64))
    answers = confirm_met(met, place, filed, scheme, pages, limits)
    choose(met, place, answers, worths, addresses, limits, found)
    return FiledOriginals(found, wanted, filed, addresses)


def known_addresses(
    signatures: Signatures, filed: FiledEntries | None, entries: int, limits: Limits, rules: PageRules | None
) -> Addresses:
    """The addresses of pages and of the entries that they meet, where these make a difference."""
    scoping = rules is not None and rules.scoping
    if limits.same_address == ANY_KIND and not scoping:
        return no_addresses(len(signatures), entries)
    return addresses_of(signatures, filed, entries, rules if scoping else None)


def choose(
    met: Met,
    place: NDArray[np.int64],
    answers: Answers,
    worths: Worths,
    addresses: Addresses,
    limits: Limits,
    found: Found,
) -> None:
    """Apply the rule to what the n pages meet among the filed ones  ->  found: Found.

    place: int64[m], where in `addresses` the filed page of each pair is  worths: of the pages
    """
    _choose_kernel(met, place, answers, worths.own, addresses, limits, found)


def confirm_met(
    met: Met,
    place: NDArray[np.int64],
    filed: FiledPages,
    scheme: Scheme,
    pages: Compared,
    limits: Limits | None = None,
) -> Answers:
    """Ask the scheme about the candidates among the pairs.

    place: int64[m], where in `filed` the page of each pair is  limits: None where nobody asks what pages are worth
    """
    weighed = limits is not None and limits.longer_by != KEEP_FIRST
    candidate = met.proof == 0
    row = np.cumsum(candidate) - 1
    pair = np.flatnonzero(candidate)
    if not len(pair) and not weighed:
        return Answers(np.zeros(len(place)), row, NO_PAIRS)
    entries = filed.compared(scheme.compares_features and len(pair) > 0)
    confirmed = NO_PAIRS
    if len(pair):
        page = np.repeat(np.arange(len(pages)), sizes_of(met.bounds))
        confirmed = scheme.confirm(pages.take(page[pair]), entries.take(place[pair]))
    if limits is None or not weighed:
        return Answers(np.zeros(len(place)), row, confirmed)
    return Answers(worth_of_filed(filed, entries.feature_count, limits.worth)[place], row, confirmed)


@kernel
def _choose_kernel(met, entry, answers, worth, addresses, limits, found):
    # met: Met  entry: int64[m], where the page of each pair is among the entries  answers: Answers
    # worth: float64[n], of the pages  addresses: Addresses  limits: Limits  ->  found: Found
    for page in range(len(worth)):
        found.cut[page] = met.cut_at[page] != NEVER
        for place in range(met.bounds[page], met.bounds[page + 1]):
            pair = Pair(met.number[place], met.proof[place], met.kinds[place], met.distance[place])
            if is_refused(found, page, pair, answers.confirmed, answers.row[place]):
                continue
            is_original = weigh(
                found,
                page,
                pair,
                answers.confirmed,
                answers.row[place],
                worth[page],
                answers.worth[place],
                relation_to_filed(addresses, page, entry[place]),
                limits,
            )
            if is_original:
                found.cut[page] = place >= met.cut_at[page]
                break
