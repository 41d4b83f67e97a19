"""Rounds of a backfill: judge records of the log and store the outcomes, alone or on shards.

The state of one process is kept beside the shards, as if it were the only shard. Without shards, it judges alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from spotsieve.state.horizon import Clock
from spotsieve.state.index import IndexUpdate
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError, isolate
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.engine import ApplyResult, Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.local.backfill.outcomes import DIRECTORY, OutcomeStore, StoredOutcome
from spotsieve.stream.local.backfill.shard import BackfillShard
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.hosts import HostResolutions, first_speculation, merge_resolutions
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.keys import lay_out_keys
from spotsieve.stream.sharding.records.frame import RoundRange, range_of
from spotsieve.stream.sharding.records.resolver import write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome, marks_of_round, outcome_of_one_process, resolve
from spotsieve.stream.sharding.rounds import LogPlace, Round, limits_in_shards
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sharding.speculation import check_speculation
from spotsieve.stream.sign.schemes import Scheme


class Shards(Protocol):
    """All shards of a run: the steps of one round, in order. Every round that was indexed is part of their states.

    A round that excludes poison pages starts again with find_candidates. An exception that a page causes is raised
    unchanged; a StateError means that the shards cannot continue for another reason.
    """

    def find_candidates(self, round_: Round, record: bytes) -> list[ShardCandidates]:
        """Candidates of each shard. record: log record that contains the round; later steps use the same"""

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> list[ShardCandidates]:
        """The candidates with the confirmations of the shards that hold their entries."""

    def resolve_hosts(
        self, round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: Speculation
    ) -> list[HostResolutions]:
        """Resolution of each shard for the pages of its hosts. shard_candidates: confirmed"""

    def index(self, range_: RoundRange, outcome: bytes) -> None:
        """Index the round on every shard. outcome: its body, which is stored by now"""


class RoundEngine(Engine):
    """Applies the log like Engine, in rounds whose outcomes it stores. Shards judge, if there are any."""

    def __init__(
        self, settings: Settings, scheme: Scheme, state: State, outcomes: OutcomeStore, shards: Shards | None
    ) -> None:
        """shards: None if the state judges alone. Raises SettingError for settings that shards do not support."""
        digest = digest_of_settings(settings)
        super().__init__(scheme, state, settings.index, digest, LocalLog.name, policy_of(settings))
        self._limits = limits_in_shards(settings, scheme)
        self._local_shard = BackfillShard(Share(0, 1), settings, scheme, state)
        self._shards = shards
        self._outcomes = outcomes
        first = outcomes.first_from(LogPlace(state.position, state.pages_applied))
        self._stored = {kept.range.start: kept for kept in outcomes.read_from(first)}
        self._stored_end = outcomes.last_end()
        self._offset, self._record = 0, b""

    def apply(self, record: bytes | LogRecord, offset: int) -> ApplyResult:
        """Apply a log record like Engine.apply. record: its bytes, which other shards need"""
        if not isinstance(record, bytes):
            raise TypeError("a record that is judged in rounds must be bytes")
        self._offset, self._record = offset, record
        return super().apply(record, offset)

    def _judge(self, signatures: Signatures, start: int, end: int, clock: Clock) -> tuple[Verdicts, IndexUpdate]:
        if not len(signatures) or self._offset < self.state.position or start < self.state.pages_applied:
            return super()._judge(signatures, start, end, clock)
        round_end = LogPlace(self._offset + 1, 0) if end == len(signatures) else LogPlace(self._offset, end)
        part, number = signatures.part(start, end), self.state.entry_count
        round_ = Round(LogPlace(self._offset, start), round_end, part, number, clock, (), 0)
        stored = self._stored.pop(round_.start, None)
        if stored is None:
            resolved, index_update = self._resolve_isolated(round_)
        else:
            resolved = _outcome_of(stored, round_)
            index_update = self._local_shard.index_update(round_, resolved)
        return replace(resolved.verdicts, marks=marks_of_round(part, resolved)), replace(index_update, places=None)

    def _resolve_isolated(self, round_: Round) -> tuple[RoundOutcome, IndexUpdate]:
        """Judge a round without its poison pages, store its outcome, and index it on the shards."""
        shards = self._shards

        def attempt(trial: Round) -> tuple[RoundOutcome, IndexUpdate]:
            if shards is None:
                judged = self._judge_all(trial.signatures, trial.clock)
                return outcome_of_one_process(trial, judged), judged.index_update
            resolved = self._resolve(trial, shards)
            # Compute the update before storing the outcome, because a stored outcome that fails here would stop every
            # later start.
            return resolved, self._local_shard.index_update(trial, resolved)

        (resolved, index_update), poison = isolate(
            lambda rows: attempt(exclude_pages(round_, rows)), len(round_.signatures)
        )
        self._poison |= {round_.start.page + row: error for row, error in poison.items()}
        range_ = range_of(round_)
        # A lost index makes earlier rounds be judged again. They are not stored twice.
        follows = range_.start >= self._stored_end
        body = self._outcomes.append(range_, resolved) if follows else write_outcome(resolved)
        if shards is not None:
            shards.index(range_, body)
        return resolved, index_update

    def _resolve(self, round_: Round, shards: Shards) -> RoundOutcome:
        """Judge a round on the shards."""
        shard_candidates = shards.find_candidates(round_, self._record)
        if self.scheme.host_thresholds is not None:
            return self._resolve_hosts(round_, shards, shard_candidates)
        return resolve(
            round_, lay_out_keys(round_.signatures, self.scheme), self.scheme, self._limits, shard_candidates
        )

    def _resolve_hosts(
        self, round_: Round, shards: Shards, shard_candidates: Sequence[ShardCandidates]
    ) -> RoundOutcome:
        """Resolve a round on the shards under one speculation after the other, until one is right."""
        shard_candidates = shards.confirm(round_, shard_candidates)
        speculation = first_speculation(round_, shard_candidates)
        while True:
            resolutions = shards.resolve_hosts(round_, shard_candidates, speculation)
            checked = check_speculation(round_, self.scheme, self._limits, shard_candidates, resolutions, speculation)
            if checked.speculation is None:
                return merge_resolutions(round_, self.scheme, shard_candidates, resolutions, checked.postings)
            speculation = checked.speculation


def _outcome_of(stored: StoredOutcome, round_: Round) -> RoundOutcome:
    """The stored outcome of a round. Raises StateError if it is that of another range of the log."""
    if stored.range != range_of(round_):
        raise StateError(
            f"the outcomes in {DIRECTORY} of the state",
            "must match the rounds of its log",
            f"{stored.range.start}..{stored.range.end}",
            f"delete {DIRECTORY} in the state directory, and run again; all inputs are then read again",
        )
    return stored.resolved
