"""Walks through a round as one shard, with the memory of its hosts: verdicts, until a guess proves wrong.

Two pages of one host are compared by what their host's memory says is no template, and the memory at a page depends on
the verdicts of the host's pages before. So the shard of the host walks over them, with the kernel that one process
uses. From the answers of all shards it knows whom its pages meet among the filed pages. Whether a page of the same
round, of a host that is remembered elsewhere, is filed, it takes from a guess. The resolver compares the guess with
what the other shards found; where a page rests on a wrong one, all walk again with a better guess. The first wrong page
of one walk is right in the next, so this ends, and what is left is what one process would have found.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Attempt, FiledEntries, StateView
from spotsieve.stream.distinct import distinct, distinct_places, places_in
from spotsieve.stream.judge.addresses import no_addresses
from spotsieve.stream.judge.by_host.bars import bars_of_pages
from spotsieve.stream.judge.by_host.known import ELSEWHERE, FILED_ELSEWHERE, NEW, find_known, find_repeated
from spotsieve.stream.judge.by_host.memory import living_leads, recall, recall_leads
from spotsieve.stream.judge.by_host.recalled import Recalled, no_texts
from spotsieve.stream.judge.by_host.texts import Texts, texts_filed
from spotsieve.stream.judge.by_host.walk import walk_hosts
from spotsieve.stream.judge.rules import Found, Limits, final_kinds, nothing_found
from spotsieve.stream.judge.worth import worth_of_pages
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.answering import answer_of_hosts
from spotsieve.stream.sharding.entries import SentEntries
from spotsieve.stream.sharding.keys import Held
from spotsieve.stream.sharding.meetings import OF_HOST, Meetings, merge
from spotsieve.stream.sharding.resolving import counted_postings, known_sizes
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.signature import FINGERPRINTED, Entry, page_ids_at


class Walks(NamedTuple):
    """What a shard found of the k pages of its hosts.

    rows: int64[k], in the round, none that it spares  filed, within: Found of k pages, among the filed ones and in it
    is_filed: bool[k]  taught: uint8[k]  is_new: bool[k], its verdict was not known before
    postings: int64[k], those in the buckets of the shard's hosts, and those that the round adds
    entries: originals and replaced pages that are the shard's own, by number
    """

    rows: NDArray[np.int64]
    filed: Found
    within: Found
    is_filed: NDArray[np.bool_]
    taught: NDArray[np.uint8]
    is_new: NDArray[np.bool_]
    postings: NDArray[np.int64]
    entries: Mapping[int, Entry]


class _Gathered:
    """Entries of the shard's own, and entries that were sent; each is looked up where it is."""

    def __init__(self, own: FiledEntries | None, of_own: int, sent: SentEntries, order: NDArray[np.int64]) -> None:
        self._own, self._of_own, self._sent, self._order = own, of_own, sent, order

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """places: int64[a] -> what verdicts tell of them."""
        place = self._order[places]
        is_own, found = place < self._of_own, np.empty(len(places), np.object_)
        if self._own is not None:
            found[is_own] = self._own.entries(place[is_own])
        found[~is_own] = self._sent.entries(place[~is_own] - self._of_own)
        return list(found)


def first_guess(round_: Round, meetings: Sequence[Meetings]) -> NDArray[np.bool_]:
    """Which pages are filed, as far as the answers tell: bool[n]. Any guess gives the same verdicts in the end.

    Taken to be copies are pages with the digest of an earlier one, and those that seem to be copies of an entry to the
    shard that holds it. meetings: of all shards, confirmed
    """
    digest = round_.signatures.digest[:, 0]
    order = np.argsort(digest, kind="stable")
    guess, again = np.ones(len(digest), np.bool_), digest[order[1:]] == digest[order[:-1]]
    guess[order[1:][again]] = False
    for one in meetings:
        if one.copies is not None:
            guess &= ~one.copies
    # Who walked before a page was spared walked under another guess, or has that page among its own.
    guess[list(round_.spared)] = False
    return guess


def walk_round(
    round_: Round,
    held: Held,
    scheme: Scheme,
    view: StateView,
    limits: Limits,
    meetings: Sequence[Meetings],
    guess: NDArray[np.bool_],
) -> Walks:
    """Judge the pages of the shard's hosts. view: as of answer  meetings: of all shards  guess: as of first_guess"""
    if scheme.bars is None:
        raise ValueError(f"the scheme {scheme.name} has no memory of hosts")
    signatures = round_.signatures
    mine = held.walks.copy()
    mine[list(round_.spared)] = False
    local = answer_of_hosts(held, limits)
    answers = [*meetings, local]
    merged = merge(answers, limits.candidates, final_kinds(limits), mine)
    met, judged = merged.met, mine & (signatures.status == FINGERPRINTED)
    attempts: list[Attempt | None] = [None] * len(signatures)
    for one in meetings:
        for page, attempt in one.attempts.items():
            attempts[page] = attempt if mine[page] else None
    sent = SentEntries([one.entries for one in meetings])
    of_host = met.number[(merged.said == OF_HOST) & (met.proof == 0)]
    read = _recall(round_, of_host, mine, meetings, sent, view)
    rows, filed = np.flatnonzero(mine), nothing_found(len(signatures))
    page_ids = dict(zip(rows.tolist(), page_ids_at(signatures, rows), strict=True))
    known = find_known(page_ids, judged, met, read, attempts, filed)
    find_repeated(page_ids, judged, known)
    known.state[~mine] = np.where(guess, FILED_ELSEWHERE, ELSEWHERE)[~mine]
    place = np.where((met.proof == 0) & (merged.said < OF_HOST), NOBODY, read.place(met.number))
    sizes = known_sizes(held.laid, [one.sizes for one in answers])
    walk = walk_hosts(
        signatures,
        held.laid.slots,
        sizes,
        met,
        place,
        judged,
        read,
        known,
        no_addresses(len(signatures), len(read.numbers)),
        bars_of_pages(signatures, scheme.bars, None),
        (worth_of_pages(signatures, limits.worth), read.worth),
        limits,
        round_.first_number,
        filed,
        learns=True,
    )
    walked = walk.walked
    named = distinct(np.concatenate([filed.number[rows], filed.replaced[rows]]))
    named = named[(named != NOBODY) & ~np.isin(named, sent.numbers)]
    entries = read.filed.entries(read.place(named)) if read.filed is not None else []
    return Walks(
        rows,
        taken(filed, rows),
        taken(walked.found, rows),
        walked.entry[rows] != NOBODY,
        walk.taught[rows],
        known.state[rows] == NEW,
        counted_postings(walked, held.laid, sizes, [local])[rows],
        dict(zip(named.tolist(), entries, strict=True)),
    )


def taken(found: Found, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Found:
    """What was found of these pages: their rows, or bool[n]."""
    columns = {name: column[rows] for name, column in found._asdict().items()}
    return Found(**columns)


def _recall(
    round_: Round,
    of_host: NDArray[np.int64],
    mine: NDArray[np.bool_],
    meetings: Sequence[Meetings],
    sent: SentEntries,
    view: StateView,
) -> Recalled:
    """What the walk needs of the state and of the answers.

    of_host: int64[...], entries that are the shard's own  sent: those in the answers of all shards
    """
    signatures = round_.signatures
    hosts, row = distinct_places(signatures.host[mine])
    memories = view.memories(hosts)
    memory, leads = recall(memories), living_leads(memories, view)
    own_numbers = distinct(np.concatenate([of_host, leads])).astype(np.uint64)
    parts, filed = list[Texts](), None
    if len(own_numbers):
        filed = view.filed(own_numbers)
        compared, own = filed.compared(False), filed.own_texts()
        recall_leads(memory, leads, places_in(own_numbers, leads), own)
        parts.append(texts_filed(compared.host, compared.feature_count, compared.sketch, own))
    parts.append(_sent_texts(sent.numbers, meetings, signatures.sketch.shape[1]))
    numbers = np.concatenate([own_numbers, sent.numbers.astype(np.uint64)])
    # An entry of the shard's own that was sent too is taken from its own state: there it has all that it owns.
    different, order = np.unique(numbers, return_index=True)
    rows = np.zeros(len(signatures), np.int64)
    rows[mine] = row
    texts = _chosen(_joined(parts), order)
    gathered = _Gathered(filed, len(own_numbers), sent, order) if len(different) else None
    return Recalled(rows, memory, different, gathered, texts, texts.length.astype(np.float64))


def _sent_texts(numbers: NDArray[np.int64], meetings: Sequence[Meetings], words: int) -> Texts:
    """The texts of the entries that were sent, each by the shard that holds it."""
    found = [one.texts for one in meetings if one.texts is not None]
    if not found:
        return no_texts(words)
    every = np.concatenate([one.numbers for one in meetings if one.texts is not None])
    order = np.argsort(every)
    return _chosen(_joined([texts_filed(*one) for one in found]), order[np.searchsorted(every[order], numbers)])


def _joined(parts: Sequence[Texts]) -> Texts:
    """All rows of these, one after the other."""
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
    """These rows, in this order; prints and titles are not copied."""
    columns = {
        name: column if name in ("prints", "titles") else column[rows] for name, column in texts._asdict().items()
    }
    return Texts(**columns)
