"""Resolves a round in the shards of its hosts by speculation, checks the speculation, and merges the resolutions.

Two pages of one host are compared by their distinctive text, which depends on the memory of the host. The memory at a
page depends on the verdicts of the host's earlier pages. So the shard of a host resolves its pages in log order, with
the kernel that one process uses. The responses of all shards contain the candidates of its pages among the indexed
pages. Whether a page of the same round, of a host of another shard, is indexed is unknown; the shard takes it from a
speculation. The resolver compares the speculation with the results of the other shards. If a page depends on a wrong
assumption, all shards resolve the round again with a better speculation. The first wrong page of one attempt is right
in the next, so the repetition ends, with the result of one process.

A wrong assumption about a page of another shard puts that page into buckets, or keeps it out, and so changes which
later pages find room in these buckets. A later page depends on the assumption if its search for the original reaches a
page that this affects, and the difference matters: the key is decisive, the page may have more candidates than the
limit, the other page is the original (all keys that lead to the original are reported), or the two could be copies
whatever the memories of hosts contain. The search ends at the original. So a third copy of a story does not depend on
the second one. No other assumption decides whether a page is indexed: a page without an original fits into the bucket
of its body digest, which holds no other page.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, IndexedEntries, PendingVerdict, StateView
from spotsieve.stream.base.arrays import distinct, distinct_places, places_in, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import FINGERPRINTED, Entry, page_ids_at
from spotsieve.stream.judge import verdicts_of
from spotsieve.stream.judge.by_host.confirmation import HostContext, no_texts
from spotsieve.stream.judge.by_host.distinctive_text import Texts, estimated_jaccard, texts_of, texts_of_entries
from spotsieve.stream.judge.by_host.memory import live_leads, load_leads, load_memories
from spotsieve.stream.judge.by_host.page_history import ELSEWHERE, FILED_ELSEWHERE, NEW, find_loaded, find_repeated
from spotsieve.stream.judge.by_host.pairs import could_be_copy_across
from spotsieve.stream.judge.by_host.resolution import resolve_with_hosts
from spotsieve.stream.judge.by_host.thresholds import thresholds_of_pages
from spotsieve.stream.judge.indexed import IndexedOriginals
from spotsieve.stream.judge.policy import no_urls, preferences_of_pages
from spotsieve.stream.judge.resolution import Resolution
from spotsieve.stream.judge.rules import Limits, OriginalSearch, empty_search, final_kinds
from spotsieve.stream.judge.slots import Postings
from spotsieve.stream.sharding.candidates import OF_HOST, ShardCandidates, merge_candidates
from spotsieve.stream.sharding.keys import ShardReads, lay_out_keys
from spotsieve.stream.sharding.resolution import RoundOutcome, counted_postings, known_sizes, make_outcome
from spotsieve.stream.sharding.responses import SentEntries, find_host_candidates
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sign.schemes import Scheme


class HostResolutions(NamedTuple):
    """A shard's resolution of the k pages of its hosts.

    rows: int64[k], in the round, without excluded pages
    indexed, within: the originals of the k pages among the indexed pages, and among the pages of the round
    is_indexed: bool[k], the page becomes indexed  taught: uint8[k], what the page taught the memory of its host
    is_new: bool[k], its verdict was not recorded before
    postings: int64[k], postings in the buckets of the shard's hosts, and postings that the round adds
    entries: the shard's own entries that are originals or replaced pages, by number
    """

    rows: NDArray[np.int64]
    indexed: OriginalSearch
    within: OriginalSearch
    is_indexed: NDArray[np.bool_]
    taught: NDArray[np.uint8]
    is_new: NDArray[np.bool_]
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


def first_speculation(round_: Round, shard_candidates: Sequence[ShardCandidates]) -> NDArray[np.bool_]:
    """Which pages become indexed, as far as the responses show: bool[n]. Every speculation leads to the same verdicts.

    A page is assumed to be a copy if an earlier page has the same digest, or if the shard that holds an entry reports
    it as a probable copy of that entry. shard_candidates: of all shards, with confirmations
    """
    digest = round_.signatures.digest[:, 0]
    order = np.argsort(digest, kind="stable")
    speculation, again = np.ones(len(digest), np.bool_), digest[order[1:]] == digest[order[:-1]]
    speculation[order[1:][again]] = False
    for one in shard_candidates:
        if one.copies is not None:
            speculation &= ~one.copies
    # A resolution from before a page was excluded had another speculation, or contains that page.
    speculation[list(round_.excluded)] = False
    return speculation


def resolve_hosts(
    round_: Round,
    held: ShardReads,
    scheme: Scheme,
    view: StateView,
    limits: Limits,
    shard_candidates: Sequence[ShardCandidates],
    speculation: NDArray[np.bool_],
) -> HostResolutions:
    """Judge the pages of the shard's hosts.

    view: the live part of the shard's state by the clock of the round
    shard_candidates: of all shards, with confirmations
    speculation: bool[n], the pages that are assumed to become indexed

    Raises ValueError for a scheme without a memory of hosts.
    """
    if scheme.bars is None:
        raise ValueError(f"the scheme {scheme.name} has no memory of hosts")
    signatures = round_.signatures
    mine = held.walks.copy()
    mine[list(round_.excluded)] = False
    local = find_host_candidates(held, limits)
    answers = [*shard_candidates, local]
    merged = merge_candidates(answers, limits.candidates, final_kinds(limits), mine)
    met, judged = merged.met, mine & (signatures.status == FINGERPRINTED)
    pending_verdicts: list[PendingVerdict | None] = [None] * len(signatures)
    for one in shard_candidates:
        for page, attempt in one.pending_verdicts.items():
            pending_verdicts[page] = attempt if mine[page] else None
    sent = SentEntries([one.entries for one in shard_candidates])
    of_host = met.number[(merged.said == OF_HOST) & (met.proof == 0)]
    read = _recall(round_, of_host, mine, shard_candidates, sent, view)
    rows, indexed = np.flatnonzero(mine), empty_search(len(signatures))
    page_ids = dict(zip(rows.tolist(), page_ids_at(signatures, rows), strict=True))
    known = find_loaded(page_ids, judged, met, read, pending_verdicts, indexed)
    find_repeated(page_ids, judged, known)
    known.state[~mine] = np.where(speculation, FILED_ELSEWHERE, ELSEWHERE)[~mine]
    place = np.where((met.proof == 0) & (merged.said < OF_HOST), NOBODY, read.place(met.number))
    sizes = known_sizes(held.laid, [one.sizes for one in answers])
    walk = resolve_with_hosts(
        signatures,
        held.laid.slots,
        sizes,
        met,
        place,
        judged,
        read,
        known,
        no_urls(len(signatures), len(read.numbers)),
        thresholds_of_pages(signatures, scheme.bars, None),
        (preferences_of_pages(signatures, limits.preference), read.preference),
        limits,
        round_.first_number,
        indexed,
        learns=True,
    )
    resolution = walk.resolution
    named = distinct(np.concatenate([indexed.number[rows], indexed.replaced[rows]]))
    named = named[(named != NOBODY) & ~np.isin(named, sent.numbers)]
    entries = read.indexed.entries(read.place(named)) if read.indexed is not None else []
    return HostResolutions(
        rows,
        take_rows(indexed, rows),
        take_rows(resolution.found, rows),
        resolution.entry[rows] != NOBODY,
        walk.taught[rows],
        known.state[rows] == NEW,
        counted_postings(resolution, held.laid, sizes, [local])[rows],
        dict(zip(named.tolist(), entries, strict=True)),
    )


def take_rows(found: OriginalSearch, rows: NDArray[np.int64] | NDArray[np.bool_]) -> OriginalSearch:
    """The results of some pages. rows: their rows, or bool[n]"""
    columns = {name: column[rows] for name, column in found._asdict().items()}
    return OriginalSearch(**columns)


def _recall(
    round_: Round,
    of_host: NDArray[np.int64],
    mine: NDArray[np.bool_],
    shard_candidates: Sequence[ShardCandidates],
    sent: SentEntries,
    view: StateView,
) -> HostContext:
    """Load the parts of the state and of the responses that the resolution needs.

    of_host: int64[...], entries of the shard's own hosts  sent: the entries in the responses of all shards
    """
    signatures = round_.signatures
    hosts, row = distinct_places(signatures.host[mine])
    memories = view.memories(hosts)
    memory, leads = load_memories(memories), live_leads(memories, view)
    own_numbers = distinct(np.concatenate([of_host, leads])).astype(np.uint64)
    parts, indexed = list[Texts](), None
    if len(own_numbers):
        indexed = view.indexed(own_numbers)
        compared, own = indexed.compared(False), indexed.own_texts()
        load_leads(memory, leads, places_in(own_numbers, leads), own)
        parts.append(texts_of_entries(compared.host, compared.feature_count, compared.sketch, own))
    parts.append(_sent_texts(sent.numbers, shard_candidates, signatures.sketch.shape[1]))
    numbers = np.concatenate([own_numbers, sent.numbers.astype(np.uint64)])
    # If an own entry was sent too, the shard's own state wins: only there the entry has all its distinctive text.
    different, order = np.unique(numbers, return_index=True)
    rows = np.zeros(len(signatures), np.int64)
    rows[mine] = row
    texts = _chosen(_joined(parts), order)
    gathered = _EntrySources(indexed, len(own_numbers), sent, order) if len(different) else None
    return HostContext(rows, memory, different, gathered, texts, texts.length.astype(np.float64))


def _sent_texts(numbers: NDArray[np.int64], shard_candidates: Sequence[ShardCandidates], words: int) -> Texts:
    """The texts of these entries, each sent by the shard that holds the entry. numbers: int64[e], ascending"""
    found = [one.texts for one in shard_candidates if one.texts is not None]
    if not found:
        return no_texts(words)
    every = np.concatenate([one.numbers for one in shard_candidates if one.texts is not None])
    order = np.argsort(every)
    return _chosen(_joined([texts_of_entries(*one) for one in found]), order[np.searchsorted(every[order], numbers)])


def _joined(parts: Sequence[Texts]) -> Texts:
    """The rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("host", "length", "sketch", "site", "share", "listed", "prints", "titles")
    }
    for ragged, names in (("prints", ("print_first", "print_end")), ("titles", ("title_first", "title_end"))):
        sizes = [len(getattr(part, ragged)) for part in parts]
        before = np.cumsum([0, *sizes[:-1]])
        for name in names:
            columns[name] = np.concatenate(
                [getattr(part, name) + start for part, start in zip(parts, before.tolist(), strict=True)]
            )
    return Texts(**columns)


def _chosen(texts: Texts, rows: NDArray[np.int64]) -> Texts:
    """The texts at these rows, in this order; block fingerprints and titles are not copied."""
    columns = {
        name: column if name in ("prints", "titles") else column[rows] for name, column in texts._asdict().items()
    }
    return Texts(**columns)


_NONE, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)
_NO_POSTINGS = Postings(_NONE, _NONE, _NO_WORDS, _NO_WORDS)
"""The resolver itself indexes nothing."""


class SpeculationCheck(NamedTuple):
    """The result of the check of a speculation.

    speculation: bool[n], a better speculation if a page depends on a wrong assumption; None if none does
    postings: int64[n], postings in the buckets of each page that its resolution did not count
    """

    speculation: NDArray[np.bool_] | None
    postings: NDArray[np.int64]


def check_speculation(
    round_: Round,
    scheme: Scheme,
    limits: Limits,
    shard_candidates: Sequence[ShardCandidates],
    walks: Sequence[HostResolutions],
    speculation: NDArray[np.bool_],
) -> SpeculationCheck:
    """Compare a speculation with the resolutions that used it.

    walks: the resolutions of all shards, in order  speculation: bool[n]
    """
    pages, signatures = len(speculation), round_.signatures
    shard, is_indexed, search_end = np.zeros(pages, np.int64), np.zeros(pages, np.bool_), np.full(pages, pages)
    most_met: NDArray[np.int64] = np.sum([sizes_of(one.bounds) for one in shard_candidates], axis=0)
    for number, one in enumerate(walks):
        shard[one.rows], is_indexed[one.rows] = number, one.is_indexed
        original = np.where(one.within.number == NOBODY, pages, one.within.number)
        search_end[one.rows] = np.where(one.indexed.number == NOBODY, original, NOBODY)
        most_met[one.rows] += one.postings
    wrong, more = speculation != is_indexed, np.zeros(pages, np.int64)
    if not wrong.any() or scheme.bars is None:
        return SpeculationCheck(None, more)
    laid = lay_out_keys(signatures, scheme)
    slots = laid.slots
    page = np.repeat(np.arange(pages), sizes_of(slots.bounds))
    in_round = np.bincount(slots.bucket, minlength=len(laid.keys))
    np.add.at(most_met, page, in_round[slots.bucket])
    size = known_sizes(laid, [one.sizes for one in shard_candidates])[slots.bucket]
    room = np.minimum(slots.cap, limits.cap) - size
    has_wrong = np.zeros(len(laid.keys), np.bool_)
    has_wrong[slots.bucket[wrong[page]]] = True
    # A bucket that was full before the round gives no candidate of the round, whichever pages are indexed.
    some = np.flatnonzero((room > 0) & has_wrong[slots.bucket] & (in_round[slots.bucket] > 1))
    some = some[np.argsort(slots.bucket[some], kind="stable")]
    of_slots = slots.bucket[some], page[some], slots.decisive[some], room[some]
    of_pages = shard, speculation, is_indexed, most_met > limits.candidates, search_end
    rests = _check_kernel(*of_slots, *of_pages, texts_of(signatures), scheme.bars, more)
    return SpeculationCheck(is_indexed if rests else None, more)


@kernel
def _check_kernel(bucket, page, decides, room, shard, speculation, is_indexed, crowded, search_end, texts, bars, more):
    # bucket, page: int64[s], of slots, sorted by bucket and page  decides: bool[s]
    # room: int64[s], number of pages of the round that the bucket takes  shard: int64[n]
    # speculation, is_indexed, crowded: bool[n]  texts: Texts  bars: HostThresholds
    # search_end: int64[n], where the search of each page ends: at the row of its original, at n without an original,
    # and at NOBODY if the original was indexed before the round
    # ->  more: int64[n]; returns whether a page depends on a wrong assumption
    first = 0
    for at in range(len(bucket)):
        if bucket[at] != bucket[first]:
            first = at
        asking = page[at]
        resolution, right = 0, 0
        for before in range(first, at):
            # A full bucket takes no more pages. Without this line 16,384 pages with one key take 0.9 s.
            if resolution >= room[at] and right >= room[at]:
                break
            other = page[before]
            same = shard[other] == shard[asking]
            was_met = (is_indexed[other] if same else speculation[other]) and resolution < room[at]
            is_met = is_indexed[other] and right < room[at]
            resolution += was_met
            right += is_met
            if was_met == is_met:
                continue
            if other <= search_end[asking]:
                if same or decides[at] or crowded[asking] or other == search_end[asking]:
                    return True
                jaccard = estimated_jaccard(texts, asking, texts, other)
                if could_be_copy_across(texts, asking, texts, other, bars, jaccard):
                    return True
        more[asking] += right - resolution
    return False


def merge_resolutions(
    round_: Round,
    scheme: Scheme,
    shard_candidates: Sequence[ShardCandidates],
    walks: Sequence[HostResolutions],
    checked: SpeculationCheck,
) -> RoundOutcome:
    """The outcome of a round. walks: the resolutions of all shards; no page depends on a wrong assumption"""
    signatures = round_.signatures
    pages = len(signatures)
    indexed, within = empty_search(pages), empty_search(pages)
    is_indexed, is_new = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
    taught = np.zeros(pages, np.uint8)
    postings = checked.postings.copy()
    for met in shard_candidates:
        postings += met.postings
    for one in walks:
        _put(indexed, one.rows, one.indexed)
        _put(within, one.rows, one.within)
        is_indexed[one.rows], is_new[one.rows], taught[one.rows] = one.is_indexed, one.is_new, one.taught
        postings[one.rows] += one.postings
    entry = np.where(is_indexed, round_.first_number + np.cumsum(is_indexed) - 1, NOBODY)
    resolution = Resolution(within, postings, entry, _NO_POSTINGS, 0)
    sent = SentEntries([*(one.entries for one in shard_candidates), *(one.entries for one in walks)])
    originals = IndexedOriginals(indexed, sent.numbers.astype(np.uint64), sent, no_urls(pages, 1))
    verdicts = verdicts_of(signatures, scheme, originals, resolution)
    resolved = make_outcome(round_, verdicts, originals, resolution)
    return resolved._replace(taught=taught, is_new=is_new)


def _put(found: OriginalSearch, rows: NDArray[np.int64], some: OriginalSearch) -> None:
    """Write the results of these pages. rows: int64[k]"""
    for name, values in some._asdict().items():
        getattr(found, name)[rows] = values
