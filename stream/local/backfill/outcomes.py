"""The outcome of every round of a backfill, in a file beside the log: records of stream/sharding in a local log.

With the outcomes, a killed run repeats the verdicts that it has given (JudgedPages), and a lost shard is filled without
judging again (OutcomeStore).
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.meta import NO_LOG, LogIdentity
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, writer_of
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.signature import Signatures, page_ids_of
from spotsieve.stream.base.verdict import Verdicts, marks_of_pages
from spotsieve.stream.sharding.records.frame import (
    KIND_OUTCOME,
    ColumnReader,
    RoundRange,
    decode_body,
    decode_round_record,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import read_outcome, write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome, marks_of_round
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Share

DIRECTORY = "backfill"
"""Folder of a state directory that only backfills use."""
_ONE = Share(0, 1)
"""An outcome does not depend on the number of shards, so a run may continue with another number."""


class StoredOutcome(NamedTuple):
    """The outcome of a round. body: its bytes from write_outcome  resolved: decoded"""

    range: RoundRange
    body: bytes
    resolved: RoundOutcome


class OutcomeStore:
    """Outcomes of rounds, in the order of the log. One process owns the store."""

    def __init__(self, directory: Path, settings_digest: bytes, log: LogIdentity = NO_LOG) -> None:
        """Open or create the store of a state directory. log: the log whose rounds it holds

        Raises StateLockedError, StateError, CorruptRecord.
        """
        self._digest, self._of_log = settings_digest, log
        self._log = LocalLog(directory / DIRECTORY)

    @property
    def end(self) -> int:
        """Number of stored rounds."""
        return self._log.end

    def append(self, range_: RoundRange, resolved: RoundOutcome) -> bytes:
        """Store the outcome of the next round and return its body. Raises StateError."""
        body = write_outcome(resolved)
        self._log.append(encode_round_record(KIND_OUTCOME, self._digest, _ONE, range_, body, self._of_log))
        return body

    def read_from(self, number: int) -> Iterator[StoredOutcome]:
        """Outcomes from a round number on. Raises CorruptRecord, SettingsMismatch, StateError (of another log)."""
        name = str(self._log.path)
        for at, record in self._log.read_from(number):
            stored = decode_round_record(record, self._digest, _ONE.shards, name, at, self._of_log)
            first = stored.range.first_number

            def read(columns: ColumnReader, first: int = first) -> RoundOutcome:
                return read_outcome(columns, first)

            yield StoredOutcome(stored.range, stored.body, decode_body(stored, KIND_OUTCOME, read, name, at))

    def first_from(self, place: LogPlace) -> int:
        """Number of the first round that begins at or after a place of the log."""
        number = self.end
        while number and next(self.read_from(number - 1)).range.start >= place:
            number -= 1
        return number

    def last_end(self) -> LogPlace:
        """Place of the log at which the last round ends."""
        return next(self.read_from(self.end - 1)).range.end if self.end else LogPlace(0, 0)

    def close(self) -> None:
        """Close the file."""
        self._log.close()


def remove_outcomes(directory: Path) -> None:
    """Delete the outcomes of a state directory."""
    (directory / DIRECTORY / LOG_FILE).unlink(missing_ok=True)


class JudgedPages:
    """Verdicts of the pages that a run has judged, in order, from the log and the outcomes of its rounds.

    Rounds of other writers' records are not part of the run: a killed `filter` may have left a record to be judged.

    count: number of judged pages; the driver adds the pages that it has judged since
    """

    def __init__(self, log: LocalLog, outcomes: OutcomeStore, first_round: int, run: bytes) -> None:
        """first_round: number of the run's first round  run: prefix of the writer of its records"""
        self._log, self._outcomes, self._next, self._run = log, outcomes, first_round, run
        self._rounds, self._behind = list[int](), list[int]()
        self._count_rounds()
        self.count = self._behind[-1] if self._behind else 0

    def _count_rounds(self) -> None:
        """Count the pages of the rounds that were stored since the last call."""
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
        """Verdicts of signed pages. page: number of the first of them in the run  source: name of their input

        Raises InputError if the input has changed, so that its pages are not those that were judged.
        """
        self._count_up_to(page + len(signed))
        wanted, rows = len(signed), list[tuple[Verdicts, int]]()
        ids = page_ids_of(signed)
        for verdicts, row, page_id in itertools.islice(self._pages(page), wanted):
            if ids[len(rows)] != page_id:
                raise InputError(
                    source,
                    "must not change during a run, and its pages differ from those that were judged",
                    None,
                    "restore the file, or start a new run with a new --state and --out",
                )
            rows.append((verdicts, row))
        return _gathered(rows)

    def check_end(self, page: int, source: str) -> None:
        """Check that an input ends where its judged pages end, and not before. page: number after its last page

        Raises InputError.
        """
        if page >= self.count:
            return
        self._count_up_to(page + 1)
        _, _, (judged_source, _, _) = next(self._pages(page))
        if judged_source == source:
            raise InputError(
                source,
                "must not change during a run, and it ends before the last page of it that was judged",
                None,
                "restore the file, or make it readable to its end, and run again; "
                "or start a new run with a new --state and --out",
            )

    def _count_up_to(self, pages: int) -> None:
        if pages > (self._behind[-1] if self._behind else 0):
            self._count_rounds()

    def _pages(self, page: int) -> Iterator[tuple[Verdicts, int, tuple[str, int, int]]]:
        first = int(np.searchsorted(self._behind, page, side="right"))
        skipped = page - (self._behind[first - 1] if first else 0)
        for number in self._rounds[first:]:
            kept = next(self._outcomes.read_from(number))
            signatures = decode(self._record_of(kept)).signatures
            ids, of_round = page_ids_of(signatures), kept.resolved.verdicts
            start = kept.range.start.page
            pages = signatures.part(start, start + len(of_round))
            verdicts = replace(of_round, marks=marks_of_round(pages, kept.resolved))
            for row in range(skipped, len(verdicts)):
                yield verdicts, row, ids[start + row]
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
        marks_of_pages([None if verdicts.marks is None else verdicts.marks.of_page(row) for verdicts, row in rows]),
    )
