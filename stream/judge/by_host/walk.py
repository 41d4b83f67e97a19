"""Judges a record with the memory of its hosts: page after page, since each may teach its host what template is.

What a page that was judged before gets, known.py says: what was learned in between changes no verdict.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, Learned, StateView
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.prints import MOST_PRINTS
from spotsieve.stream.jit import inlined, kernel
from spotsieve.stream.judge.addresses import Addresses, relation_to_filed, relation_within
from spotsieve.stream.judge.by_host.bars import bars_in, bars_of_pages
from spotsieve.stream.judge.by_host.known import (
    AGAIN,
    FILED_ELSEWHERE,
    NEW,
    SETTLED,
    Known,
    attempts_of,
    find_known,
    find_repeated,
    known_attempts,
    repeat,
)
from spotsieve.stream.judge.by_host.learning import (
    TAUGHT_ALL,
    TAUGHT_REST,
    keep_own,
    nothing_owned,
    owned_texts,
    skip_shared,
    teach_page,
)
from spotsieve.stream.judge.by_host.memory import Memory, to_remember
from spotsieve.stream.judge.by_host.own_text import ask, new_asked
from spotsieve.stream.judge.by_host.pairs import judge_pair, new_answer
from spotsieve.stream.judge.by_host.recalled import Recalled, recall_record
from spotsieve.stream.judge.by_host.texts import Texts, texts_of
from spotsieve.stream.judge.filed import FiledOriginals, known_addresses
from spotsieve.stream.judge.met import NEVER, Met, begin, drop_candidates, meet_filed, new_cursors, next_met
from spotsieve.stream.judge.rules import (
    LENGTH,
    Found,
    Limits,
    Pair,
    final_kinds,
    is_refused,
    nothing_found,
    weigh,
)
from spotsieve.stream.judge.slots import Slots
from spotsieve.stream.judge.walk import Walked, count_postings, file_page, nothing_walked
from spotsieve.stream.judge.worth import Worths
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes import Bars
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import FINGERPRINTED, Signatures, page_ids_of
from spotsieve.stream.text.html.titles import MOST_TITLE_WORDS


class _Record(NamedTuple):
    """What is known of a record before the walk. sizes, slots: as of walk.py  row: int64[n], of each page's host

    judged: bool[n], pages that are compared and teach  place: int64[m], of each pair that is met, where in `filed`;
    NOBODY of a candidate that is known to be no original
    worths: of the pages  filed_worth: float64[e], of the entries
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
    worths: Worths
    filed_worth: NDArray[np.float64]


class _Copied(NamedTuple):
    """Of a page that is let through: the earliest page that it is a copy of all the same. All have one element.

    place: int64, in the entries or the record; NOBODY: there is none  within: bool, in the record
    proof: bool, a decisive key found it  sure: bool, as of Answer
    """

    place: NDArray[np.int64]
    within: NDArray[np.bool_]
    proof: NDArray[np.bool_]
    sure: NDArray[np.bool_]


class JudgedWithHosts(NamedTuple):
    """What judging a record of n pages with the memory of its hosts found.

    taught: uint8[n] (TAUGHT_NOTHING, ...)  is_new: bool[n], pages of whose ids nothing was known
    """

    filed: FiledOriginals
    walked: Walked
    learned: Learned
    taught: NDArray[np.uint8]
    is_new: NDArray[np.bool_]


def judge_with_hosts(
    signatures: Signatures,
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    bars: Bars,
    worths: Worths,
    limits: Limits,
    rules: PageRules | None = None,
    alone: bool = False,
) -> JudgedWithHosts:
    """Judge and file the pages of a record in order.

    worths: of the pages  alone: each by itself; none is filed or teaches
    """
    met = meet_filed(slots, buckets, limits.candidates, final_kinds(limits))
    judged = signatures.status == FINGERPRINTED
    page_ids = page_ids_of(signatures)
    attempts = known_attempts(page_ids, judged, view)
    read = recall_record(signatures, met, view, attempts, limits.worth)
    filed = nothing_found(len(page_ids))
    by_page = dict(enumerate(page_ids))
    known = find_known(by_page, judged, met, read, attempts, filed)
    if not alone:
        find_repeated(by_page, judged, known)
    addresses = known_addresses(signatures, read.filed, len(read.numbers), limits, rules)
    place, sizes = read.place(met.number), sizes_of(buckets.bounds)
    walk = walk_hosts(
        signatures,
        slots,
        sizes,
        met,
        place,
        judged,
        read,
        known,
        addresses,
        bars_of_pages(signatures, bars, rules),
        (worths, read.worth),
        limits,
        view.entry_count,
        filed,
        not alone,
    )
    learned = _learned(signatures, judged, walk.walked, filed, known, walk.within, read.memory, page_ids)
    originals = FiledOriginals(filed, read.numbers, read.filed, addresses)
    return JudgedWithHosts(originals, walk.walked, learned, walk.taught, known.state == NEW)


class Walk(NamedTuple):
    """What a walk found. within: as of _Record  taught: uint8[n] (TAUGHT_NOTHING, ...)"""

    walked: Walked
    within: Texts
    taught: NDArray[np.uint8]


def walk_hosts(
    signatures: Signatures,
    slots: Slots,
    sizes: NDArray[np.int64],
    met: Met,
    place: NDArray[np.int64],
    judged: NDArray[np.bool_],
    read: Recalled,
    known: Known,
    addresses: Addresses,
    bars: tuple[NDArray[np.int64], NDArray[np.float64]],
    worths: tuple[Worths, NDArray[np.float64]],
    limits: Limits,
    first_number: int,
    filed: Found,
    learns: bool,
) -> Walk:
    """Judge the pages of a record in order, and have them teach read.memory; columns as of _Record.

    known, filed: what is known of pages by their ids  bars: as of bars_of_pages
    worths: the last two columns of _Record  learns: whether pages are filed and
    teach  first_number: entry number of the next filed page  ->  filed: Found, too
    """
    pages = texts_of(signatures)
    within = nothing_owned(pages)
    record = _Record(slots, sizes, read.row, judged, met, place, pages, read.texts, within, addresses, *worths)
    walked, taught = nothing_walked(slots, len(signatures), len(sizes)), np.zeros(len(signatures), np.uint8)
    scratch = new_cursors(slots), new_asked(), new_answer(), _no_copy()
    capped = _walk_kernel(
        record, known, read.memory, *bars, limits, learns, first_number, filed, walked, taught, *scratch
    )
    return Walk(walked._replace(capped=capped), within, taught)


def _learned(
    signatures: Signatures,
    judged: NDArray[np.bool_],
    walked: Walked,
    filed: Found,
    known: Known,
    within: Texts,
    memory: Memory,
    page_ids: list[PageId],
) -> Learned:
    """What the state is to remember beside postings."""
    texts = owned_texts(signatures, within, np.flatnonzero(walked.entry != NOBODY))
    told, attempts = attempts_of(judged, known, filed, walked)
    return Learned(texts, to_remember(memory), tuple(page_ids[page] for page in told.tolist()), attempts)


def _no_copy() -> _Copied:
    """No page was looked at yet."""
    no = np.zeros(1, np.bool_)
    return _Copied(np.full(1, NOBODY, np.int64), no, no.copy(), no.copy())


@inlined
def _note_copied(found, page, other, within, pair, answer, limits, copied):
    """Note a page that `page` is a copy of but for its address or what both are worth, unless one came before.

    found: Found  page, other: int64  within: bool  pair: Pair  answer: Answer  limits: Limits  ->  copied: _Copied
    """
    passes = found.recrawl[page] or (limits.worth != LENGTH and found.replaced[page] != NOBODY)
    if passes and copied.place[0] == NOBODY:
        copied.place[0], copied.within[0] = other, within
        copied.proof[0], copied.sure[0] = pair.proof != 0, answer.sure[0]


@inlined
def _ask_filed(record, page, memory, asked, bars, limits, answer, copied, found):
    """Weigh the filed pages that a page meets. ... -> found: Found; where the original is in record.filed: int64"""
    met, worth = record.met, record.worths.own[page]
    found.cut[page] = met.cut_at[page] != NEVER
    for at in range(met.bounds[page], met.bounds[page + 1]):
        pair = Pair(met.number[at], met.proof[at], met.kinds[at], met.distance[at])
        other = record.place[at]
        if other == NOBODY:
            found.compared[page] += 1
            continue
        if not pair.proof:
            judge_pair(record.pages, page, record.filed, other, memory, record.row[page], asked, bars, answer)
            found.reason[page] = answer.reason[0]
        if is_refused(found, page, pair, answer.confirmed, 0):
            continue
        relation = relation_to_filed(record.addresses, page, other)
        if weigh(found, page, pair, answer.confirmed, 0, worth, record.filed_worth[other], relation, limits):
            found.cut[page] = at >= met.cut_at[page]
            return other
        _note_copied(found, page, other, False, pair, answer, limits, copied)
    return np.int64(NOBODY)


@inlined
def _ask_record(record, page, memory, asked, bars, limits, filed, walked, cursors, answer, copied):
    """Weigh the earlier pages of the record that a page meets; filed: Found  ->  walked: Walked"""
    found, slots, worth = walked.found, record.slots, record.worths.own[page]
    found.cut[page], found.replaced_worth[page] = filed.cut[page], filed.replaced_worth[page]
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
            judge_pair(record.pages, page, record.within, other, memory, record.row[page], asked, bars, answer)
            found.reason[page] = answer.reason[0]
        if is_refused(found, page, pair, answer.confirmed, 0):
            continue
        relation = relation_within(record.addresses, page, other)
        if weigh(found, page, pair, answer.confirmed, 0, worth, record.worths.met[other], relation, limits):
            break
        _note_copied(found, page, other, True, pair, answer, limits, copied)


@kernel
def _walk_kernel(record, known, memory, chosen, table, limits, learns, entry_number, filed, walked, taught, *scratch):
    # record: _Record  known: Known  memory: Memory  chosen, table: as of bars_of_pages  limits: Limits
    # learns: bool, pages are filed and teach  entry_number: int64  filed: Found
    # ->  walked: Walked, taught: uint8[n]  scratch: Cursors, Asked, Answer, _Copied, written over
    # returns how many filings found their bucket full
    capped = 0
    cursors, asked, answer, copied = scratch
    skipped, no_word = np.zeros(MOST_PRINTS, np.bool_), np.zeros(MOST_TITLE_WORDS, np.bool_)
    pages, found = record.pages, walked.found
    for page in range(len(record.row)):
        if known.state[page] >= FILED_ELSEWHERE:
            if (
                known.state[page] == FILED_ELSEWHERE
                and file_page(record.slots, record.sizes, page, limits.cap, walked.added)[0]
            ):
                walked.entry[page] = entry_number
                entry_number += 1
            continue
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
        copied.place[0] = NOBODY
        original, within = _ask_filed(record, page, memory, asked, bars, limits, answer, copied, filed), False
        proof = filed.proof[page]
        found.cut[page] = filed.cut[page]
        if original == NOBODY and learns:
            _ask_record(record, page, memory, asked, bars, limits, filed, walked, cursors, answer, copied)
            original, within, proof = found.number[page], True, found.proof[page]
        if not learns:
            continue
        number, is_filed = entry_number, False
        if original == NOBODY:
            if record.judged[page]:
                keep_own(pages, record.within, page, asked)
            is_filed, full = file_page(record.slots, record.sizes, page, limits.cap, walked.added)
            capped += full
            if is_filed:
                walked.entry[page] = entry_number
                entry_number += 1
        like, is_proof, is_sure = original, proof != 0, answer.sure[0]
        if original == NOBODY and copied.place[0] != NOBODY:
            # A page that is fetched ten times makes nothing a template, though each of its copies passes.
            like, within, is_proof, is_sure = (
                copied.place[0],
                copied.within[0],
                copied.proof[0],
                copied.sure[0],
            )
        if not record.judged[page] or (like != NOBODY and is_proof):
            continue
        # Where nothing is known of the host, as its memory was forgotten, a sure copy teaches like any page.
        sure = like != NOBODY and is_sure and memory.pages[row] > 0
        taught[page] = TAUGHT_REST if sure else TAUGHT_ALL
        if sure:
            skipped[:] = False
            if within:
                skip_shared(pages, page, record.within, like, asked, skipped)
            else:
                skip_shared(pages, page, record.filed, like, asked, skipped)
        teach_page(memory, row, pages, page, sure, skipped, no_word, number, is_filed)
    return capped
