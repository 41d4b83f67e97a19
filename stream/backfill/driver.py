"""Drives a backfill: takes what readers sign in the order of the inputs, has it judged, and tells them the verdicts."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from spotsieve.state.log.record import decode, encode
from spotsieve.stream.backfill.known import JudgedPages
from spotsieve.stream.backfill.reader import SignedRecords
from spotsieve.stream.backfill.run_file import RunFile
from spotsieve.stream.backfill.schedule import LostReader, Readers, Schedule, Task
from spotsieve.stream.local.local_engine import LocalEngine
from spotsieve.stream.verdict import Kind, Verdicts, concatenate, no_verdicts


class BackfillProgress(NamedTuple):
    """How far a run has come since it was started. bytes_read: of the inputs"""

    pages: int = 0
    duplicates: int = 0
    bytes_read: int = 0

    def plus(self, other: "BackfillProgress") -> "BackfillProgress":
        """Give both together."""
        return BackfillProgress(*(one + more for one, more in zip(self, other, strict=True)))

    def less(self, other: "BackfillProgress") -> "BackfillProgress":
        """Give what is left without the other."""
        return BackfillProgress(*(one - more for one, more in zip(self, other, strict=True)))


class Driver:
    """A run over all inputs, from where it was."""

    def __init__(
        self,
        tasks: Sequence[Task],
        local: LocalEngine,
        judged: JudgedPages,
        run_file: RunFile,
        readers: Readers,
        stopped: Callable[[], bool],
        on_batch: Callable[[BackfillProgress], None],
        tell: Callable[[str], None],
    ) -> None:
        """stopped: whether the run is to end after the present batch  on_batch: called after each  tell: as Schedule"""
        self._tasks, self._local, self._judged, self._run_file = tasks, local, judged, run_file
        self._with_originals = any(task.parts.verdicts for task in tasks)
        self._digest = local.engine.settings_digest
        self._stopped, self._on_batch, self._progress = stopped, on_batch, BackfillProgress()
        self._so_far = dict[int, BackfillProgress]()
        todo = [number for number in range(len(tasks)) if number not in run_file.done]
        self._schedule = Schedule(readers, tasks, todo, stopped, tell)
        self._pages = {number: summary.pages for number, summary in run_file.done.items()}
        self._first = [0]

    def run(self) -> bool:
        """Judge every input that is not done; whether all are. Raises what readers raise, StateError, InputError."""
        while not self._stopped():
            self._take_finished()
            undone = [number for number in range(len(self._tasks)) if number not in self._run_file.done]
            if not undone:
                return True
            number = next((one for one in undone if not self._schedule.is_finishing(one)), None)
            if number is None:
                self._schedule.wait_for_finished()
                continue
            with contextlib.suppress(LostReader):  # The input is driven again, from its first page on.
                self._drive(number)
        return False

    def _drive(self, number: int) -> None:
        """Judge an input, from its first page on; pages that the run has judged before get the verdicts of then."""
        page = first = self._first_page(number)
        # A reader that is lost may have had pages of it judged.
        self._progress = self._progress.less(self._so_far.pop(number, BackfillProgress()))
        source = self._tasks[number].file.source
        for signed in self._schedule.batches(number):
            parts = list[Verdicts]()
            for record in signed.records:
                parts.append(self._judge(record, page, source))
                page += len(parts[-1])
            self._write(number, signed, concatenate(parts) if parts else no_verdicts())
            self._take_finished()
        if not self._stopped():
            self._pages[number] = page - first
            self._schedule.finish(number)

    def _first_page(self, number: int) -> int:
        """The number in the run of an input's first page; all inputs before are judged."""
        while len(self._first) <= number:
            self._first.append(self._first[-1] + self._pages[len(self._first) - 1])
        return self._first[number]

    def _judge(self, record: bytes, page: int, source: str) -> Verdicts:
        """The verdicts of a record, whose first page is the run's page of this number."""
        known = self._judged.count - page
        if known <= 0:
            return self._judge_new(record)
        signed = decode(record)
        signatures = signed.signatures
        verdicts = self._judged.verdicts_from(page, signatures.part(0, min(known, len(signatures))), source)
        if known >= len(signatures):
            return verdicts
        rest = encode(signatures.part(known, len(signatures)), signed.writer, signed.sequence, self._digest)
        return concatenate([verdicts, self._judge_new(rest)])

    def _judge_new(self, record: bytes) -> Verdicts:
        verdicts = self._local.judge_record(record)
        self._judged.count += len(verdicts)
        return verdicts

    def _write(self, number: int, signed: SignedRecords, verdicts: Verdicts) -> None:
        """Have the records of a batch written by its verdicts."""
        done = BackfillProgress(signed.pages, int((verdicts.kind == Kind.DUPLICATE).sum()), signed.bytes_read)
        self._progress = self._progress.plus(done)
        self._so_far[number] = self._so_far.get(number, BackfillProgress()).plus(done)
        if not self._with_originals:
            # They take longer to send than all the rest.
            nobody = (None,) * len(verdicts)
            verdicts = replace(verdicts, originals=nobody, replaces=nobody)
        self._schedule.write(number, verdicts)
        self._on_batch(self._progress)

    def _take_finished(self) -> None:
        for number, summary in self._schedule.finished():
            self._run_file.finish(number, summary)
