"""Runs a backfill over a state directory: opens or continues the run, judges all inputs, and sums up."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.rocks import RocksState
from spotsieve.stream.backfill.driver import BackfillProgress, Driver
from spotsieve.stream.backfill.judging import RoundEngine, Shards
from spotsieve.stream.backfill.known import JudgedPages
from spotsieve.stream.backfill.outcomes import OutcomeStore, remove_outcomes
from spotsieve.stream.backfill.parts import Parts, parts_of
from spotsieve.stream.backfill.run_file import RunFile, find_complete_run, find_unfinished_run, run_description
from spotsieve.stream.backfill.schedule import Readers, Task
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.targets import output_exists
from spotsieve.stream.local.local_engine import LocalEngine, OnCatchUp
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text

MakeShards = Callable[[RocksState, LocalLog, OutcomeStore], Shards]
"""make_shards(state, log, outcomes) gives shards that are filled with what the outcomes have."""


class Backfill:
    """A run, new or continued. Use it as a context, which owns the state directory.

    notices: what a person should know  resumed: whether it continues a run  done_bytes: of inputs that are done
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        scheme: Scheme,
        inputs: Sequence[Input],
        outputs: Mapping[str, str | None],
    ) -> None:
        """outputs: directories or URLs of `out`, `verdicts` and `rejected`. Nothing is opened yet.

        Raises SettingError where the directory is in the middle of another run, StateError.
        """
        self._directory, self._settings, self._scheme = directory, settings, scheme
        self._digest = settings_digest(verdict_settings_text(settings))
        wanted = run_description(self._digest, inputs, outputs)
        run = find_unfinished_run(directory, wanted)
        self.resumed = run is not None
        self._run = wanted if run is None else run
        self._id = bytes.fromhex(self._run["id"])
        self.tasks = [Task(file, parts_of(number, file, **outputs), self._id) for number, file in enumerate(inputs)]
        self.notices: list[str] = []
        self._closing = contextlib.ExitStack()

    @property
    def parts(self) -> list[Parts]:
        """The parts of all inputs."""
        return [task.parts for task in self.tasks]

    def completed(self) -> FilterSummary | None:
        """What this very run found, if it had come to its end before and all its parts are there; else None."""
        names = [name for parts in self.parts for name in parts if name is not None]
        run = (
            None if self.resumed else find_complete_run(self._directory, self._run, [task.file for task in self.tasks])
        )
        if run is None or not names or not all(map(output_exists, names)):
            return None
        return self._summary(RunFile(self._directory, run), int(run["entries"]))

    def _summary(self, run_file: RunFile, entries: int) -> FilterSummary:
        summary = FilterSummary(files=len(self.tasks), entries=entries)
        for number in sorted(run_file.done):
            summary.add(run_file.done[number])
        return summary

    def open(self, on_catch_up: OnCatchUp, make_shards: MakeShards | None) -> None:
        """Open log, state and outcomes, and judge what is logged and was not judged.

        make_shards: None for one shard, here. Raises StateError, SettingError, SettingsMismatch, CorruptRecord.
        """
        self._log: LocalLog

        def make_engine(state: RocksState, log: LocalLog) -> RoundEngine:
            self._log = log  # The state is locked from here on: what another command has begun is not removed.
            if not self.resumed and make_shards is None:
                remove_outcomes(self._directory)  # Of other runs: only shards that are filled need them.
            self.outcomes = OutcomeStore(self._directory, self._digest)
            self._closing.callback(self.outcomes.close)
            shards = None if make_shards is None else make_shards(state, log, self.outcomes)
            return RoundEngine(self._settings, self._scheme, state, self.outcomes, shards)

        self.local = self._closing.enter_context(
            LocalEngine(self._directory, self._settings, self._scheme, on_catch_up, make_engine)
        )
        self.notices += self.local.notices
        self.run_file = RunFile(self._directory, self._run)
        if not self.resumed:
            self.run_file.begin(self.outcomes.end)
        self._judged = JudgedPages(self._log, self.outcomes, self.run_file.first_round, self._id)
        if self.resumed:
            self.notices.append(
                f"the run goes on: {len(self.run_file.done):,} of {len(self.tasks):,} inputs are done, and "
                f"{self._judged.count:,} pages are judged"
            )

    @property
    def bytes_to_read(self) -> int | None:
        """The size of the inputs that are not done; None if one has no known size."""
        left = [task.file.size for number, task in enumerate(self.tasks) if number not in self.run_file.done]
        return None if None in left else sum(filter(None, left))

    def run(
        self,
        readers: Readers,
        stopped: Callable[[], bool],
        on_batch: Callable[[BackfillProgress], None],
        tell: Callable[[str], None],
    ) -> FilterSummary:
        """Judge and write all inputs that are not done. stopped: whether to end after the batch in hand

        tell: called with what a person should know of readers that are lost
        Raises what readers raise: SettingError (a part cannot be written), InputError, StateError.
        """
        driver = Driver(self.tasks, self.local, self._judged, self.run_file, readers, stopped, on_batch, tell)
        whole = driver.run()
        summary = self._summary(self.run_file, self.local.entry_count)
        summary.interrupted = not whole
        if whole:
            self.run_file.complete(summary.entries)
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
