"""Confirms candidates in the shard that holds their entries, for schemes with a memory of hosts.

A page has nine keys that do not depend on a host, so nearly every shard finds nearly every entry. Only the shard that
an entry's number names holds the entry for all shards. It receives the candidates of all shards, and decides for each
pair with one of its entries whether the page could be a copy: whether they share any text, whatever the memory of the
page's host. The URL, and the text that the shard of a host compares, are sent once.

A shard also sends the template text of pages of its hosts that other shards may compare with pages of the same round.
This depends on the pages of the host only, and on which of them are new. A page is taken as new unless its verdict or
its entry is known here; if that is wrong, the resolver corrects it (hosts.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, StateView
from spotsieve.stream.base.arrays import bounds_of, distinct, distinct_places, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import FINGERPRINTED, DistinctiveText, Entry, SignatureStatus, page_ids_at
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.by_host.confirmation import read_memories
from spotsieve.stream.judge.by_host.containment import (
    ALL_TEXT,
    CONTAINMENT,
    MAIN_TEXT,
    find_shared,
    measure_part,
    new_comparison,
)
from spotsieve.stream.judge.by_host.distinctive_text import (
    LEAST_MAIN,
    MAIN,
    PageTexts,
    new_view,
    restore_view,
    texts_of_entries,
)
from spotsieve.stream.judge.by_host.learning import learn_again
from spotsieve.stream.judge.by_host.page_history import NEW, SETTLED, PageHistory, find_repeated
from spotsieve.stream.sharding.candidates import (
    OF_HOST,
    OPEN,
    REFUSED,
    SentFlags,
    SentTexts,
    ShardCandidates,
    flags_of_pages,
    no_flags,
)
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.shares import Share, shards_of_entries
from spotsieve.stream.sign.schemes import HostThresholds, Scheme

_OF_HOST, _OPEN = np.uint8(OF_HOST), np.uint8(OPEN)
_NUMBER_BITS = 47
"""Bits for an entry number, below the row of a page, which takes at most 16 bits."""
_SHARDS_OF_A_COPY = 3
"""Number of shards (or all, if there are fewer) that find the original of a copy: most of the keys lead to it."""


class EntryPairs(NamedTuple):
    """Pairs of a page and an entry: m pairs. page: int64[m]  number: int64[m], of the entry  proof: uint8[m]"""

    page: NDArray[np.int64]
    number: NDArray[np.int64]
    proof: NDArray[np.uint8]


class ShardConfirmations(NamedTuple):
    """A shard's results for the entries that it holds.

    result: uint8[p] (REFUSED, OF_HOST or OPEN), for all pairs with its entries, in the order of the shards' responses
    numbers: int64[e], ascending, the entries that may be originals
    entries: these entries, by number
    texts: texts of these entries; None if there are no entries
    copies: bool[n], pages that are probably copies of these entries
    flags: flags of pages of the shard's hosts that other shards may compare
    """

    result: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    entries: Mapping[int, Entry]
    texts: SentTexts | None
    copies: NDArray[np.bool_] = np.empty(0, np.bool_)
    flags: SentFlags = no_flags()


class _Tested(NamedTuple):
    """m pairs of a page and an entry that the shard holds.

    result: uint8[m]  alike: bool[m], the entry has most of the text of the page
    sent: the confirmations without these results
    """

    result: NDArray[np.uint8]
    alike: NDArray[np.bool_]
    sent: ShardConfirmations


def confirm(
    round_: Round,
    reads: ShardReads,
    shard_candidates: Sequence[ShardCandidates],
    scheme: Scheme,
    view: StateView,
    share: Share,
) -> ShardConfirmations:
    """Test all pairs with entries of this shard, and find the template text of pages that other shards may compare.

    shard_candidates: the responses of all shards, in the order of the shards
    view: the live part of the shard's state by the clock of the round

    Pairs of pages that are treated as empty are refused without a test: a response may be older than the exclusion of
    such a page.

    Raises ValueError for a scheme without a memory of hosts: its candidates are confirmed in the shard that finds them.
    """
    if scheme.host_thresholds is None or reads.pages is None:
        raise ValueError(f"the scheme {scheme.name} has no memory of hosts")
    signatures = round_.signatures
    parts = [
        _pairs_kernel(one.bounds, one.number, one.proof, shards_of_entries(one.number, share.shards), share.number)
        for one in shard_candidates
    ]
    every = EntryPairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    is_judged = signatures.status != SignatureStatus.EMPTY
    judged = is_judged[every.page]
    pairs = EntryPairs(*(column[judged] for column in every))
    originals = _originals(shard_candidates, is_judged)
    originals = originals[shards_of_entries(originals, share.shards) == share.number]
    # A pending verdict is void if its original is gone.
    alive = [page_id is not None for page_id in view.page_ids(originals.astype(np.uint64))]
    found = _test(reads.pages, pairs, originals[np.array(alive, np.bool_)], scheme.host_thresholds, view)
    result = np.full(len(judged), REFUSED, np.uint8)
    result[judged] = found.result
    copies = _seeming_copies(pairs, found, len(signatures), share.shards)
    flags = _flags_to_send(round_, reads, reads.pages, shard_candidates, scheme.host_thresholds, view)
    return found.sent._replace(result=result, copies=copies, flags=flags)


def apply_confirmations(
    shard_candidates: Sequence[ShardCandidates], confirmations: Sequence[ShardConfirmations]
) -> list[ShardCandidates]:
    """The responses of all shards, completed by the results of the shards that hold the entries.

    shard_candidates, confirmations: both in the order of the shards

    Raises ValueError if the confirmations belong to other responses.
    """
    result = np.concatenate([one.result for one in confirmations])
    reached = bounds_of([len(one.result) for one in confirmations])
    ends, at = reached[1:], reached[:-1].copy()
    gone, found = _gone(shard_candidates, confirmations), list[ShardCandidates]()
    for one, confirmed in zip(shard_candidates, confirmations, strict=True):
        of_pairs = _results_kernel(shards_of_entries(one.number, len(confirmations)), result, at, ends)
        valid = {page: pending for page, pending in one.pending_verdicts.items() if pending.original not in gone}
        found.append(
            one._replace(
                result=of_pairs,
                numbers=confirmed.numbers,
                entries=confirmed.entries,
                texts=confirmed.texts,
                pending_verdicts=valid,
                copies=confirmed.copies,
                flags=confirmed.flags,
            )
        )
    if (at != ends).any():
        raise ValueError("the confirmations must be about the pairs of the candidates")
    return found


def _seeming_copies(pairs: EntryPairs, tested: _Tested, pages: int, shards: int) -> NDArray[np.bool_]:
    """Pages that are probably copies of these entries, for the speculation (hosts.py): bool[n].

    A page is one of them if it finds an entry under a decisive key, if an entry of another host has most of its text,
    or if several shards find the same entry of its own host for it: pages that share that many keys rarely
    differ.
    """
    found, decides = np.zeros(pages, np.bool_), pairs.proof != 0
    found[pairs.page[decides | tested.alike]] = True
    of_host = ~decides & (tested.result == OF_HOST)
    packed = np.sort(pairs.page[of_host] << _NUMBER_BITS | pairs.number[of_host])
    further = min(shards, _SHARDS_OF_A_COPY) - 1
    found[packed[further:][packed[further:] == packed[: len(packed) - further]] >> _NUMBER_BITS] = True
    return found


def _originals(shard_candidates: Sequence[ShardCandidates], is_judged: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The entries that pending verdicts of these pages name: int64[...], ascending. is_judged: bool[n]"""
    pending_verdicts = (pair for one in shard_candidates for pair in one.pending_verdicts.items())
    named = [pending.original for row, pending in pending_verdicts if is_judged[row] and pending.original != NOBODY]
    return distinct(np.array(named, np.int64))


def _gone(shard_candidates: Sequence[ShardCandidates], confirmations: Sequence[ShardConfirmations]) -> set[int]:
    """The entries that pending verdicts name but no shard holds."""
    pending_verdicts = (pending for one in shard_candidates for pending in one.pending_verdicts.values())
    named = {pending.original for pending in pending_verdicts if pending.original != NOBODY}
    return named.difference(*(one.numbers.tolist() for one in confirmations)) if named else named


def _test(
    pages: PageTexts, pairs: EntryPairs, originals: NDArray[np.int64], thresholds: HostThresholds, view: StateView
) -> _Tested:
    """Test pairs whose entries the shard holds. originals: int64[...], ascending, the originals of pending verdicts"""
    numbers, result = distinct(np.concatenate([pairs.number, originals])), np.full(len(pairs.page), REFUSED, np.uint8)
    alike = np.zeros(len(pairs.page), np.bool_)
    if not len(numbers):
        return _Tested(result, alike, ShardConfirmations(result, numbers, {}, None))
    place = np.searchsorted(numbers, pairs.number)
    indexed = view.indexed(numbers.astype(np.uint64))
    compared, text = indexed.compared(False), indexed.distinctive_texts()
    others = texts_of_entries(compared.host, text)
    no_template = np.zeros(len(pages.blocks), np.uint8)
    _test_kernel(pairs, place, pages, others, thresholds, no_template, new_view(), new_comparison(), result, alike)
    is_open = np.zeros(len(numbers), np.bool_)
    is_open[place[result == OPEN]] = True
    decided = is_open | np.isin(numbers, originals)
    decided[place[pairs.proof != 0]] = True
    sent = np.flatnonzero(decided)
    texts = SentTexts(
        compared.host[sent], compared.feature_count[sent], _distinctive_texts_at(text, sent, is_open[sent])
    )
    entries = dict(zip(numbers[sent].tolist(), indexed.entries(sent), strict=True))
    return _Tested(result, alike, ShardConfirmations(result, numbers[sent], entries, texts))


def _distinctive_texts_at(
    text: DistinctiveText, rows: NDArray[np.int64], compared: NDArray[np.bool_]
) -> DistinctiveText:
    """The distinctive texts at these rows, emptied where `compared`, bool[r], is False. rows: int64[r], ascending"""
    which = np.zeros(len(text.site), np.bool_)
    which[rows[compared]] = True
    ragged = list[NDArray[Any]]()
    for column, bounds in (
        (text.sample, text.sample_bounds),
        (text.blocks, text.block_bounds),
        (text.titles, text.title_bounds),
    ):
        sizes = sizes_of(bounds)
        ragged += [column[np.repeat(which, sizes)], bounds_of((sizes * which)[rows])]
    main, whole, every = (np.where(compared, size[rows], np.uint8(0)) for size in (text.main, text.whole, text.every))
    limit = np.where(compared, text.limit[rows], np.uint32(0))
    return DistinctiveText(text.site[rows], main, whole, every, limit, *ragged)


def _flags_to_send(
    round_: Round,
    reads: ShardReads,
    pages: PageTexts,
    shard_candidates: Sequence[ShardCandidates],
    thresholds: HostThresholds,
    view: StateView,
) -> SentFlags:
    """The flags of pages of the shard's hosts that share candidate keys with pages of other shards."""
    signatures = round_.signatures
    judged = reads.own_pages & (signatures.status == FINGERPRINTED)
    kept = judged & reads.shared
    if not kept.any():
        return no_flags()
    judged &= np.isin(signatures.host, signatures.host[kept])
    hosts, of_judged = distinct_places(signatures.host[judged])
    row = np.full(len(signatures), NOBODY)
    row[judged] = of_judged
    memory = read_memories(signatures, hosts, row, view)
    no_entries = np.full(len(signatures), NOBODY)
    mine = reads.own_pages & (signatures.status != SignatureStatus.EMPTY)
    learned = learn_again(
        *(signatures, pages, row, memory, _seem_new(round_, mine, judged, shard_candidates, view)),
        *(kept, thresholds.template_share, no_entries, round_.first_number),
    )
    return flags_of_pages(signatures, learned.flags, kept)


def _seem_new(
    round_: Round,
    mine: NDArray[np.bool_],
    judged: NDArray[np.bool_],
    shard_candidates: Sequence[ShardCandidates],
    view: StateView,
) -> NDArray[np.bool_]:
    """Pages that were not judged before, as far as the shard can tell: bool[n].

    mine: bool[n], pages that the shard resolves  judged: bool[n], those of them that matter
    """
    rows = np.flatnonzero(mine)
    page_ids = dict(zip(rows.tolist(), page_ids_at(round_.signatures, rows), strict=True))
    history = PageHistory(np.full(len(judged), NEW, np.uint8), np.full(len(judged), NOBODY, np.int64))
    for one in shard_candidates:
        for page, pending in one.pending_verdicts.items():
            if pending.original == NOBODY or pending.original >= round_.clock.floor:
                history.state[page] = SETTLED
        page_of = np.repeat(np.arange(len(judged)), sizes_of(one.bounds))
        pairs = np.flatnonzero((one.proof & KeyKind.BODY != 0) & judged[page_of])
        entries = view.page_ids(one.number[pairs].astype(np.uint64))
        for row, page_id in zip(page_of[pairs].tolist(), entries, strict=True):
            if page_id == page_ids[row]:
                history.state[row] = SETTLED
    find_repeated(page_ids, judged, history)
    return np.asarray(history.state == NEW)


@kernel
def _pairs_kernel(bounds, number, proof, holder, shard):
    # bounds: int64[n + 1]  number, holder: int64[m]  proof: uint8[m]  shard: int64
    # ->  the pairs whose entries the shard holds: the columns of EntryPairs
    pages, numbers, proofs = np.empty(len(number), np.int64), np.empty(len(number), np.int64), np.empty_like(proof)
    some = 0
    for page in range(len(bounds) - 1):
        for at in range(bounds[page], bounds[page + 1]):
            pages[some], numbers[some], proofs[some] = page, number[at], proof[at]
            some += holder[at] == shard
    return pages[:some], numbers[:some], proofs[:some]


@kernel
def _results_kernel(holder, result, at, ends):
    # holder: int64[m], the shard of each entry  result: uint8[p], the results of all shards, shard by shard
    # at, ends: int64[S], where the unread results of each shard begin and end
    # ->  uint8[m]; at: int64[S], moved on. If a shard has too few results, its `at` moves beyond its end.
    found = np.zeros(len(holder), np.uint8)
    for pair in range(len(holder)):
        shard = holder[pair]
        if at[shard] < ends[shard]:
            found[pair] = result[at[shard]]
        at[shard] += 1
    return found


@kernel
def _test_kernel(pairs, place, pages, others, thresholds, no_template, view, compared, result, alike):
    # pairs: EntryPairs, m  place: int64[m], in others  pages: PageTexts  others: EntryTexts  thresholds: HostThresholds
    # no_template: uint8[b], zeros  view: PageView, compared: Comparison, overwritten
    # ->  result: uint8[m]; alike: bool[m], the entry has most of the text of the page, whatever is template text
    restored = np.int64(NOBODY)
    for at in range(len(place)):
        if pairs.proof[at]:
            continue
        page, other = pairs.page[at], place[at]
        if pages.host[page] == others.host[other]:
            result[at] = _OF_HOST
        elif not thresholds.one_host and find_shared(pages, page, others, other, compared):
            result[at] = _OPEN
            if page != restored:
                restore_view(pages, page, no_template, view)
                restored = page
            part = MAIN_TEXT if view.figures[MAIN] >= LEAST_MAIN else ALL_TEXT
            measure_part(part, pages, page, view, compared)
            is_contained = compared.figures[part, CONTAINMENT] >= thresholds.min_containment
            alike[at] = is_contained and not compared.says_little[part]
