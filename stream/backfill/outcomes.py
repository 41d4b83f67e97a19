"""Keeps the outcome of every round of a backfill in a file beside the log: records of stream/sharding in a local log.

By it a run that was killed repeats the verdicts that it has given, and a lost shard is filled without judging.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog
from spotsieve.stream.sharding.records.columns import ColumnReader
from spotsieve.stream.sharding.records.frame import (
    KIND_OUTCOME,
    RoundRange,
    decode_body,
    decode_round_record,
    encode_round_record,
)
from spotsieve.stream.sharding.records.outcome import read_outcome, write_outcome
from spotsieve.stream.sharding.resolving import RoundOutcome
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Share

DIRECTORY = "backfill"
"""Its place in a state directory; only backfills look at it."""
_ONE = Share(0, 1)
"""An outcome does not depend on how many shards there were, so that a run may go on with another number."""


class StoredOutcome(NamedTuple):
    """The outcome of a round. body: as write_outcome packs it"""

    range: RoundRange
    body: bytes
    resolved: RoundOutcome


class OutcomeStore:
    """The outcomes of rounds, in the order of the log. One process owns them."""

    def __init__(self, directory: Path, settings_digest: bytes) -> None:
        """directory: of the state. Raises StateLockedError, StateError, CorruptRecord."""
        self._digest = settings_digest
        self._log = LocalLog(directory / DIRECTORY)

    @property
    def end(self) -> int:
        """How many rounds are kept."""
        return self._log.end

    def append(self, range_: RoundRange, resolved: RoundOutcome) -> bytes:
        """Keep the outcome of the next round; its body. Raises StateError."""
        body = write_outcome(resolved)
        self._log.append(encode_round_record(KIND_OUTCOME, self._digest, _ONE, range_, body))
        return body

    def read_from(self, number: int) -> Iterator[StoredOutcome]:
        """The rounds from this one on. Raises CorruptRecord, SettingsMismatch."""
        name = str(self._log.path)
        for at, record in self._log.read_from(number):
            told = decode_round_record(record, self._digest, _ONE.shards, name, at)
            first = told.range.first_number

            def read(columns: ColumnReader, first: int = first) -> RoundOutcome:
                return read_outcome(columns, first)

            yield StoredOutcome(told.range, told.body, decode_body(told, KIND_OUTCOME, read, name, at))

    def first_from(self, place: LogPlace) -> int:
        """The number of the first round that begins at this place of the log or behind it."""
        number = self.end
        while number and next(self.read_from(number - 1)).range.start >= place:
            number -= 1
        return number

    def last_end(self) -> LogPlace:
        """Where the last round ends in the log."""
        return next(self.read_from(self.end - 1)).range.end if self.end else LogPlace(0, 0)

    def close(self) -> None:
        """Let go of the file."""
        self._log.close()


def remove_outcomes(directory: Path) -> None:
    """Forget all rounds. directory: of the state"""
    (directory / DIRECTORY / LOG_FILE).unlink(missing_ok=True)
