"""Repeats the verdicts of pages that a run has judged already, from the log and the outcomes of its rounds."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, writer_of
from spotsieve.stream.backfill.outcomes import OutcomeStore, StoredOutcome
from spotsieve.stream.errors import InputError
from spotsieve.stream.signature import Signatures, page_ids_of
from spotsieve.stream.verdict import Verdicts


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
