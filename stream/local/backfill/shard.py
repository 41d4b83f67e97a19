"""One shard: a part of the state, and the steps of a round over it. RemoteShard is told rounds as bytes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.index import IndexUpdate, LiveView, StateView
from spotsieve.state.log.record import decode
from spotsieve.state.removal import removal_of
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sharding.candidates import ShardCandidates
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
    """The steps of a round over the state of one shard. A round is read from the state once, and again without pages
    that it spares.
    """

    def __init__(self, share: Share, settings: Settings, scheme: Scheme, state: State) -> None:
        self.share, self.state = share, state
        self._scheme, self._limits = scheme, limits_in_shards(settings, scheme)
        self._held: tuple[RoundRange, tuple[int, ...], ShardReads] | None = None

    def answer(self, round_: Round) -> ShardCandidates:
        """Whom the pages meet under keys that no host is mixed with."""
        view, held = self._view(round_), self._hold(round_)
        return find_shard_candidates(round_.signatures, held, self._scheme, view, self._limits, self.share)

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> ShardConfirmations:
        """What is said of the entries that the shard holds. shard_candidates: of all shards"""
        return confirm(round_.signatures, shard_candidates, self._scheme, self._view(round_), self.share)

    def walk(
        self, round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: NDArray[np.bool_]
    ) -> HostResolutions:
        """Verdicts of the pages of the shard's hosts under a speculation: bool[n]. shard_candidates: of all shards,
        confirmed
        """
        view, held = self._view(round_), self._hold(round_)
        return resolve_hosts(round_, held, self._scheme, view, self._limits, shard_candidates, speculation)

    def index_update(self, round_: Round, resolved: RoundOutcome) -> IndexUpdate:
        """What the round adds to the state; the round is over then.

        The pages that it spares are those of the outcome: whoever files it knows no others, and must not break on them.
        """
        round_ = exclude_pages(round_, np.flatnonzero(resolved.verdicts.reason == Reason.INTERNAL_ERROR).tolist())
        view, held = self._view(round_), self._answered(round_)
        self._held = None
        return index_round(round_, resolved, held, self._scheme, view, self._limits, self.share)

    def _view(self, round_: Round) -> StateView:
        return LiveView(self.state, round_.clock.floor) if round_.clock.floor else self.state

    def _answered(self, round_: Round) -> ShardReads | None:
        """What was read for this very round."""
        if self._held is None or self._held[:2] != (range_of(round_), round_.excluded):
            return None
        return self._held[2]

    def _hold(self, round_: Round) -> ShardReads:
        held = self._answered(round_)
        if held is None:
            held = read_round(round_.signatures, self._scheme, self._view(round_), self.share)
            self._held = range_of(round_), round_.excluded, held
        return held


def read_confirmed(
    shard_candidates: Sequence[bytes], confirms: Sequence[bytes], first_number: int
) -> list[ShardCandidates]:
    """What all shards met, with what the holders of the entries say. Both are bodies, in the order of the shards."""
    met = [read_candidates(ColumnReader(one), first_number) for one in shard_candidates]
    return apply_confirmations(met, [read_confirmations(ColumnReader(one), first_number) for one in confirms])


class FillRecord(NamedTuple):
    """A record of the log that a shard is filled from. outcomes: the rounds of its pages, with their outcomes"""

    offset: int
    record: bytes
    outcomes: tuple[tuple[RoundRange, bytes], ...]


class RemoteShard:
    """A shard with its state in memory, which knows of a round what it is told: a record, a range of it, which of its
    pages are spared, and bodies of records of stream/sharding.
    """

    def __init__(self, settings: Settings, share: Share) -> None:
        self._state = memory_state()
        self._step_ms = step_of(settings.index.horizon_hours)
        self._shard = BackfillShard(share, settings, scheme_in_scope(settings), self._state)
        self._round: Round | None = None

    def answer(self, record: bytes, range_: RoundRange, excluded: Sequence[int]) -> bytes:
        """The body of a record of meetings. excluded: rows of the round"""
        return write_candidates(self._shard.answer(self._round_of(record, range_, excluded)), range_.first_number)

    def confirm(self, record: bytes, range_: RoundRange, excluded: Sequence[int], *shard_candidates: bytes) -> bytes:
        """The body of a record of confirms. shard_candidates: of all shards, as answer() gives them"""
        read = [read_candidates(ColumnReader(one), range_.first_number) for one in shard_candidates]
        round_ = self._round_of(record, range_, excluded)
        return write_confirmations(self._shard.confirm(round_, read), 0, range_.first_number)

    def walk(
        self, record: bytes, range_: RoundRange, excluded: Sequence[int], speculation: NDArray[np.bool_], *told: bytes
    ) -> bytes:
        """The body of a record of walks. told: of all shards, what answer() gives, and then what confirm() gives"""
        # What comes from another process may be read-only, for which the kernels would be compiled once more.
        speculation = np.array(speculation)
        read = read_confirmed(told[: len(told) // 2], told[len(told) // 2 :], range_.first_number)
        walks = self._shard.walk(self._round_of(record, range_, excluded), read, speculation)
        return write_resolutions(walks, speculation, range_.first_number)

    def file(self, record: bytes, range_: RoundRange, outcome: bytes) -> None:
        """File a round by the body of its outcome. One that is filed already changes nothing."""
        if range_.start < LogPlace(self._state.position, self._state.pages_applied):
            return
        round_ = self._round_of(record, range_)
        index_update = self._shard.index_update(round_, read_outcome(ColumnReader(outcome), range_.first_number))
        self._state.file(index_update, round_.end.record, round_.last_record, round_.end.page, round_.clock)
        self._round = None

    def fill(self, entered: Sequence[FillRecord]) -> None:
        """Take the next records of the log, which are judged."""
        for offset, record, outcomes in entered:
            read = decode(record)
            if read.forgotten:
                removal = removal_of(read.forgotten, self._state, self._state.clock.floor, whole=False)
                self._state.remove(removal, offset + 1, read.checksum)
            for range_, outcome in outcomes:
                self.file(record, range_, outcome)

    def _round_of(self, record: bytes, range_: RoundRange, excluded: Sequence[int] = ()) -> Round:
        if self._round is None or range_of(self._round) != range_:
            clock = self._state.clock
            if self._step_ms:
                clock = clock.moved(range_.watermark_ms, self._step_ms, range_.first_number)
            self._round = round_of(record, range_)._replace(clock=clock)
        return exclude_pages(self._round, excluded)


def round_of(record: bytes, range_: RoundRange) -> Round:
    """The round of a range that lies within one record; its clock stands at its beginning."""
    read = decode(record)
    end = len(read.signatures) if range_.end.record > range_.start.record else range_.end.page
    part = read.signatures.part(range_.start.page, end)
    return Round(range_.start, range_.end, part, range_.first_number, _BEGINNING, (), read.checksum)


_BEGINNING = Clock()
