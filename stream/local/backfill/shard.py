"""One shard of a backfill: a part of the state, and the steps of a round over it, here or in another process."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.index import IndexUpdate, LiveView, StateView
from spotsieve.state.log.record import decode
from spotsieve.state.removal import removal_of
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.confirmation import ShardConfirmations, apply_confirmations, confirm
from spotsieve.stream.sharding.hosts import HostResolutions, resolve_hosts
from spotsieve.stream.sharding.indexing import index_round
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.keys import ShardReads, read_round
from spotsieve.stream.sharding.records.frame import ColumnReader, RoundRange, range_of
from spotsieve.stream.sharding.records.resolver import read_outcome
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_confirmations,
    write_candidates,
    write_confirmations,
    write_resolutions,
)
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import LogPlace, Round, limits_in_shards
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope


class BackfillShard:
    """The steps of a round over the state of one shard.

    A round is read from the state once, and again if it excludes poison pages.
    """

    def __init__(self, share: Share, settings: Settings, scheme: Scheme, state: State) -> None:
        self.share, self.state = share, state
        self._scheme, self._limits = scheme, limits_in_shards(settings, scheme)
        self._cached: tuple[RoundRange, tuple[int, ...], ShardReads] | None = None

    def find_candidates(self, round_: Round) -> ShardCandidates:
        """Candidates found by cross-host keys, for each page of the round."""
        view, reads = self._view(round_), self._reads_of(round_)
        return find_shard_candidates(round_.signatures, reads, self._scheme, view, self._limits, self.share)

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> ShardConfirmations:
        """Confirmations of the candidates whose entries this shard holds. shard_candidates: of all shards"""
        view, reads = self._view(round_), self._reads_of(round_)
        return confirm(round_, reads, shard_candidates, self._scheme, view, self.share)

    def resolve_hosts(
        self, round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: Speculation
    ) -> HostResolutions:
        """Verdicts of the pages of the shard's hosts under a speculation.

        shard_candidates: of all shards, confirmed
        """
        view, reads = self._view(round_), self._reads_of(round_)
        return resolve_hosts(round_, reads, self._scheme, view, self._limits, shard_candidates, speculation)

    def index_update(self, round_: Round, resolved: RoundOutcome) -> IndexUpdate:
        """Update of the state by the round, which ends the round.

        It excludes the poison pages of the outcome, because indexing must not fail on them.
        """
        round_ = exclude_pages(round_, np.flatnonzero(resolved.verdicts.reason == Reason.INTERNAL_ERROR).tolist())
        view, reads = self._view(round_), self._cached_reads(round_)
        self._cached = None
        return index_round(round_, resolved, reads, self._scheme, view, self._limits, self.share)

    def _view(self, round_: Round) -> StateView:
        return LiveView(self.state, round_.clock.floor) if round_.clock.floor else self.state

    def _cached_reads(self, round_: Round) -> ShardReads | None:
        """The reads of this round without its excluded pages, or None if it was not read."""
        if self._cached is None or self._cached[:2] != (range_of(round_), round_.excluded):
            return None
        return self._cached[2]

    def _reads_of(self, round_: Round) -> ShardReads:
        reads = self._cached_reads(round_)
        if reads is None:
            reads = read_round(round_.signatures, self._scheme, self._view(round_), self.share)
            self._cached = range_of(round_), round_.excluded, reads
        return reads


def read_confirmed(
    shard_candidates: Sequence[bytes], confirmations: Sequence[bytes], first_number: int
) -> list[ShardCandidates]:
    """Candidates of all shards with their confirmations. Both arguments are bodies, in the order of the shards."""
    candidates = [read_candidates(ColumnReader(one), first_number) for one in shard_candidates]
    return apply_confirmations(
        candidates, [read_confirmations(ColumnReader(one), first_number) for one in confirmations]
    )


class FillRecord(NamedTuple):
    """A record of the log that a shard is filled from. outcomes: ranges and outcome bodies of its rounds"""

    offset: int
    record: bytes
    outcomes: tuple[tuple[RoundRange, bytes], ...]


class RemoteShard:
    """A shard in another process, with its state in memory.

    Its methods take and return bytes: a log record, the range of the round, the excluded rows, and bodies of records of
    stream/sharding.
    """

    def __init__(self, settings: Settings, share: Share) -> None:
        self._state = memory_state()
        self._step_ms = step_of(settings.index.horizon_hours)
        self._shard = BackfillShard(share, settings, scheme_in_scope(settings), self._state)
        self._round: Round | None = None

    def find_candidates(self, record: bytes, range_: RoundRange, excluded: Sequence[int]) -> bytes:
        """Body of a record of candidates. excluded: rows of the round"""
        round_ = self._round_of(record, range_, excluded)
        return write_candidates(self._shard.find_candidates(round_), range_.first_number)

    def confirm(self, record: bytes, range_: RoundRange, excluded: Sequence[int], *shard_candidates: bytes) -> bytes:
        """Body of a record of confirmations. shard_candidates: bodies from find_candidates of all shards"""
        read = [read_candidates(ColumnReader(one), range_.first_number) for one in shard_candidates]
        round_ = self._round_of(record, range_, excluded)
        return write_confirmations(self._shard.confirm(round_, read), 0, range_.first_number)

    def resolve_hosts(
        self, record: bytes, range_: RoundRange, excluded: Sequence[int], speculation: Speculation, *bodies: bytes
    ) -> bytes:
        """Body of a record of resolutions.

        bodies: from find_candidates of all shards, then from confirm of all shards
        """
        count = len(bodies) // 2
        read = read_confirmed(bodies[:count], bodies[count:], range_.first_number)
        resolutions = self._shard.resolve_hosts(self._round_of(record, range_, excluded), read, speculation)
        return write_resolutions(resolutions, speculation, range_.first_number)

    def index(self, record: bytes, range_: RoundRange, outcome: bytes) -> None:
        """Index a round by the body of its outcome. Repeating the call changes nothing."""
        if range_.start < LogPlace(self._state.position, self._state.pages_applied):
            return
        round_ = self._round_of(record, range_)
        index_update = self._shard.index_update(round_, read_outcome(ColumnReader(outcome), range_.first_number))
        self._state.file(index_update, round_.end.record, round_.last_record, round_.end.page, round_.clock)
        self._round = None

    def fill(self, entered: Sequence[FillRecord]) -> None:
        """Index the next judged records of the log."""
        for offset, record, outcomes in entered:
            read = decode(record)
            if read.forgotten:
                removal = removal_of(read.forgotten, self._state, self._state.clock.floor, whole=False)
                self._state.remove(removal, offset + 1, read.checksum)
            for range_, outcome in outcomes:
                self.index(record, range_, outcome)

    def _round_of(self, record: bytes, range_: RoundRange, excluded: Sequence[int] = ()) -> Round:
        if self._round is None or range_of(self._round) != range_:
            clock = self._state.clock
            if self._step_ms:
                clock = clock.moved(range_.watermark_ms, self._step_ms, range_.first_number)
            self._round = round_of(record, range_)._replace(clock=clock)
        return exclude_pages(self._round, excluded)


def round_of(record: bytes, range_: RoundRange) -> Round:
    """The round of a range within one record, with the clock of an empty state."""
    read = decode(record)
    end = len(read.signatures) if range_.end.record > range_.start.record else range_.end.page
    part = read.signatures.part(range_.start.page, end)
    return Round(range_.start, range_.end, part, range_.first_number, _BEGINNING, (), read.checksum)


_BEGINNING = Clock()
