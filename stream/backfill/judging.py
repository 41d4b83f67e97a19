"""Judges records of the log in rounds, and keeps the outcomes: alone, or by answers of all shards and their walks.

The state of one process is kept beside the shards, by filing as its only one. Where there are none, it alone judges.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock
from spotsieve.state.index import Filing, State
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import LogRecord
from spotsieve.stream.backfill.outcomes import DIRECTORY, Kept, Outcomes
from spotsieve.stream.backfill.shard import Shard
from spotsieve.stream.engine import Applied, Engine
from spotsieve.stream.errors import StateError
from spotsieve.stream.judge import policy_of
from spotsieve.stream.poison import isolate
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.sharding.hosts import Walks, first_guess
from spotsieve.stream.sharding.keys import lay_out
from spotsieve.stream.sharding.limits import limits_in_shards
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.frame import Range, range_of
from spotsieve.stream.sharding.records.outcome import write_outcome
from spotsieve.stream.sharding.resolving import Resolved, resolve, resolved_alone
from spotsieve.stream.sharding.resolving_hosts import check_guess, resolve_walks
from spotsieve.stream.sharding.rounds import Place, Round
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sharding.sparing import spare
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Verdicts


class Shards(Protocol):
    """All shards of a run. They know every round whose outcome they were told. A round may spare pages, and is then
    answered anew.

    Raises what breaks on a page as it is, and a StateError where the shards do not go on for another reason.
    """

    def answer(self, round_: Round, record: bytes) -> list[Meetings]:
        """What each meets. record: of the log, which the round lies in; the other steps are of the same round"""

    def confirm(self, round_: Round, meetings: Sequence[Meetings]) -> list[Meetings]:
        """The same, with what the shards say of the entries that they hold."""

    def walk(self, round_: Round, meetings: Sequence[Meetings], guess: NDArray[np.bool_]) -> list[Walks]:
        """What each finds of the pages of its hosts. meetings: confirmed  guess: bool[n]"""

    def file(self, range_: Range, outcome: bytes) -> None:
        """Have each file the round. outcome: the body, which is kept by now"""


class RoundEngine(Engine):
    """Applies the log as Engine does, in rounds whose outcomes it keeps; if there are shards, they judge."""

    def __init__(
        self, settings: Settings, scheme: Scheme, state: State, outcomes: Outcomes, shards: Shards | None
    ) -> None:
        """shards: None where the state alone judges. Raises SettingError for settings that shards do not keep to."""
        digest = settings_digest(verdict_settings_text(settings))
        super().__init__(scheme, state, settings.index, digest, LocalLog.name, policy_of(settings))
        self._limits = limits_in_shards(settings, scheme)
        self._keeper = Shard(Share(0, 1), settings, scheme, state)
        self._shards = shards
        self._outcomes = outcomes
        first = outcomes.first_from(Place(state.position, state.pages_applied))
        self._unfiled = {kept.range.start: kept for kept in outcomes.read_from(first)}
        self._kept_to = outcomes.last_end()
        self._offset, self._record = 0, b""

    def apply(self, record: bytes | LogRecord, offset: int) -> Applied:
        """As Engine.apply. record: its bytes, which other shards are told"""
        if not isinstance(record, bytes):
            raise TypeError("a record that is judged in rounds is given as bytes")
        self._offset, self._record = offset, record
        return super().apply(record, offset)

    def _judge(self, signatures: Signatures, start: int, end: int, clock: Clock) -> tuple[Verdicts, Filing]:
        if not len(signatures) or self._offset < self.state.position or start < self.state.pages_applied:
            return super()._judge(signatures, start, end, clock)
        behind = Place(self._offset + 1, 0) if end == len(signatures) else Place(self._offset, end)
        part, number = signatures.part(start, end), self.state.entry_count
        round_ = Round(Place(self._offset, start), behind, part, number, clock, (), 0)
        kept = self._unfiled.pop(round_.start, None)
        if kept is None:
            resolved, filing = self._resolve_sparing(round_)
        else:
            resolved = _same_round(kept, round_)
            filing = self._keeper.filing(round_, resolved)
        return resolved.verdicts, replace(filing, places=None)

    def _resolve_sparing(self, round_: Round) -> tuple[Resolved, Filing]:
        """Judge a round without the pages that break the code, keep its outcome, and have the shards file it."""
        shards = self._shards

        def attempt(trial: Round) -> tuple[Resolved, Filing]:
            if shards is None:
                judged = self._judge_all(trial.signatures, trial.clock)
                return resolved_alone(trial, judged), judged.filing
            resolved = self._resolve(trial, shards)
            # Before the outcome is kept: what breaks this alone would stop every later start.
            return resolved, self._keeper.filing(trial, resolved)

        (resolved, filing), broken = isolate(lambda rows: attempt(spare(round_, rows)), len(round_.signatures))
        self._broken |= {round_.start.page + row: error for row, error in broken.items()}
        range_ = range_of(round_)
        # What lies before is judged anew where the index was lost: outcomes stay in the order of the log.
        follows = range_.start >= self._kept_to
        body = self._outcomes.append(range_, resolved) if follows else write_outcome(resolved)
        if shards is not None:
            shards.file(range_, body)
        return resolved, filing

    def _resolve(self, round_: Round, shards: Shards) -> Resolved:
        """Have the shards judge a round."""
        meetings = shards.answer(round_, self._record)
        if self.scheme.bars is not None:
            return self._walk(round_, shards, meetings)
        return resolve(round_, lay_out(round_.signatures, self.scheme), self.scheme, self._limits, meetings)

    def _walk(self, round_: Round, shards: Shards, meetings: Sequence[Meetings]) -> Resolved:
        """Have the shards walk under one guess after the other, until none is wrong."""
        meetings = shards.confirm(round_, meetings)
        guess = first_guess(round_, meetings)
        while True:
            walks = shards.walk(round_, meetings, guess)
            checked = check_guess(round_, self.scheme, self._limits, meetings, walks, guess)
            if checked.guess is None:
                return resolve_walks(round_, self.scheme, meetings, walks, checked)
            guess = checked.guess


def _same_round(kept: Kept, round_: Round) -> Resolved:
    """The outcome that is kept of a round."""
    if kept.range != range_of(round_):
        raise StateError(
            f"the outcomes in {DIRECTORY} of the state",
            "must be of the rounds of its log",
            f"{kept.range.start}..{kept.range.end}",
            f"delete {DIRECTORY} in the state directory, and run again: its inputs are read anew",
        )
    return kept.resolved
