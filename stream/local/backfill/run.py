"""A backfill over a state directory: open or continue the run, drive its readers, judge all inputs, sum up."""

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from spotsieve.state.format.meta import NO_LOG
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode
from spotsieve.state.still.reading import TIMEOUT_S
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Kind, Verdicts, concatenate, no_verdicts
from spotsieve.stream.files.inputs import Input, total_bytes
from spotsieve.stream.files.targets import output_exists, place_of
from spotsieve.stream.local.against import Checkpoint, keep_checkpoints, kept_checkpoints, log_ids_of
from spotsieve.stream.local.backfill.outcomes import DIRECTORY, JudgedPages, OutcomeStore, remove_outcomes
from spotsieve.stream.local.backfill.parts import Parts, claim_directory, parts_of, release_directory
from spotsieve.stream.local.backfill.reader import SignedRecords
from spotsieve.stream.local.backfill.rounds import RoundEngine, Shards
from spotsieve.stream.local.backfill.run_file import (
    RunFile,
    ended_with_faults,
    find_complete_run,
    find_unfinished_run,
    run_description,
)
from spotsieve.stream.local.backfill.schedule import LostReader, Readers, Schedule, Task
from spotsieve.stream.local.engines import LocalEngine, OnCatchUp
from spotsieve.stream.local.input_ledger import check_and_note_inputs
from spotsieve.stream.local.summary import ExactCopies, FilterSummary
from spotsieve.stream.sign.schemes import Scheme

AGAINST = "against"
"""The folder, among the files of a run, of the checkpoints of other states."""


class BackfillProgress(NamedTuple):
    """Progress of a run since its start: pages and duplicates judged, and bytes of inputs read."""

    pages: int = 0
    duplicates: int = 0
    bytes_read: int = 0

    def plus(self, other: "BackfillProgress") -> "BackfillProgress":
        """Sum of both."""
        return BackfillProgress(*(one + more for one, more in zip(self, other, strict=True)))

    def less(self, other: "BackfillProgress") -> "BackfillProgress":
        """Difference of both."""
        return BackfillProgress(*(one - more for one, more in zip(self, other, strict=True)))


class Driver:
    """Drives a run over all unfinished inputs: signed batches in, verdicts out."""

    def __init__(
        self,
        tasks: Sequence[Task],
        local: LocalEngine,
        judged: JudgedPages,
        run_file: RunFile,
        readers: Readers,
        stopped: Callable[[], bool],
        on_batch: Callable[[BackfillProgress], None],
        notify: Callable[[str], None],
    ) -> None:
        """stopped: whether the run ends after the present batch  on_batch: called after each batch

        notify: called with a message for the user, such as that a reader is lost
        """
        self._notify = notify
        self._tasks, self._local, self._judged, self._run_file = tasks, local, judged, run_file
        self._with_originals = any(task.parts.verdicts for task in tasks)
        self._with_text = any(task.with_text for task in tasks)
        self._digest = local.engine.settings_digest
        self._stopped, self._on_batch, self._progress = stopped, on_batch, BackfillProgress()
        self._so_far = dict[int, BackfillProgress]()
        self._exact_copies = dict[int, ExactCopies]()
        todo = [number for number in range(len(tasks)) if number not in run_file.done]
        self._schedule = Schedule(readers, tasks, todo, stopped, notify)
        # Pages that other states contain are not judged here.
        self._pages = {number: summary.pages - summary.in_other_states for number, summary in run_file.done.items()}
        self._first = [0]

    def run(self) -> bool:
        """Judge every unfinished input, and return whether all are done.

        Raises the exceptions of readers, StateError, InputError.
        """
        done, first = self._run_file.done, 0
        while not self._stopped():
            self._take_finished()
            while first in done:
                first += 1
            if first == len(self._tasks):
                return True
            unfinished = (number for number in range(first, len(self._tasks)) if number not in done)
            number = next((one for one in unfinished if not self._schedule.is_finishing(one)), None)
            if number is None:
                self._schedule.wait_for_finished()
                continue
            with contextlib.suppress(LostReader):  # The input is driven again from its first page.
                self._drive(number)
        return False

    def _drive(self, number: int) -> None:
        """Judge an input from its first page. Pages that the run has already judged get their stored verdicts."""
        page = first = self._first_page(number)
        # A lost reader may have had pages of this input judged.
        self._progress = self._progress.less(self._so_far.pop(number, BackfillProgress()))
        self._exact_copies[number] = ExactCopies()
        source = self._tasks[number].file.source
        for signed in self._schedule.batches(number):
            if signed.notice:
                self._notify(signed.notice)
            parts = list[Verdicts]()
            for record in signed.records:
                parts.append(self._judge(record, page, source))
                page += len(parts[-1])
            self._write(number, signed, concatenate(parts) if parts else no_verdicts())
            self._take_finished()
        if not self._stopped():
            self._judged.check_end(page, source)
            self._pages[number] = page - first
            self._schedule.finish(number)

    def _first_page(self, number: int) -> int:
        """Number of an input's first page in the run. All earlier inputs must be judged."""
        while len(self._first) <= number:
            self._first.append(self._first[-1] + self._pages[len(self._first) - 1])
        return self._first[number]

    def _judge(self, record: bytes, page: int, source: str) -> Verdicts:
        """Verdicts of the pages of a record. page: number of the first in the run  source: name of the input"""
        known = self._judged.count - page
        if known <= 0:
            return self._judge_new(record)
        signed = decode(record)
        signatures = signed.signatures
        first = signatures.part(0, min(known, len(signatures)))
        verdicts = self._judged.verdicts_from(page, first, source)
        if self._with_text:
            verdicts = self._local.engine.with_marks(verdicts, first)
        if known >= len(signatures):
            return verdicts
        rest = encode(signatures.part(known, len(signatures)), signed.writer, signed.sequence, self._digest)
        return concatenate([verdicts, self._judge_new(rest)])

    def _judge_new(self, record: bytes) -> Verdicts:
        verdicts = self._local.judge_record(record)
        self._judged.count += len(verdicts)
        return verdicts

    def _write(self, number: int, signed: SignedRecords, verdicts: Verdicts) -> None:
        """Have the reader write a batch by its verdicts."""
        duplicates = int((verdicts.kind == Kind.DUPLICATE).sum()) + signed.in_other_states
        done = BackfillProgress(signed.pages, duplicates, signed.bytes_read)
        self._progress = self._progress.plus(done)
        self._so_far[number] = self._so_far.get(number, BackfillProgress()).plus(done)
        self._exact_copies[number].count(verdicts)
        self._exact_copies[number].add(signed.exact_copies)
        if not self._with_originals:
            # Without verdict files nobody reads them, and they take longer to send than everything else.
            nobody = (None,) * len(verdicts)
            verdicts = replace(verdicts, originals=nobody, replaces=nobody)
        if not self._with_text:
            verdicts = replace(verdicts, marks=None)
        self._schedule.write(number, verdicts)
        self._on_batch(self._progress)

    def _take_finished(self) -> None:
        for number, summary in self._schedule.finished():
            summary.exact_copies = self._exact_copies.pop(number)
            self._run_file.finish(number, summary)


MakeShards = Callable[[State, LocalLog, OutcomeStore], Shards]
"""make_shards(state, log, outcomes) returns shards that are filled from the log and the outcomes."""


class Backfill:
    """A run, new or continued. Use it as a context, which owns the state directory.

    notices: messages for the user  resumed: whether it continues an interrupted run
    repeats_faulty: whether it repeats a run that could not read some inputs to their end
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        scheme: Scheme,
        inputs: Sequence[Input],
        outputs: Mapping[str, str | None],
        against: Sequence[Path] = (),
        timeout_s: float = TIMEOUT_S,
        with_clusters: bool = False,
        with_text: bool = False,
    ) -> None:
        """Prepare a run without opening anything. outputs: directories or URLs of `out`, `verdicts` and `rejected`

        against: states whose pages are dropped; they and the settings are those of check_states
        timeout_s: how long to wait for a process that owns one of them
        with_clusters: whether verdicts get the column "cluster"  with_text: whether pages get their text
        Raises SettingError if another run of the directory was interrupted, StateError if its run file is unreadable.
        """
        self._directory, self._settings, self._scheme = directory, settings, scheme
        self._digest = digest_of_settings(settings)
        self._against, self._timeout_s = against, timeout_s
        self._outputs = {flag: place_of(name) for flag, name in outputs.items() if name is not None}
        wanted = run_description(self._digest, settings.input, inputs, outputs, against, with_clusters, with_text)
        run = find_unfinished_run(directory, wanted)
        self.resumed = run is not None
        self.repeats_faulty = run is None and ended_with_faults(directory, wanted)
        self._run = wanted if run is None else run
        self._id = bytes.fromhex(self._run["id"])
        parts = [parts_of(number, len(inputs), file, **outputs) for number, file in enumerate(inputs)]
        self.tasks = [
            Task(file, part, self._id, with_clusters=with_clusters, with_text=with_text)
            for file, part in zip(inputs, parts, strict=True)
        ]
        self._with_text = with_text
        self.notices: list[str] = []
        self._closing = contextlib.ExitStack()

    @property
    def parts(self) -> list[Parts]:
        """The parts of all inputs."""
        return [task.parts for task in self.tasks]

    def completed(self) -> FilterSummary | None:
        """Summary of this run if it is already complete and all of its parts exist, else None."""
        names = [name for parts in self.parts for name in parts if name is not None]
        run = (
            None if self.resumed else find_complete_run(self._directory, self._run, [task.file for task in self.tasks])
        )
        if run is None or not names or not all(map(output_exists, names)):
            return None
        run_file = RunFile(self._directory, run)
        # A later run with --force may have been killed when it began.
        return self._summary(run_file, int(run["entries"])) if len(run_file.done) == len(self.tasks) else None

    def _summary(self, run_file: RunFile, entries: int) -> FilterSummary:
        summary = FilterSummary(files=len(self.tasks), entries=entries)
        for number in sorted(run_file.done):
            summary.add(run_file.done[number])
        return summary

    def open(self, on_catch_up: OnCatchUp, make_shards: MakeShards | None) -> None:
        """Open log, state and outcomes, and judge records that were logged but not judged.

        make_shards: makes the shards that judge; None to judge in this process
        Raises StateError, SettingError, SettingsMismatch, CorruptRecord.
        """
        self._log: LocalLog

        def make_engine(state: State, log: LocalLog) -> RoundEngine:
            self._log = log  # The state is locked from here on, so no other command's files are removed.
            if not self.resumed and make_shards is None:
                remove_outcomes(self._directory)  # Outcomes of other runs only serve to fill shards.
            self.outcomes = OutcomeStore(self._directory, self._digest, state.identity.log_identity or NO_LOG)
            self._closing.callback(self.outcomes.close)
            shards = None if make_shards is None else make_shards(state, log, self.outcomes)
            return RoundEngine(self._settings, self._scheme, state, self.outcomes, shards)

        self.local = self._closing.enter_context(
            LocalEngine(
                self._directory,
                self._settings,
                self._scheme,
                on_catch_up,
                make_engine,
                with_marks=self._with_text,
            )
        )
        identity = self.local.engine.state.identity.log_identity or NO_LOG
        against = tuple(self._checkpoints())
        self.tasks = [task._replace(salt=identity.salt, against=against) for task in self.tasks]
        self.notices += self.local.notices
        sources = [task.file.source for task in self.tasks]
        log_ids = log_ids_of(self._against)
        check_and_note_inputs(self._directory, self._settings.input, sources, self.local.knows_source, log_ids)
        with contextlib.ExitStack() as claims:  # An error releases the claims that were made here.
            for flag, directory in self._outputs.items():
                if claim_directory(flag, directory, self._run["id"], self._directory):
                    claims.callback(release_directory, directory, self._run["id"], self._directory)
            self.run_file = RunFile(self._directory, self._run)
            if self.resumed:
                self.run_file.check_log(identity)
            else:
                self.run_file.begin(self.outcomes.end, identity)
            claims.pop_all()
        self._judged = JudgedPages(self._log, self.outcomes, self.run_file.first_round, self._id)
        if self.resumed:
            self.notices.append(
                f"the interrupted run continues: {len(self.run_file.done):,} of {len(self.tasks):,} inputs are done, "
                f"and {self._judged.count:,} pages are judged"
            )

    def _checkpoints(self) -> list[Checkpoint]:
        """The checkpoints of the other states, which a continued run has kept."""
        folder = self._directory / DIRECTORY / AGAINST
        if self.resumed:
            return kept_checkpoints(self._against, folder)
        shutil.rmtree(folder, ignore_errors=True)
        return keep_checkpoints(self._against, folder, self._timeout_s)

    @property
    def bytes_to_read(self) -> int | None:
        """Size of the unfinished inputs, or None if the size of one is unknown."""
        return total_bytes([task.file for number, task in enumerate(self.tasks) if number not in self.run_file.done])

    def run(
        self,
        readers: Readers,
        stopped: Callable[[], bool],
        on_batch: Callable[[BackfillProgress], None],
        notify: Callable[[str], None],
    ) -> FilterSummary:
        """Judge and write all unfinished inputs.

        stopped: whether to end after the present batch  on_batch: called with the progress after each batch
        notify: called with a message for the user, such as that a reader is lost
        Raises SettingError (a part cannot be written), InputError, StateError.
        """
        driver = Driver(self.tasks, self.local, self._judged, self.run_file, readers, stopped, on_batch, notify)
        is_complete = driver.run()
        summary = self._summary(self.run_file, self.local.entry_count)
        summary.interrupted = not is_complete
        if is_complete:
            # Before complete(): a complete run is never opened again, so its claim would stay.
            for directory in self._outputs.values():
                release_directory(directory, self._run["id"], self._directory)
            self.run_file.complete(summary.entries, len(summary.faults))
            shutil.rmtree(self._directory / DIRECTORY / AGAINST, ignore_errors=True)
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
