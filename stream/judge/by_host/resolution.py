"""Judges a record with host memory: page by page, since each page may change the template text of its host.

A page that was judged before gets its first verdict again (page_history.py), whatever its host has learned since.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, CommonWindows, HostMemories, HostUpdate, StateView
from spotsieve.stream.base.arrays import Spares, sizes_of
from spotsieve.stream.base.jit import inlined, kernel, part, plain_tuples
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, is_judged, page_ids_of
from spotsieve.stream.judge.by_host.confirmation import HostContext, load_host_context, new_items
from spotsieve.stream.judge.by_host.containment import PairComparison, PartLayout
from spotsieve.stream.judge.by_host.criteria import PairResult, new_pair_result, thresholds_in, thresholds_of_pages
from spotsieve.stream.judge.by_host.distinctive_text import (
    EntryTexts,
    OrderedSample,
    PageTexts,
    PageView,
    empty_entry_texts,
    look_up,
    new_view,
    no_texts,
)
from spotsieve.stream.judge.by_host.learning import keep_distinctive_text, owned_texts, page_hashes, teach_page
from spotsieve.stream.judge.by_host.memory import changed_columns, lay_out
from spotsieve.stream.judge.by_host.page_history import (
    AGAIN,
    INDEXED_ELSEWHERE,
    NEW,
    SETTLED,
    PageHistory,
    find_loaded,
    find_repeated,
    load_pending_verdicts,
    new_pending_verdicts,
    repeat_verdict,
)
from spotsieve.stream.judge.by_host.pairs import judge_pair
from spotsieve.stream.judge.candidates import (
    NEVER,
    CandidatePairs,
    Cursors,
    drop_candidates,
    find_candidates,
    next_candidate,
    set_cursors,
)
from spotsieve.stream.judge.indexed import IndexedOriginals, candidate_urls
from spotsieve.stream.judge.policy import PagePreferences, UrlRelations, relation_to_indexed, relation_within
from spotsieve.stream.judge.resolution import Resolution, count_postings, empty_resolution, index_page
from spotsieve.stream.judge.rules import (
    Candidate,
    Limits,
    OriginalSearch,
    empty_search,
    final_kinds,
    is_refused,
    weigh,
)
from spotsieve.stream.judge.slots import Postings, Slots
from spotsieve.stream.sign.schemes import Confirmations, HostThresholds
from spotsieve.stream.sign.schemes.url_rules import PageRules


class _Record(NamedTuple):
    """A record before the resolution.

    slots: the keys of the pages
    sizes: int64[u], number of postings in each bucket
    row: int64[n], the row of each page's host in the memory
    judged: bool[n], pages that are compared
    teaches: bool[n], pages whose text is kept and teaches
    place: int64[m], the place of each pair's page in `indexed`; NOBODY for a candidate that is known not to be the
    original
    pages: the pages of the record
    hashes: uint64[n, 2], of the URL and the text of each page, if pages teach
    indexed: the entries that were read
    within: the indexed pages of the record, as their entries store them
    urls: URL relations of pages and entries
    entry_preferences: float64[e], of the entries
    """

    slots: Slots
    sizes: NDArray[np.int64]
    row: NDArray[np.int64]
    judged: NDArray[np.bool_]
    teaches: NDArray[np.bool_]
    pairs: CandidatePairs
    place: NDArray[np.int64]
    pages: PageTexts
    hashes: NDArray[np.uint64]
    indexed: EntryTexts
    within: EntryTexts
    urls: UrlRelations
    preferences: PagePreferences
    entry_preferences: NDArray[np.float64]


class HostJudgment(NamedTuple):
    """The judgment of a record of n pages with host memory.

    learned: None if the pages were judged alone
    is_new: bool[n], pages whose id was not seen before
    flags: uint8[b], the flags of the blocks of indexed pages
    """

    indexed: IndexedOriginals
    resolution: Resolution
    learned: HostUpdate | None
    is_new: NDArray[np.bool_]
    flags: NDArray[np.uint8]


def judge_with_hosts(
    signatures: Signatures,
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    thresholds: HostThresholds,
    preferences: PagePreferences,
    limits: Limits,
    rules: PageRules | None = None,
    alone: bool = False,
) -> HostJudgment:
    """Judge and index the pages of a record in order. alone: judge each page on its own, index and teach nothing"""
    pairs = find_candidates(slots, buckets, limits.candidates, final_kinds(limits))
    judged = is_judged(signatures.status)
    page_ids = page_ids_of(signatures)
    pending_verdicts = load_pending_verdicts(page_ids, judged, view)
    read = load_host_context(signatures, pairs, view, pending_verdicts, not alone, limits.preference)
    indexed = empty_search(len(page_ids))
    by_page = dict(enumerate(page_ids))
    history = find_loaded(by_page, judged, pairs, read, pending_verdicts, indexed)
    if not alone:
        find_repeated(by_page, judged, history)
    urls = candidate_urls(signatures, read.indexed, len(read.numbers), limits, rules)
    place, sizes = read.place(pairs.number), sizes_of(buckets.bounds)
    resolved = resolve_with_hosts(
        signatures,
        slots,
        sizes,
        pairs,
        place,
        judged,
        read,
        history,
        urls,
        thresholds_of_pages(signatures, thresholds, rules),
        (preferences, read.preference),
        limits,
        view.entry_count,
        indexed,
        not alone,
    )
    learned = None if alone else _learned(judged, resolved, indexed, history, read.common, page_ids)
    originals = IndexedOriginals(indexed, read.numbers, read.indexed, urls)
    return HostJudgment(originals, resolved.resolution, learned, history.state == NEW, resolved.flags)


class HostResolution(NamedTuple):
    """The sequential resolution of a record of n pages with host memory.

    within: the indexed pages of the record, as their entries store them
    flags: uint8[b], the flags of the blocks of indexed pages (PageView)
    memories: of the hosts that have learned
    """

    resolution: Resolution
    within: EntryTexts
    flags: NDArray[np.uint8]
    memories: HostMemories


_spares = Spares(lambda: plain_tuples((new_view(), new_pair_result())))


def resolve_with_hosts(
    signatures: Signatures,
    slots: Slots,
    sizes: NDArray[np.int64],
    pairs: CandidatePairs,
    place: NDArray[np.int64],
    judged: NDArray[np.bool_],
    read: HostContext,
    history: PageHistory,
    urls: UrlRelations,
    thresholds: tuple[NDArray[np.int64], NDArray[np.float64]],
    preferences: tuple[PagePreferences, NDArray[np.float64]],
    limits: Limits,
    first_number: int,
    indexed: OriginalSearch,
    learns: bool,
    within: EntryTexts | None = None,
) -> HostResolution:
    """Judge the pages of a record in order, and teach the hosts in read.memories.

    The parameters up to `read`, and `urls`, are fields of _Record.
    history: verdicts that are known by page id
    thresholds: the thresholds of each page (thresholds_of_pages)
    preferences: of the pages, and of the entries (float64[e])
    first_number: entry number of the next page that is indexed
    indexed: verdicts that are known by page id; the originals among the indexed pages are added
    learns: whether pages are indexed and teach
    within: the texts of pages that another shard judges; None if there are none
    """
    if within is None:
        within = empty_entry_texts(signatures) if learns else no_texts()
    flags = np.zeros(len(signatures.blocks), np.uint8)
    hashes = page_hashes(signatures) if learns else np.empty((0, 2), np.uint64)
    teaches = judged & (signatures.status == FINGERPRINTED)
    found, postings, entry, added, _ = resolution = empty_resolution(slots, len(signatures), len(sizes))
    scratch, (own, entry_preferences) = _spares.take(), preferences
    record = (
        *((*slots,), sizes, read.row, judged, teaches, (*pairs,), place, (*read.pages,), hashes, (*read.texts,)),
        *((*within,), (*urls,), (*own,), entry_preferences),
    )
    capped, memories = _resolve_kernel(
        *(record, (*history,), (*read.memories,), *thresholds, (*limits,), learns, first_number, (*indexed,)),
        *(((*found,), postings, entry, (*added,)), scratch, flags),
    )
    _spares.give_back(scratch)
    return HostResolution(resolution._replace(capped=capped), within, flags, HostMemories(*memories))


def _learned(
    judged: NDArray[np.bool_],
    resolved: HostResolution,
    indexed: OriginalSearch,
    history: PageHistory,
    common: CommonWindows,
    page_ids: list[PageId],
) -> HostUpdate:
    """The update of the state beside postings: texts of entries, host memories and pending verdicts."""
    texts = owned_texts(resolved.within, (resolved.resolution.entry != NOBODY).nonzero()[0])
    recorded, pending_verdicts = new_pending_verdicts(judged, history, indexed, resolved.resolution)
    repeated = tuple(page_ids[page] for page in recorded.tolist())
    return HostUpdate(texts, resolved.memories, repeated, pending_verdicts, common)


@inlined
def _search_indexed(record, page, memory, view, thresholds, limits, result, found):
    """Apply the rule to the candidates of a page among the indexed pages.

    -> found: OriginalSearch; returns the place of the original in record.indexed, or NOBODY: int64
    """
    pairs, preference = record.pairs, record.preferences.own[page]
    found.cut[page] = pairs.cut_at[page] != NEVER
    for at in range(pairs.bounds[page], pairs.bounds[page + 1]):
        pair = Candidate(pairs.number[at], pairs.proof[at], pairs.kinds[at], pairs.distance[at])
        other = record.place[at]
        if other == NOBODY:
            found.compared[page] += 1
            continue
        if not pair.proof:
            judge_pair(
                record.pages, page, record.indexed, other, memory, record.row[page], view, thresholds, False, result
            )
            found.reason[page] = result.reason[0]
        if is_refused(found, page, pair, result.confirmed, 0):
            continue
        relation = relation_to_indexed(record.urls, page, other)
        if weigh(found, page, pair, result.confirmed, 0, preference, record.entry_preferences[other], relation, limits):
            found.cut[page] = at >= pairs.cut_at[page]
            return other
    return np.int64(NOBODY)


@inlined
def _search_record(record, page, memory, view, thresholds, limits, indexed, resolution, cursors, result):
    """Apply the rule to the earlier pages of the record that share keys with a page.

    indexed: OriginalSearch  ->  resolution: Resolution
    """
    found, slots, preference = resolution.found, record.slots, record.preferences.own[page]
    found.cut[page], found.replaced_preference[page] = indexed.cut[page], indexed.replaced_preference[page]
    found.recrawl[page] = indexed.recrawl[page]
    room = limits.candidates - indexed.compared[page]
    set_cursors(slots, resolution.added, page, cursors)
    if found.cut[page]:
        drop_candidates(slots, page, cursors)
    while True:
        pair = next_candidate(slots, resolution.added, page, cursors)
        other = pair.number
        if other == NEVER:
            break
        if not pair.proof:
            if found.compared[page] == room:
                found.cut[page] = True
                drop_candidates(slots, page, cursors)
                continue
            judge_pair(
                record.pages, page, record.within, other, memory, record.row[page], view, thresholds, False, result
            )
            found.reason[page] = result.reason[0]
        if is_refused(found, page, pair, result.confirmed, 0):
            continue
        relation, others = relation_within(record.urls, page, other), record.preferences.as_candidate[other]
        if weigh(found, page, pair, result.confirmed, 0, preference, others, relation, limits):
            break


@part
def _record_of(columns):  # tuple -> _Record
    """The record in plain tuples, with its fields in order."""
    slots, sizes, row, judged, teaches, pairs, place, pages, hashes, indexed, within, urls, own, preferences = columns
    return _Record(
        Slots(*slots),
        sizes,
        row,
        judged,
        teaches,
        CandidatePairs(*pairs),
        place,
        PageTexts(*pages),
        hashes,
        EntryTexts(*indexed),
        EntryTexts(*within),
        UrlRelations(*urls),
        PagePreferences(*own),
        preferences,
    )


@part
def _pair_result_of(columns):  # tuple -> PairResult
    """The result of a pair in plain tuples, with its fields in order."""
    confirmed, reason, values, other_values, compared = columns
    found, hits, whole, wholes, counts, says_little, figures, by_block, limits, density, ordered, layout = compared
    comparison = PairComparison(
        *(found, hits, whole, wholes, counts, says_little, figures, by_block, limits, density),
        *(OrderedSample(*ordered), PartLayout(*layout)),
    )
    return PairResult(Confirmations(*confirmed), reason, values, other_values, comparison)


@kernel
def _resolve_kernel(
    record, history, memories, chosen, table, limits, learns, entry_number, indexed, resolution, scratch, flags
):
    # In plain tuples (stream/base/jit.py): record: _Record  history: PageHistory  memories: HostMemories
    # limits: Limits  indexed: OriginalSearch  resolution: Resolution without `capped`
    # scratch: PageView and PairResult, overwritten
    # chosen: int64[n], table: float64[r, 6], the thresholds of each page (thresholds_of_pages)
    # learns: bool, pages are indexed and teach  entry_number: int64
    # -> resolution, flags: uint8[b], written for indexed pages; returns the number of postings left out because a
    # bucket was full, and HostMemories: of the hosts that have learned. The memory is laid out here, because Python
    # takes 1 us for each array that it gets.
    capped = 0
    record, history, memories = _record_of(record), PageHistory(*history), HostMemories(*memories)
    limits, indexed = Limits(*limits), OriginalSearch(*indexed)
    found, postings, entry, added = resolution
    resolution = Resolution(OriginalSearch(*found), postings, entry, Postings(*added), 0)
    view, result = PageView(*scratch[0]), _pair_result_of(scratch[1])
    # The page that was ordered last belongs to another record.
    result.compared.ordered.page[0] = NOBODY
    pages, found = record.pages, resolution.found
    slots, hosts = len(record.slots.bucket), len(memories.hosts)
    cursors = Cursors(np.empty(slots, np.int64), np.empty(slots, np.int64))
    blocks, words = new_items(record.teaches, record.row, pages.block_bounds, pages.title_bounds, hosts)
    memory = lay_out(memories, blocks, words)
    for page in range(len(record.row)):
        if history.state[page] >= INDEXED_ELSEWHERE:
            if (
                history.state[page] == INDEXED_ELSEWHERE
                and index_page(record.slots, record.sizes, page, limits.cap, resolution.added)[0]
            ):
                resolution.entry[page] = entry_number
                entry_number += 1
            continue
        count_postings(record.slots, record.sizes, page, resolution)
        if history.state[page] == SETTLED:
            continue
        if history.state[page] == AGAIN:
            repeat_verdict(history.first[page], page, indexed, resolution)
            continue
        row, thresholds = record.row[page], thresholds_in(table, chosen[page])
        if record.judged[page]:
            look_up(pages, page, memory, row, thresholds.template_share, view)
        original = _search_indexed(record, page, memory, view, thresholds, limits, result, indexed)
        found.cut[page] = indexed.cut[page]
        if original == NOBODY and learns:
            _search_record(record, page, memory, view, thresholds, limits, indexed, resolution, cursors, result)
            original = found.number[page]
        if not learns:
            continue
        if original == NOBODY:
            if record.teaches[page]:
                keep_distinctive_text(pages, page, view, record.within, result.compared.ordered)
                for place in range(pages.block_bounds[page], pages.block_bounds[page + 1]):
                    flags[place] = view.flags[place - pages.block_bounds[page]]
            is_indexed, full = index_page(record.slots, record.sizes, page, limits.cap, resolution.added)
            capped += full
            if is_indexed:
                resolution.entry[page] = entry_number
                entry_number += 1
        if record.teaches[page]:
            teach_page(pages, page, record.hashes, memory, row, entry_number)
    return capped, changed_columns(memory)
