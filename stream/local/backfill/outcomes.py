"""Keeps the outcome of every round of a backfill in a file beside the log: records of stream/sharding in a local log.

By it a run that was killed repeats the verdicts that it has given, and a lost shard is filled without judging.

Repeats the verdicts of pages that a run has judged already, from the log and the outcomes of its rounds.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, writer_of
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.signature import Signatures, page_ids_of
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.sharding.records.frame import (
    KIND_OUTCOME,
    ColumnReader,
    RoundRange,
    decode_body,
    decode_round_record,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import read_outcome, write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome
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


class JudgedPages:
    """The pages of a run, in the order in which they were judged: those of its rounds.

    A round of another writer's record is none of them: a `filter` that was killed may have left one to be judged.

    count: how many there are; whoever judges more adds them
    """

    def __init__(self, log: LocalLog, outcomes: OutcomeStore, first_round: int, run: bytes) -> None:
        """first_round: of the run  run: what begins the writer of its records"""
        self._log, self._outcomes, self._next, self._run = log, outcomes, first_round, run
        self._rounds, self._behind = list[int](), list[int]()
        self._count_rounds()
        self.count = self._behind[-1] if self._behind else 0

    def _count_rounds(self) -> None:
        """Count the pages of the rounds that came since."""
        count = self._behind[-1] if self._behind else 0
        for number, kept in enumerate(self._outcomes.read_from(self._next), self._next):
            self._next = number + 1
            if writer_of(self._record_of(kept)).startswith(self._run):
                count += len(kept.resolved.verdicts)
                self._rounds.append(number)
                self._behind.append(count)

    def _record_of(self, kept: StoredOutcome) -> bytes:
        _, record = next(self._log.read_from(kept.range.start.record))
        return record

    def verdicts_from(self, page: int, signed: Signatures, source: str) -> Verdicts:
        """The verdicts of these pages, the first of which is the run's page of this number.

        Raises InputError where they are not the pages that were judged: the input, of this source, has changed.
        """
        if page + len(signed) > (self._behind[-1] if self._behind else 0):
            self._count_rounds()
        wanted, rows = len(signed), list[tuple[Verdicts, int]]()
        ids = page_ids_of(signed)
        for verdicts, row, page_id in itertools.islice(self._pages(page), wanted):
            if ids[len(rows)] != page_id:
                raise InputError(
                    source,
                    "must be as it was when the run began: its pages are other ones",
                    None,
                    "bring the file back, or name a new --state and --out to begin anew",
                )
            rows.append((verdicts, row))
        return _gathered(rows)

    def _pages(self, page: int) -> Iterator[tuple[Verdicts, int, tuple[str, int, int]]]:
        first = int(np.searchsorted(self._behind, page, side="right"))
        skipped = page - (self._behind[first - 1] if first else 0)
        for number in self._rounds[first:]:
            kept = next(self._outcomes.read_from(number))
            ids = page_ids_of(decode(self._record_of(kept)).signatures)
            verdicts = kept.resolved.verdicts
            for row in range(skipped, len(verdicts)):
                yield verdicts, row, ids[kept.range.start.page + row]
            skipped = 0


def _gathered(rows: list[tuple[Verdicts, int]]) -> Verdicts:
    def column(name: str, dtype: type) -> NDArray[Any]:
        return np.array([getattr(verdicts, name)[row] for verdicts, row in rows], dtype)

    return Verdicts(
        column("kind", np.uint8),
        column("reason", np.uint8),
        column("score", np.float64),
        tuple(verdicts.originals[row] for verdicts, row in rows),
        column("candidates", np.int64),
        column("found_by", np.uint8),
        column("cut", np.bool_),
        tuple(verdicts.replaces[row] for verdicts, row in rows),
    )
