"""Indexes a round in one shard: the novel pages, under the shard's own keys, within the caps of the buckets.

It needs only the round and its outcome, not the candidates. So a lost shard is rebuilt from the log and the outcomes of
the rounds, without judging. A shard holds the entries that its keys lead to. With a memory of hosts it holds other
entries instead: those that it confirms for all shards (confirmation.py), and those of its hosts, whose pages teach the
memory again. The outcome says which blocks of the indexed pages are template text, so the shard has the text of entries
of other hosts, too. The shard of a page's id records the verdict of the page.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, EntryPlaces, HostUpdate, IndexUpdate, PendingVerdict, StateView
from spotsieve.stream.base.arrays import distinct_places, sizes_of
from spotsieve.stream.base.signature import FINGERPRINTED, is_judged, page_ids_at
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge.by_host.confirmation import read_memories, read_pages
from spotsieve.stream.judge.by_host.learning import keep_texts, learn_again, owned_texts
from spotsieve.stream.judge.by_host.memory import memories_to_store
from spotsieve.stream.judge.resolution import grown_buckets, index_assigned
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.sharding.candidates import SentFlags, put_flags
from spotsieve.stream.sharding.keys import ShardReads, read_own_buckets
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.rounds import CommittedPages, Round
from spotsieve.stream.sharding.shares import Share, shards_of, shards_of_entries, shards_of_pages
from spotsieve.stream.sign.schemes import HostThresholds, Scheme


def index_round(
    round_: Round,
    resolved: RoundOutcome,
    reads: ShardReads | None,
    scheme: Scheme,
    view: StateView,
    limits: Limits,
    share: Share,
) -> IndexUpdate:
    """The changes of the shard's state by a round.

    reads: the reads of the shard's response; None if the shard has not responded
    view: the live part of the shard's state by the clock of the round
    """
    own = reads.own if reads else read_own_buckets(round_.signatures, scheme, view, share, resolved.entry != NOBODY)
    buckets = own.buckets
    given = index_assigned(own.slots, sizes_of(buckets.bounds), resolved.entry, limits.cap)
    grown, contents = grown_buckets(buckets, given.added, resolved.entry)
    kept, learned, is_indexed = given.fits, None, resolved.entry != NOBODY
    if scheme.host_thresholds is not None:
        mine = shards_of(round_.signatures.host, share.shards) == share.number
        kept = is_indexed & (mine | (shards_of_entries(resolved.entry, share.shards) == share.number))
        # A page that replaces another is indexed and recorded. When its entry expires, the recorded verdict expires
        # too.
        recorded = _pages_to_record(round_, resolved, share)
        kept[recorded] |= is_indexed[recorded]
        learned = _learn(round_, resolved, reads, scheme.host_thresholds, view, mine, kept, recorded)
    rows = np.flatnonzero(kept)
    return IndexUpdate(
        round_.signatures,
        rows,
        round_.first_number,
        own.keys[grown],
        contents,
        given.capped,
        scheme.compares_features,
        learned,
        tuple(mark.committed for mark in round_.marks),
        EntryPlaces(resolved.entry[rows].astype(np.uint64), resolved.next_number),
    )


def _indexed_pages(resolved: RoundOutcome) -> NDArray[np.int64]:
    """The pages that a round indexes: int64[f]. Their entry numbers are consecutive, from the first number of the
    round.
    """
    return np.flatnonzero(resolved.entry != NOBODY)


def _pages_to_record(round_: Round, resolved: RoundOutcome, share: Share) -> NDArray[np.int64]:
    """The pages whose verdicts the shard has to record: int64[t]."""
    signatures = round_.signatures
    # The entry of a page does not contain which page it replaced.
    unsaid = (resolved.entry == NOBODY) | (resolved.replaced != NOBODY)
    recorded = is_judged(signatures.status) & unsaid
    recorded &= np.asarray(resolved.is_new) & (shards_of_pages(signatures, share.shards) == share.number)
    rows = np.flatnonzero(recorded)
    if not round_.marks:
        return rows
    behind, marks = CommittedPages(), list(round_.marks)
    for row, page_id in zip(rows[::-1].tolist(), page_ids_at(signatures, rows)[::-1], strict=True):
        while marks and marks[-1].first > row:
            behind.add(marks.pop().committed)
        recorded[row] = page_id not in behind
    return np.flatnonzero(recorded)


def _pending_verdicts(resolved: RoundOutcome, recorded: NDArray[np.int64]) -> tuple[PendingVerdict, ...]:
    """The verdicts of these pages, in the form that state/format/meta.py stores. recorded: int64[t], rows"""
    verdicts, original, replaced = resolved.verdicts, resolved.original[recorded], resolved.replaced[recorded]
    itself = (original != NOBODY) & (verdicts.kind[recorded] != Kind.DUPLICATE)
    copy, longer = (original != NOBODY) & ~itself, (original == NOBODY) & (replaced != NOBODY)
    without = np.where(itself, Reason.EXACT, np.where(longer, Reason.LONGER, Reason.NO_MATCH))
    columns = (
        np.where(original != NOBODY, original, replaced),
        np.where(copy, verdicts.score[recorded], np.where(itself, 1.0, np.where(longer, 0.0, np.nan))),
        np.where(copy, verdicts.reason[recorded], without),
        np.where(copy, verdicts.found_by[recorded], 0),
    )
    return tuple(map(PendingVerdict, *(column.tolist() for column in columns)))


def _learn(
    round_: Round,
    resolved: RoundOutcome,
    reads: ShardReads | None,
    thresholds: HostThresholds,
    view: StateView,
    mine: NDArray[np.bool_],
    stored: NDArray[np.bool_],
    recorded: NDArray[np.int64],
) -> HostUpdate:
    """The changes of the shard's state besides postings.

    reads: the reads of the shard's response; None if the shard has not responded
    mine: bool[n], pages of the shard's hosts
    stored: bool[n], the pages whose entries the shard holds
    recorded: int64[t], the pages whose verdicts it records
    """
    signatures = round_.signatures
    common, pages = (None, None) if reads is None else (reads.common, reads.pages)
    if common is None or pages is None:
        common, pages = read_pages(signatures, view, True)
    hosts, row = distinct_places(signatures.host[mine])
    rows = np.full(len(signatures), NOBODY)
    rows[mine] = row
    memory, nothing = read_memories(signatures, hosts, rows, view), np.zeros(len(signatures), np.bool_)
    flags, marked = np.zeros(len(signatures.blocks), np.uint8), nothing.copy()
    put_flags(signatures, SentFlags(_indexed_pages(resolved), np.asarray(resolved.flags)), flags, marked)
    within = learn_again(
        *(signatures, pages, rows, memory, mine & np.asarray(resolved.is_new)),
        *(nothing, thresholds.template_share, resolved.entry, round_.first_number),
    ).within
    keep_texts(pages, flags, stored & (signatures.status == FINGERPRINTED), within)
    return HostUpdate(
        owned_texts(within, np.flatnonzero(stored)),
        memories_to_store(memory),
        tuple(page_ids_at(signatures, recorded)),
        _pending_verdicts(resolved, recorded),
        common,
    )
