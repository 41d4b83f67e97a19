"""Resolves a round in the shards of its hosts by speculation, checks the speculation, and merges the resolutions.

Pages are compared by their distinctive text, which depends on the memory of their hosts. So the shard of a host
resolves its pages in log order, with the kernel that one process uses. The responses of all shards contain the
candidates of its pages among the indexed pages. Whether a page of the same round, of a host of another shard, is
indexed is unknown; the shard takes it from a speculation. The resolver compares the speculation with the results of the
other shards. If a page depends on a wrong assumption, all shards resolve the round again with a better speculation. The
first wrong page of one resolution is right in the next, so the repetition ends, with the result of one process.

The template text of such a page is in the confirmations of its shard (confirmation.py). It does not depend on verdicts.
It is wrong only if a page that was judged before was taken as new, or the reverse; then the next speculation has the
template text that the resolution found.

A wrong assumption about a page of another shard puts that page into buckets, or keeps it out, and so changes which
later pages find room in these buckets. A later page depends on the assumption if its search for the original reaches a
page that this affects, and the difference matters: the key is decisive, the page may have more candidates than the
limit, the other page is the original (all keys that lead to the original are reported), or the two share text. The
search ends at the original. So a third copy of a story does not depend on the second one. No other assumption decides
whether a page is indexed: a page without an original fits into the bucket of its body digest, which holds no other
page.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, CommonWindows, IndexedEntries, PendingVerdict, StateView
from spotsieve.stream.base.arrays import distinct, distinct_places
from spotsieve.stream.base.signature import FINGERPRINTED, Entry, is_judged, page_ids_at
from spotsieve.stream.judge import verdicts_of
from spotsieve.stream.judge.by_host.confirmation import HostContext
from spotsieve.stream.judge.by_host.criteria import thresholds_of_pages
from spotsieve.stream.judge.by_host.distinctive_text import (
    EntryTexts,
    PageTexts,
    empty_entry_texts,
    no_texts,
    texts_of_entries,
)
from spotsieve.stream.judge.by_host.learning import keep_texts
from spotsieve.stream.judge.by_host.page_history import ELSEWHERE, INDEXED_ELSEWHERE, NEW, find_loaded, find_repeated
from spotsieve.stream.judge.by_host.resolution import resolve_with_hosts
from spotsieve.stream.judge.indexed import IndexedOriginals
from spotsieve.stream.judge.policy import no_urls, preferences_of_pages
from spotsieve.stream.judge.resolution import Resolution
from spotsieve.stream.judge.rules import Limits, OriginalSearch, empty_search, final_kinds
from spotsieve.stream.judge.slots import Postings
from spotsieve.stream.sharding.candidates import (
    OF_HOST,
    SentFlags,
    ShardCandidates,
    Speculation,
    flags_of_pages,
    merge_candidates,
    no_flags,
    put_flags,
)
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.resolution import RoundOutcome, bucket_sizes, counted_postings, make_outcome
from spotsieve.stream.sharding.responses import SentEntries, find_host_candidates
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sign.schemes import Scheme


class HostResolutions(NamedTuple):
    """A shard's resolution of the k pages of its hosts.

    rows: int64[k], in the round, without excluded pages
    indexed, within: the originals of the k pages among the indexed pages, and among the pages of the round
    is_indexed: bool[k], the page becomes indexed  is_new: bool[k], its verdict was not recorded before
    flags: uint8[c], the flags of the blocks of indexed pages (SentFlags)
    postings: int64[k], postings in the buckets of the shard's hosts, and postings that the round adds
    entries: the shard's own entries that are originals or replaced pages, by number
    """

    rows: NDArray[np.int64]
    indexed: OriginalSearch
    within: OriginalSearch
    is_indexed: NDArray[np.bool_]
    is_new: NDArray[np.bool_]
    flags: NDArray[np.uint8]
    postings: NDArray[np.int64]
    entries: Mapping[int, Entry]


class _EntrySources:
    """The shard's own entries and the entries that other shards sent; each is looked up in its source."""

    def __init__(self, own: IndexedEntries | None, of_own: int, sent: SentEntries, order: NDArray[np.int64]) -> None:
        self._own, self._of_own, self._sent, self._order = own, of_own, sent, order

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """The entries at these places, for verdicts. places: int64[a]"""
        place = self._order[places]
        is_own, found = place < self._of_own, np.empty(len(places), np.object_)
        if self._own is not None:
            found[is_own] = self._own.entries(place[is_own])
        found[~is_own] = self._sent.entries(place[~is_own] - self._of_own)
        return list(found)


def first_speculation(round_: Round, shard_candidates: Sequence[ShardCandidates]) -> Speculation:
    """Which pages become indexed, as far as the responses show. Every speculation leads to the same verdicts.

    A page is assumed to be a copy if an earlier page has the same digest, or if the shard that holds an entry reports
    it as a probable copy of that entry. shard_candidates: of all shards, with confirmations
    """
    digest = round_.signatures.digest[:, 0]
    order = np.argsort(digest, kind="stable")
    indexed, again = np.ones(len(digest), np.bool_), digest[order[1:]] == digest[order[:-1]]
    indexed[order[1:][again]] = False
    for one in shard_candidates:
        if one.copies is not None:
            indexed &= ~one.copies
    # A resolution from before a page was excluded had another speculation, or contains that page.
    return Speculation(indexed, no_flags()).without(round_.excluded)


def resolve_hosts(
    round_: Round,
    reads: ShardReads,
    scheme: Scheme,
    view: StateView,
    limits: Limits,
    shard_candidates: Sequence[ShardCandidates],
    speculation: Speculation,
) -> HostResolutions:
    """Judge the pages of the shard's hosts.

    view: the live part of the shard's state by the clock of the round
    shard_candidates: of all shards, with confirmations

    Raises ValueError for a scheme without a memory of hosts.
    """
    if scheme.host_thresholds is None or reads.pages is None or reads.common is None:
        raise ValueError(f"the scheme {scheme.name} has no memory of hosts")
    signatures = round_.signatures
    mine = reads.own_pages.copy()
    mine[list(round_.excluded)] = False
    local = find_host_candidates(reads, limits)
    responses = [*shard_candidates, local]
    merged = merge_candidates(responses, limits.candidates, final_kinds(limits), mine)
    pairs, judged = merged.pairs, mine & is_judged(signatures.status)
    pending_verdicts: list[PendingVerdict | None] = [None] * len(signatures)
    for one in shard_candidates:
        for page, pending in one.pending_verdicts.items():
            pending_verdicts[page] = pending if mine[page] else None
    sent = SentEntries([one.entries for one in shard_candidates])
    of_host = pairs.number[(merged.result == OF_HOST) & (pairs.proof == 0)]
    read = _load(round_, of_host, mine, shard_candidates, sent, view, reads.pages, reads.common)
    rows, indexed = np.flatnonzero(mine), empty_search(len(signatures))
    page_ids = dict(zip(rows.tolist(), page_ids_at(signatures, rows), strict=True))
    history = find_loaded(page_ids, judged, pairs, read, pending_verdicts, indexed)
    find_repeated(page_ids, judged, history)
    history.state[~mine] = np.where(speculation.indexed, INDEXED_ELSEWHERE, ELSEWHERE)[~mine]
    flags, shown = sent_flags(round_, shard_candidates, speculation)
    within = empty_entry_texts(signatures)
    keep_texts(reads.pages, flags, shown & reads.shared & ~mine & speculation.indexed, within)
    place = np.where((pairs.proof == 0) & (merged.result < OF_HOST), NOBODY, read.place(pairs.number))
    sizes = bucket_sizes(reads.laid, [one.sizes for one in responses])
    judged_hosts = resolve_with_hosts(
        signatures,
        reads.laid.slots,
        sizes,
        pairs,
        place,
        judged,
        read,
        history,
        no_urls(len(signatures), len(read.numbers)),
        thresholds_of_pages(signatures, scheme.host_thresholds, None),
        (preferences_of_pages(signatures, limits.preference), read.preference),
        limits,
        round_.first_number,
        indexed,
        learns=True,
        within=within,
    )
    resolution = judged_hosts.resolution
    is_indexed = resolution.entry[rows] != NOBODY
    originals = distinct(np.concatenate([indexed.number[rows], indexed.replaced[rows]]))
    originals = originals[(originals != NOBODY) & ~np.isin(originals, sent.numbers)]
    entries = read.indexed.entries(read.place(originals)) if read.indexed is not None else []
    return HostResolutions(
        rows,
        take_rows(indexed, rows),
        take_rows(resolution.found, rows),
        is_indexed,
        history.state[rows] == NEW,
        flags_of_pages(signatures, judged_hosts.flags, mine & (resolution.entry != NOBODY)).flags,
        counted_postings(resolution, reads.laid, sizes, [local])[rows],
        dict(zip(originals.tolist(), entries, strict=True)),
    )


def take_rows(found: OriginalSearch, rows: NDArray[np.int64] | NDArray[np.bool_]) -> OriginalSearch:
    """The results of some pages. rows: their rows, or bool[n]"""
    columns = {name: column[rows] for name, column in found._asdict().items()}
    return OriginalSearch(**columns)


def _load(
    round_: Round,
    of_host: NDArray[np.int64],
    mine: NDArray[np.bool_],
    shard_candidates: Sequence[ShardCandidates],
    sent: SentEntries,
    view: StateView,
    pages: PageTexts,
    common: CommonWindows,
) -> HostContext:
    """Load the parts of the state and of the responses that the resolution needs.

    of_host: int64[...], entries of the shard's own hosts  sent: the entries in the responses of all shards
    """
    signatures = round_.signatures
    hosts, row = distinct_places(signatures.host[mine])
    rows = np.full(len(signatures), NOBODY)
    rows[mine] = row
    memories = view.memories(hosts)
    own_numbers = distinct(of_host).astype(np.uint64)
    texts, lengths, indexed = [no_texts()], [np.empty(0, np.uint32)], None
    if len(own_numbers):
        indexed = view.indexed(own_numbers)
        compared = indexed.compared(False)
        texts.append(texts_of_entries(compared.host, indexed.distinctive_texts()))
        lengths.append(compared.feature_count)
    by_shard = [np.empty(0, np.int64)]
    for one in shard_candidates:
        if one.texts is not None:
            by_shard.append(one.numbers)
            texts.append(texts_of_entries(one.texts.host, one.texts.own))
            lengths.append(one.texts.length)
    numbers = np.concatenate([own_numbers, sent.numbers.astype(np.uint64)])
    place = np.concatenate([np.arange(len(own_numbers)), len(own_numbers) + np.argsort(np.concatenate(by_shard))])
    # If an own entry was sent too, the shard's own state wins: only there the entry has all its distinctive text.
    different, order = np.unique(numbers, return_index=True)
    gathered = _EntrySources(indexed, len(own_numbers), sent, order) if len(different) else None
    preference = np.concatenate(lengths)[place[order]].astype(np.float64)
    chosen = _chosen(_joined(texts), place[order])
    return HostContext(rows, memories, different, gathered, chosen, pages, common, preference)


_RAGGED = (
    ("sample", "sample_first", "sample_end"),
    ("blocks", "block_first", "block_end"),
    ("titles", "title_first", "title_end"),
)
"""The columns of EntryTexts that have any number of values for a page, with the names of their bounds."""


def _joined(parts: Sequence[EntryTexts]) -> EntryTexts:
    """The rows of all parts, one part after the other."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in EntryTexts._fields}
    for ragged, first, end in _RAGGED:
        # Rows of a part point into its own columns, which come after those of the parts before.
        before = np.cumsum([0, *(len(getattr(part, ragged)) for part in parts[:-1])])
        shift = np.repeat(before, [len(part.host) for part in parts])
        columns[first] += shift
        columns[end] += shift
    return EntryTexts(**columns)


def _chosen(texts: EntryTexts, rows: NDArray[np.int64]) -> EntryTexts:
    """The texts at these rows, in this order; samples, blocks and titles are not copied."""
    ragged = {name for name, _, _ in _RAGGED}
    columns = {name: column if name in ragged else column[rows] for name, column in texts._asdict().items()}
    return EntryTexts(**columns)


def sent_flags(
    round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: Speculation
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The flags that shards have sent, and those of the speculation: uint8[b]. And the pages with flags: bool[n]"""
    signatures = round_.signatures
    flags, shown = np.zeros(len(signatures.blocks), np.uint8), np.zeros(len(signatures), np.bool_)
    for one in shard_candidates:
        put_flags(signatures, one.flags or no_flags(), flags, shown)
    put_flags(signatures, speculation.flags, flags, shown)
    return flags, shown & (signatures.status == FINGERPRINTED)


_NONE, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)
_NO_POSTINGS = Postings(_NONE, _NONE, _NO_WORDS, _NO_WORDS)
"""The resolver itself indexes nothing."""


def indexed_flags(round_: Round, resolutions: Sequence[HostResolutions]) -> NDArray[np.uint8]:
    """The flags of all indexed pages: uint8[b]. resolutions: the resolutions of all shards"""
    signatures = round_.signatures
    flags, marked = np.zeros(len(signatures.blocks), np.uint8), np.zeros(len(signatures), np.bool_)
    for one in resolutions:
        put_flags(signatures, SentFlags(one.rows[one.is_indexed], one.flags), flags, marked)
    return flags


def merge_resolutions(
    round_: Round,
    scheme: Scheme,
    shard_candidates: Sequence[ShardCandidates],
    resolutions: Sequence[HostResolutions],
    postings: NDArray[np.int64],
) -> RoundOutcome:
    """The outcome of a round.

    resolutions: the resolutions of all shards; no page depends on a wrong assumption
    postings: int64[n], postings that the resolutions did not count (SpeculationCheck)
    """
    signatures = round_.signatures
    pages = len(signatures)
    indexed, within = empty_search(pages), empty_search(pages)
    is_indexed, is_new = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    postings = postings.copy()
    for one in shard_candidates:
        postings += one.postings
    for of_hosts in resolutions:
        rows = of_hosts.rows
        _put(indexed, rows, of_hosts.indexed)
        _put(within, rows, of_hosts.within)
        is_indexed[rows], is_new[rows] = of_hosts.is_indexed, of_hosts.is_new
        postings[rows] += of_hosts.postings
    entry = np.where(is_indexed, round_.first_number + np.cumsum(is_indexed) - 1, NOBODY)
    resolution = Resolution(within, postings, entry, _NO_POSTINGS, 0)
    sent = SentEntries([*(one.entries for one in shard_candidates), *(one.entries for one in resolutions)])
    originals = IndexedOriginals(indexed, sent.numbers.astype(np.uint64), sent, no_urls(pages, 1))
    verdicts = verdicts_of(signatures, scheme, originals, resolution)
    resolved = make_outcome(round_, verdicts, originals, resolution)
    flags = flags_of_pages(signatures, indexed_flags(round_, resolutions), is_indexed).flags
    return resolved._replace(flags=flags, is_new=is_new)


def _put(found: OriginalSearch, rows: NDArray[np.int64], some: OriginalSearch) -> None:
    """Write the results of these pages. rows: int64[k]"""
    for name, values in some._asdict().items():
        getattr(found, name)[rows] = values
