"""Judges a record with the memory of its hosts: page after page, since each may teach its host what template is.

What a page that was judged before gets, known.py says: what was learned in between changes no verdict.
"""

# mypy: disable-error-code="no-untyped-def"
# numba compiles the kernels from their argument types; the comment of each says what these are.

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, Learned, StateView
from spotsieve.stream.features.prints import IDENTITY_SHIFT, MOST_PRINTS
from spotsieve.stream.judge.addresses import Addresses, relation_to_filed, relation_within
from spotsieve.stream.judge.bars import bars_in, bars_of_pages
from spotsieve.stream.judge.filed import FiledOriginals, known_addresses
from spotsieve.stream.judge.known import (
    AGAIN,
    NEW,
    SETTLED,
    Known,
    attempts_of,
    find_known,
    find_repeated,
    known_attempts,
    repeat,
)
from spotsieve.stream.judge.memory import Memory, teach, to_remember
from spotsieve.stream.judge.met import NEVER, Met, begin, drop_candidates, meet_filed, new_cursors, next_met
from spotsieve.stream.judge.pairs import (
    Texts,
    ask,
    confirm_pair,
    listed_words,
    new_answer,
    new_asked,
    template_share,
    texts_of,
)
from spotsieve.stream.judge.recalled import recall_record
from spotsieve.stream.judge.rules import Found, Limits, Pair, final_kinds, judge_sources, nothing_found, weigh
from spotsieve.stream.judge.slots import Slots, inlined
from spotsieve.stream.judge.walk import Walked, count_postings, file_page, nothing_walked
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes import Bars
from spotsieve.stream.schemes.rules import PageRules
from spotsieve.stream.signature import OwnText, Signatures, Status, page_ids_of
from spotsieve.stream.text.titles import MOST_TITLE_WORDS

_MOST_LISTED = 65_535


class _Record(NamedTuple):
    """What is known of a record before the walk. sizes, slots: as of walk.py  row: int64[n], of each page's host

    judged: bool[n], pages that are compared and teach  place: int64[m], of each pair that is met, where in `filed`
    pages: as they are  filed: the entries that were read  within: the pages that are filed, as their entries keep them
    addresses: of pages and entries
    """

    slots: Slots
    sizes: NDArray[np.int64]
    row: NDArray[np.int64]
    judged: NDArray[np.bool_]
    met: Met
    place: NDArray[np.int64]
    pages: Texts
    filed: Texts
    within: Texts
    addresses: Addresses


class _Recrawled(NamedTuple):
    """Of a page: the earliest page of its own address that it is a copy of. All have one element.

    place: int64, in the entries or the record; NOBODY: there is none  within: bool, in the record
    proof: bool, a decisive key found it  sure: bool, as of Answer
    """

    place: NDArray[np.int64]
    within: NDArray[np.bool_]
    proof: NDArray[np.bool_]
    sure: NDArray[np.bool_]


def judge_with_hosts(
    signatures: Signatures,
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    bars: Bars,
    limits: Limits,
    rules: PageRules | None = None,
    alone: bool = False,
) -> tuple[FiledOriginals, Walked, Learned]:
    """Judge and file the pages of a record in order. alone: each by itself; none is filed or teaches"""
    met = meet_filed(slots, buckets, limits.candidates, final_kinds(limits))
    judged = signatures.status == Status.FINGERPRINTED
    page_ids = page_ids_of(signatures)
    attempts = known_attempts(page_ids, judged, view)
    read = recall_record(signatures, met, view, attempts)
    filed = nothing_found(len(page_ids))
    known = find_known(page_ids, judged, met, read, attempts, filed)
    if not alone:
        find_repeated(page_ids, judged, known)
    pages, sizes = texts_of(signatures), np.diff(buckets.bounds)
    within = pages._replace(prints=pages.prints.copy(), print_end=pages.print_first.copy())
    addresses = known_addresses(signatures, read.filed, len(read.numbers), limits, rules)
    place = read.place(met.number)
    record = _Record(slots, sizes, read.row, judged, met, place, pages, read.texts, within, addresses)
    walked = nothing_walked(slots, len(page_ids), len(sizes))
    scratch = new_cursors(slots), new_asked(), new_answer(), _not_recrawled()
    chosen, table = bars_of_pages(signatures, bars, rules)
    capped = _walk_kernel()(
        record, known, read.memory, chosen, table, limits, not alone, view.entry_count, filed, walked, *scratch
    )
    walked = walked._replace(capped=capped)
    learned = _learned(signatures, walked, filed, known, within, read.memory, page_ids)
    return FiledOriginals(filed, read.numbers, read.filed, addresses), walked, learned


def _learned(
    signatures: Signatures,
    walked: Walked,
    filed: Found,
    known: Known,
    within: Texts,
    memory: Memory,
    page_ids: list[PageId],
) -> Learned:
    """What the state is to remember beside postings."""
    pages = np.flatnonzero(walked.entry != NOBODY)
    print_bounds, title_bounds = np.zeros(len(pages) + 1, np.int64), np.zeros(len(pages) + 1, np.int64)
    first, title_first = signatures.prints_bounds[:-1][pages], signatures.titles_bounds[:-1][pages]
    np.cumsum(within.print_end[pages] - first, out=print_bounds[1:])
    np.cumsum(np.diff(signatures.titles_bounds)[pages], out=title_bounds[1:])
    prints, titles = _places(first, print_bounds), _places(title_first, title_bounds)
    texts = OwnText(
        signatures.site[pages],
        within.share[pages],
        within.listed[pages],
        within.prints[prints],
        print_bounds,
        signatures.titles[titles],
        title_bounds,
    )
    new = (signatures.status == Status.FINGERPRINTED) & (known.state == NEW)
    # The entry of a page does not say what it replaced.
    replaces = (filed.replaced != NOBODY) | (walked.found.replaced != NOBODY)
    told = np.flatnonzero(new & ((walked.entry == NOBODY) | replaces))
    attempts = attempts_of(told, filed, walked)
    return Learned(texts, to_remember(memory), tuple(page_ids[page] for page in told.tolist()), attempts)


def _places(first: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places first[i], first[i] + 1, ... of each of r runs, as many as bounds: int64[r + 1] leave room for."""
    sizes = np.diff(bounds)
    return np.repeat(first - bounds[:-1], sizes) + np.arange(bounds[-1])


def _not_recrawled() -> _Recrawled:
    """No page was looked at yet."""
    no = np.zeros(1, np.bool_)
    return _Recrawled(np.full(1, NOBODY, np.int64), no, no.copy(), no.copy())


@inlined
def _note_recrawled(recrawled, other, within, pair, answer):  # _Recrawled, int64, bool, Pair, Answer
    """Note a page of the same address that a page is a copy of, unless there was an earlier one."""
    if recrawled.place[0] == NOBODY:
        recrawled.place[0], recrawled.within[0] = other, within
        recrawled.proof[0], recrawled.sure[0] = pair.proof != 0, answer.sure[0]


@inlined
def _ask_filed(record, page, memory, asked, bars, limits, answer, recrawled, found):
    """Weigh the filed pages that a page meets. ... -> found: Found; where the original is in record.filed: int64"""
    met, length = record.met, np.int64(record.pages.length[page])
    found.cut[page] = met.cut_at[page] != NEVER
    for at in range(met.bounds[page], met.bounds[page + 1]):
        pair = Pair(met.number[at], met.proof[at], met.kinds[at], met.distance[at])
        other = record.place[at]
        if not pair.proof:
            confirm_pair(record.pages, page, record.filed, other, memory, record.row[page], asked, bars, answer)
            found.reason[page] = answer.reason[0]
        other_length = np.int64(record.filed.length[other])
        relation = relation_to_filed(record.addresses, page, other)
        if weigh(found, page, pair, answer.confirmed, 0, length, other_length, relation, limits):
            found.cut[page] = at >= met.cut_at[page]
            return other
        if found.recrawl[page]:
            _note_recrawled(recrawled, other, False, pair, answer)
    return np.int64(NOBODY)


@inlined
def _ask_record(record, page, memory, asked, bars, limits, filed, walked, cursors, answer, recrawled):
    """Weigh the earlier pages of the record that a page meets; filed: Found  ->  walked: Walked"""
    found, slots, length = walked.found, record.slots, np.int64(record.pages.length[page])
    found.cut[page], found.replaced_length[page] = filed.cut[page], filed.replaced_length[page]
    found.recrawl[page] = filed.recrawl[page]
    room = limits.candidates - filed.compared[page]
    begin(slots, walked.added, page, cursors)
    if found.cut[page]:
        drop_candidates(slots, page, cursors)
    while True:
        pair = next_met(slots, walked.added, page, cursors)
        other = pair.number
        if other == NEVER:
            break
        if not pair.proof:
            if found.compared[page] == room:
                found.cut[page] = True
                drop_candidates(slots, page, cursors)
                continue
            confirm_pair(record.pages, page, record.within, other, memory, record.row[page], asked, bars, answer)
            found.reason[page] = answer.reason[0]
        other_length = np.int64(record.pages.length[other])
        relation = relation_within(record.addresses, page, other)
        if weigh(found, page, pair, answer.confirmed, 0, length, other_length, relation, limits):
            break
        if found.recrawl[page]:
            _note_recrawled(recrawled, other, True, pair, answer)


@inlined
def _keep_own(record, page, asked):  # _Record, int64, Asked  ->  record.within: Texts
    """Note what a page that is filed owns, and how much of what it keeps is template."""
    pages, own = record.pages, record.within
    first = pages.print_first[page]
    end = first
    for place in range(first, pages.print_end[page]):
        if not asked.template[place - first]:
            own.prints[end] = pages.prints[place]
            end += 1
    own.print_end[page] = end
    own.share[page] = np.uint8(np.floor(template_share(asked) * 255.0 + 0.5))
    own.listed[page] = np.uint16(min(listed_words(asked), _MOST_LISTED))


@inlined
def _skip_shared(pages, page, others, original, asked, skipped):
    """What a sure copy does not teach: the template, and what its original owns.

    pages, others: Texts  page, original: int64, in these  asked: Asked  ->  skipped: bool[MOST_PRINTS]
    """
    at, end = others.print_first[original], others.print_end[original]
    first = pages.print_first[page]
    for place in range(first, pages.print_end[page]):
        identity = np.int64(pages.prints[place]) >> IDENTITY_SHIFT
        while at < end and np.int64(others.prints[at]) >> IDENTITY_SHIFT < identity:
            at += 1
        has = at < end and np.int64(others.prints[at]) >> IDENTITY_SHIFT == identity
        skipped[place - first] = has or asked.template[place - first]


@cache
def _walk_kernel():
    sources = judge_sources()

    @njit(nogil=True, cache=True)
    def walk(record, known, memory, chosen, table, limits, learns, entry_number, filed, walked, *scratch):
        # record: _Record  known: Known  memory: Memory  chosen, table: as of bars_of_pages  limits: Limits
        # learns: bool, pages are filed and teach  entry_number: int64  filed: Found  ->  walked: Walked
        # scratch: Cursors, Asked, Answer, _Recrawled, written over
        # returns how many filings found their bucket full
        capped = 0
        cursors, asked, answer, recrawled = scratch
        skipped, no_word = np.zeros(MOST_PRINTS, np.bool_), np.zeros(MOST_TITLE_WORDS, np.bool_)
        pages, found = record.pages, walked.found
        for page in range(len(record.row) if sources >= 0 else 0):
            count_postings(record.slots, record.sizes, page, walked)
            if known.state[page] == SETTLED:
                continue
            if known.state[page] == AGAIN:
                repeat(known.first[page], page, filed, walked)
                continue
            row, bars = record.row[page], bars_in(table, chosen[page])
            if record.judged[page]:
                ask(pages, page, memory, row, bars.template_share, asked)
            answer.sure[0] = False
            recrawled.place[0] = NOBODY
            original, within = _ask_filed(record, page, memory, asked, bars, limits, answer, recrawled, filed), False
            proof = filed.proof[page]
            found.cut[page] = filed.cut[page]
            if original == NOBODY and learns:
                _ask_record(record, page, memory, asked, bars, limits, filed, walked, cursors, answer, recrawled)
                original, within, proof = found.number[page], True, found.proof[page]
            if not learns:
                continue
            number, is_filed = entry_number, False
            if original == NOBODY:
                if record.judged[page]:
                    _keep_own(record, page, asked)
                is_filed, full = file_page(record.slots, record.sizes, page, limits.cap, walked.added)
                capped += full
                if is_filed:
                    walked.entry[page] = entry_number
                    entry_number += 1
            copied, is_proof, is_sure = original, proof != 0, answer.sure[0]
            if original == NOBODY and recrawled.place[0] != NOBODY:
                # A page that is fetched ten times makes nothing a template, though each of its copies passes.
                copied, within, is_proof, is_sure = (
                    recrawled.place[0],
                    recrawled.within[0],
                    recrawled.proof[0],
                    recrawled.sure[0],
                )
            if not record.judged[page] or (copied != NOBODY and is_proof):
                continue
            # Where nothing is known of the host, as its memory was forgotten, a sure copy teaches like any page.
            sure = copied != NOBODY and is_sure and memory.pages[row] > 0
            skipped[:] = False
            if sure:
                if within:
                    _skip_shared(pages, page, record.within, copied, asked, skipped)
                else:
                    _skip_shared(pages, page, record.filed, copied, asked, skipped)
            teach(
                memory,
                row,
                pages.prints,
                pages.print_first[page],
                pages.print_end[page],
                pages.titles,
                pages.title_first[page],
                pages.title_end[page],
                skipped,
                no_word,
                not sure,
                number,
                is_filed,
            )
        return capped

    return walk
