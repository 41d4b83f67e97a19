"""Judges records of the log in rounds, and keeps the outcomes: alone, or by answers of all shards and their walks.

The state of one process is kept beside the shards, by filing as its only one. Where there are none, it alone judges.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock
from spotsieve.state.index import IndexUpdate
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.poison import isolate
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.engine import ApplyResult, Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.local.backfill.outcomes import DIRECTORY, OutcomeStore, StoredOutcome
from spotsieve.stream.local.backfill.shard import BackfillShard
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.hosts import HostResolutions, check_speculation, first_speculation, merge_resolutions
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.keys import lay_out_keys
from spotsieve.stream.sharding.records.frame import RoundRange, range_of
from spotsieve.stream.sharding.records.resolver import write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome, outcome_of_one_process, resolve
from spotsieve.stream.sharding.rounds import LogPlace, Round, limits_in_shards
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes import Scheme


class Shards(Protocol):
    """All shards of a run. They know every round whose outcome they were told. A round may spare pages, and is then
    answered anew.

    Raises what breaks on a page as it is, and a StateError where the shards do not go on for another reason.
    """

    def answer(self, round_: Round, record: bytes) -> list[ShardCandidates]:
        """What each meets. record: of the log, which the round lies in; the other steps are of the same round"""

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> list[ShardCandidates]:
        """The same, with what the shards say of the entries that they hold."""

    def walk(
        self, round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: NDArray[np.bool_]
    ) -> list[HostResolutions]:
        """What each finds of the pages of its hosts. shard_candidates: confirmed  speculation: bool[n]"""

    def file(self, range_: RoundRange, outcome: bytes) -> None:
        """Have each file the round. outcome: the body, which is kept by now"""


class RoundEngine(Engine):
    """Applies the log as Engine does, in rounds whose outcomes it keeps; if there are shards, they judge."""

    def __init__(
        self, settings: Settings, scheme: Scheme, state: State, outcomes: OutcomeStore, shards: Shards | None
    ) -> None:
        """shards: None where the state alone judges. Raises SettingError for settings that shards do not keep to."""
        digest = settings_digest(verdict_settings_text(settings))
        super().__init__(scheme, state, settings.index, digest, LocalLog.name, policy_of(settings))
        self._limits = limits_in_shards(settings, scheme)
        self._keeper = BackfillShard(Share(0, 1), settings, scheme, state)
        self._shards = shards
        self._outcomes = outcomes
        first = outcomes.first_from(LogPlace(state.position, state.pages_applied))
        self._unfiled = {kept.range.start: kept for kept in outcomes.read_from(first)}
        self._kept_to = outcomes.last_end()
        self._offset, self._record = 0, b""

    def apply(self, record: bytes | LogRecord, offset: int) -> ApplyResult:
        """As Engine.apply. record: its bytes, which other shards are told"""
        if not isinstance(record, bytes):
            raise TypeError("a record that is judged in rounds is given as bytes")
        self._offset, self._record = offset, record
        return super().apply(record, offset)

    def _judge(self, signatures: Signatures, start: int, end: int, clock: Clock) -> tuple[Verdicts, IndexUpdate]:
        if not len(signatures) or self._offset < self.state.position or start < self.state.pages_applied:
            return super()._judge(signatures, start, end, clock)
        behind = LogPlace(self._offset + 1, 0) if end == len(signatures) else LogPlace(self._offset, end)
        part, number = signatures.part(start, end), self.state.entry_count
        round_ = Round(LogPlace(self._offset, start), behind, part, number, clock, (), 0)
        kept = self._unfiled.pop(round_.start, None)
        if kept is None:
            resolved, index_update = self._resolve_sparing(round_)
        else:
            resolved = _same_round(kept, round_)
            index_update = self._keeper.index_update(round_, resolved)
        return resolved.verdicts, replace(index_update, places=None)

    def _resolve_sparing(self, round_: Round) -> tuple[RoundOutcome, IndexUpdate]:
        """Judge a round without the pages that break the code, keep its outcome, and have the shards file it."""
        shards = self._shards

        def attempt(trial: Round) -> tuple[RoundOutcome, IndexUpdate]:
            if shards is None:
                judged = self._judge_all(trial.signatures, trial.clock)
                return outcome_of_one_process(trial, judged), judged.index_update
            resolved = self._resolve(trial, shards)
            # Before the outcome is kept: what breaks this alone would stop every later start.
            return resolved, self._keeper.index_update(trial, resolved)

        (resolved, index_update), broken = isolate(
            lambda rows: attempt(exclude_pages(round_, rows)), len(round_.signatures)
        )
        self._broken |= {round_.start.page + row: error for row, error in broken.items()}
        range_ = range_of(round_)
        # What lies before is judged anew where the index was lost: outcomes stay in the order of the log.
        follows = range_.start >= self._kept_to
        body = self._outcomes.append(range_, resolved) if follows else write_outcome(resolved)
        if shards is not None:
            shards.file(range_, body)
        return resolved, index_update

    def _resolve(self, round_: Round, shards: Shards) -> RoundOutcome:
        """Have the shards judge a round."""
        shard_candidates = shards.answer(round_, self._record)
        if self.scheme.bars is not None:
            return self._walk(round_, shards, shard_candidates)
        return resolve(
            round_, lay_out_keys(round_.signatures, self.scheme), self.scheme, self._limits, shard_candidates
        )

    def _walk(self, round_: Round, shards: Shards, shard_candidates: Sequence[ShardCandidates]) -> RoundOutcome:
        """Have the shards walk under one guess after the other, until none is wrong."""
        shard_candidates = shards.confirm(round_, shard_candidates)
        speculation = first_speculation(round_, shard_candidates)
        while True:
            walks = shards.walk(round_, shard_candidates, speculation)
            checked = check_speculation(round_, self.scheme, self._limits, shard_candidates, walks, speculation)
            if checked.speculation is None:
                return merge_resolutions(round_, self.scheme, shard_candidates, walks, checked)
            speculation = checked.speculation


def _same_round(kept: StoredOutcome, round_: Round) -> RoundOutcome:
    """The outcome that is kept of a round."""
    if kept.range != range_of(round_):
        raise StateError(
            f"the outcomes in {DIRECTORY} of the state",
            "must be of the rounds of its log",
            f"{kept.range.start}..{kept.range.end}",
            f"delete {DIRECTORY} in the state directory, and run again: its inputs are read anew",
        )
    return kept.resolved
