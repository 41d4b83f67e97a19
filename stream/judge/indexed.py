"""Finds the original of each page among the indexed pages: reads and confirms candidates, and applies the rule."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, IndexedEntries, IndexedPages, StateView
from spotsieve.stream.base.arrays import distinct, sizes_of
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import CandidateColumns, Entry, Signatures
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.policy import (
    ANY_KIND,
    KEEP_FIRST,
    PagePreferences,
    UrlRelations,
    no_urls,
    preferences_of_entries,
    relation_to_indexed,
    urls_of,
)
from spotsieve.stream.judge.rules import (
    NO_PAIRS,
    Candidate,
    Limits,
    OriginalSearch,
    empty_search,
    final_kinds,
    is_refused,
    weigh,
)
from spotsieve.stream.judge.slots import Slots
from spotsieve.stream.sign.schemes import Confirmations, Scheme
from spotsieve.stream.sign.schemes.url_rules import PageRules


@dataclass(frozen=True, slots=True)
class IndexedOriginals:
    """The originals of a record's pages among the indexed pages.

    found: the result of the search, for all pages
    numbers: uint64[e], ascending, the entries that were read
    indexed: the contents of these entries; None if none was read
    urls: URL relations of pages and entries
    """

    found: OriginalSearch
    numbers: NDArray[np.uint64]
    indexed: IndexedEntries | None
    urls: UrlRelations

    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """The entries of these numbers. numbers: int64[a], of entries that were read"""
        if self.indexed is None:
            return []
        return self.indexed.entries(np.searchsorted(self.numbers, numbers.astype(np.uint64)))


class PairFacts(NamedTuple):
    """The input of the rule for m pairs of a page and an indexed page.

    preference: float64[m], of the indexed page; 0 where it cannot matter
    row: int64[m], the row of a candidate in `confirmed`
    confirmed: the confirmations of the candidates by the scheme
    """

    preference: NDArray[np.float64]
    row: NDArray[np.int64]
    confirmed: Confirmations


def find_originals(
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    scheme: Scheme,
    signatures: Signatures,
    pages: CandidateColumns,
    preferences: PagePreferences,
    limits: Limits,
    rules: PageRules | None,
) -> IndexedOriginals:
    """The original of each page among the indexed pages. Reads and confirms all entries of a record at once."""
    pairs = find_candidates(slots, buckets, limits.candidates, final_kinds(limits))
    found = empty_search(len(pages))
    wanted = distinct(pairs.number).astype(np.uint64)
    indexed = view.indexed(wanted) if len(wanted) else None
    urls = candidate_urls(signatures, indexed, len(wanted), limits, rules)
    if indexed is None:
        return IndexedOriginals(found, wanted, None, urls)
    place = np.searchsorted(wanted, pairs.number.astype(np.uint64))
    facts = confirm_candidates(pairs, place, indexed, scheme, pages, limits)
    choose_originals(pairs, place, facts, preferences, urls, limits, found)
    return IndexedOriginals(found, wanted, indexed, urls)


def candidate_urls(
    signatures: Signatures, indexed: IndexedEntries | None, entries: int, limits: Limits, rules: PageRules | None
) -> UrlRelations:
    """The URL relations of pages and their candidates; empty if URLs do not affect the verdicts."""
    scoping = rules is not None and rules.scoping
    if limits.same_url == ANY_KIND and not scoping:
        return no_urls(len(signatures), entries)
    return urls_of(signatures, indexed, entries, rules if scoping else None)


def choose_originals(
    pairs: CandidatePairs,
    place: NDArray[np.int64],
    facts: PairFacts,
    preferences: PagePreferences,
    urls: UrlRelations,
    limits: Limits,
    found: OriginalSearch,
) -> None:
    """Apply the rule to the candidates of n pages among the indexed pages, and write the originals to `found`.

    place: int64[m], the place of each pair's indexed page in `urls`
    """
    _choose_kernel(pairs, place, facts, preferences.own, urls, limits, found)


def confirm_candidates(
    pairs: CandidatePairs,
    place: NDArray[np.int64],
    indexed: IndexedPages,
    scheme: Scheme,
    pages: CandidateColumns,
    limits: Limits | None = None,
) -> PairFacts:
    """Confirm the candidates among the pairs by the scheme. Pairs with a decisive key need no confirmation.

    place: int64[m], the place of each pair's page in `indexed`
    limits: None if the preferences of the pages are not needed
    """
    weighed = limits is not None and limits.longer_by != KEEP_FIRST
    candidate = pairs.proof == 0
    row = np.cumsum(candidate) - 1
    pair = np.flatnonzero(candidate)
    if not len(pair) and not weighed:
        return PairFacts(np.zeros(len(place)), row, NO_PAIRS)
    entries = indexed.compared(scheme.compares_features and len(pair) > 0)
    if entries.sketch.shape[1] != pages.sketch.shape[1]:
        rule = f"must have sketches of {pages.sketch.shape[1]} words, has {entries.sketch.shape[1]}"
        raise CorruptRecord("entries", "sketch", rule)
    confirmed = NO_PAIRS
    if len(pair):
        page = np.repeat(np.arange(len(pages)), sizes_of(pairs.bounds))
        confirmed = scheme.confirm(pages.take(page[pair]), entries.take(place[pair]))
    if limits is None or not weighed:
        return PairFacts(np.zeros(len(place)), row, confirmed)
    return PairFacts(preferences_of_entries(indexed, entries.feature_count, limits.preference)[place], row, confirmed)


@kernel
def _choose_kernel(pairs, entry, facts, preference, urls, limits, found):
    # pairs: CandidatePairs  entry: int64[m], the place of each pair's page among the entries  facts: PairFacts
    # preference: float64[n], of the pages  urls: UrlRelations  limits: Limits
    # -> found: OriginalSearch
    for page in range(len(preference)):
        found.cut[page] = pairs.cut_at[page] != NEVER
        for place in range(pairs.bounds[page], pairs.bounds[page + 1]):
            pair = Candidate(pairs.number[place], pairs.proof[place], pairs.kinds[place], pairs.distance[place])
            if is_refused(found, page, pair, facts.confirmed, facts.row[place]):
                continue
            is_original = weigh(
                found,
                page,
                pair,
                facts.confirmed,
                facts.row[place],
                preference[page],
                facts.preference[place],
                relation_to_indexed(urls, page, entry[place]),
                limits,
            )
            if is_original:
                found.cut[page] = place >= pairs.cut_at[page]
                break
