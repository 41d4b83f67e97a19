"""Owns the filter without a broker: records in batches through decode, sign, log, judge, and into the outputs.

Reading and decoding run in a thread of their own, one micro-batch ahead: decompression and the kernels release the GIL.
Verdicts do not depend on where batches are cut.
"""

import queue
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from spotsieve.state.identity import check_last_record, check_log_range
from spotsieve.state.log.local import LocalLog, TornTail
from spotsieve.state.log.record import checksum_of, encode, split
from spotsieve.state.snapshot.requests import Requests
from spotsieve.state.store.rocks import RocksState
from spotsieve.stream.engine import Engine
from spotsieve.stream.errors import InputError, PageError
from spotsieve.stream.files.reader import FileReader, Input, Outcome
from spotsieve.stream.files.verdict_lines import rejected_line, verdict_line
from spotsieve.stream.files.writer import Outputs
from spotsieve.stream.local.summary import Summary
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Kind, Verdicts

RECORD_BYTES = 8 * 2**20
_BATCHES_AHEAD = 2
_POLL_S = 0.1


@dataclass(slots=True)
class Batch:
    """Records of one file on their way. fault: the file ends here, and why."""

    file: Input
    outcomes: list[Outcome] = field(default_factory=list)
    held_bytes: int = 0
    bytes_read: int = 0
    fault: InputError | None = None


class LocalEngine:
    """The engine over a directory: local log and RocksDB state. A context; opening it applies what the log holds more.

    notices: what a person should know about the log. Raises StateError, SettingsMismatch, CorruptRecord.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        scheme: Scheme,
        told: Callable[[int, int, int], None] = lambda *_: None,
    ) -> None:
        """told(records, of, pages): how much of what the log holds more was applied, after each record of it."""
        text = verdict_settings_text(settings)
        self._digest = settings_digest(text)
        self._writer = uuid.uuid4().bytes
        self._sequence = 0
        self._log, self.notices = open_log(directory)
        try:
            self._state = RocksState.open(directory, text, LocalLog.name, settings.index)
        except BaseException:
            self._log.close()
            raise
        try:
            check_log(self._log, self._state.position, self._state.last_record, self._state.pages_applied)
            self.engine = Engine(
                scheme, self._state, settings.index, self._digest, LocalLog.name, settings.policy.replaces_beyond
            )
            self._requests = Requests(directory, self._state)
            self._catch_up(told)
        except BaseException:
            self.close()
            raise

    def _catch_up(self, told: Callable[[int, int, int], None]) -> None:
        """A run that was killed may have logged a micro-batch and not judged it; or the index was lost."""
        first, pages = self._state.position, 0
        wanted = self._log.end - first
        for offset, record in self._log.read_from(first):
            pages += len(self.engine.apply(record, offset).record.signatures)
            told(offset + 1 - first, wanted, pages)
        if wanted:
            what = "was behind its log" if first else "was rebuilt from its log"
            self.notices.append(f"the state {what}: {wanted:,} records with {pages:,} pages were read again")

    @property
    def entry_count(self) -> int:
        """Pages that the state knows."""
        return self._state.entry_count - self._state.clock.floor

    def judge(self, pages: Sequence[Page]) -> Iterator[tuple[Sequence[Page], Verdicts]]:
        """Sign, log and judge a micro-batch; its verdicts, in parts where one log record cannot hold it."""
        if self._requests.waiting():
            self._requests.answer()
        start = 0
        for part in split(self.engine.scheme.sign(pages), RECORD_BYTES):
            yield pages[start : start + len(part)], self._apply(part)
            start += len(part)

    def _apply(self, signatures: Signatures) -> Verdicts:
        record = encode(signatures, self._writer, self._sequence, self._digest)
        self._sequence += 1
        return self.engine.apply(record, self._log.append(record)).verdicts

    def close(self) -> None:
        """Write what is buffered: log first, so that it never ends before the state's position."""
        try:
            self._log.sync()
        finally:
            try:
                self._state.close()
            finally:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_log(directory: Path) -> tuple[LocalLog, list[str]]:
    """The log, and what it had to say (that a torn tail was cut off): for a person, not for Python's warning lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TornTail)
        log = LocalLog(directory)
    return log, [str(warning.message) for warning in caught]


def check_log(log: LocalLog, position: int, last_record: int, pages_applied: int) -> None:
    """Whether the log continues a state of this position. Raises StateError.

    A log that another state wrote may lie there, and be as long as this state's was. A record that is applied in part
    is looked at when the engine goes on with it.
    """
    check_log_range(LocalLog.name, position, 0, log.end, pages_applied)
    if pages_applied:
        return
    for _, record in log.read_from(max(position - 1, 0)):
        check_last_record(LocalLog.name, position, last_record, checksum_of(record))
        break


def filter_files(
    inputs: Sequence[Input],
    settings: Settings,
    local: LocalEngine,
    outputs: Outputs,
    summary: Summary,
    stopping: threading.Event,
    on_batch: Callable[[], None] = lambda: None,
) -> None:
    """Judge every record of the inputs, in order; the figures go into summary, damaged files into summary.faults.

    stopping: set it, and the micro-batch in hand is finished and nothing more is read. on_batch: called after each.
    Raises StateError (disk full, damaged state) and SettingError (records of two layouts for one output).
    """
    with _ReadAhead(inputs, settings, stopping) as batches:
        for batch in batches:
            _judge_batch(batch, settings, local, outputs, summary)
            summary.bytes_read += batch.bytes_read
            if batch.fault is not None:
                summary.faults.append(batch.fault)
            on_batch()
        summary.interrupted = not batches.complete
    summary.entries = local.entry_count


def _judge_batch(batch: Batch, settings: Settings, local: LocalEngine, outputs: Outputs, summary: Summary) -> None:
    pages = [outcome.result for outcome in batch.outcomes if isinstance(outcome.result, Page)]
    summary.future_times += sum(page.future_time for page in pages)
    verdicts = _rows(local, pages, summary)
    for outcome in batch.outcomes:
        summary.records += 1
        if isinstance(outcome.result, PageError):
            summary.rejected[outcome.result.reason.value] += 1
            if outputs.rejected is not None:
                outputs.rejected.write_line(rejected_line(batch.file.source, outcome.record, outcome.result))
        elif outcome.result is None:
            summary.other_records += 1
        else:
            _write_page(outcome, outcome.result, *next(verdicts), settings, outputs)
    outputs.flush()


def _rows(local: LocalEngine, pages: Sequence[Page], summary: Summary) -> Iterator[tuple[Verdicts, int]]:
    if not pages:
        return
    for part, verdicts in local.judge(pages):
        summary.count(verdicts)
        for row in range(len(part)):
            yield verdicts, row


def _write_page(
    outcome: Outcome, page: Page, verdicts: Verdicts, row: int, settings: Settings, outputs: Outputs
) -> None:
    dropped = verdicts.kind[row] == Kind.DUPLICATE
    if outputs.out is not None and not dropped:
        outputs.out.write_record(outcome.record, outcome.layout)
    if outputs.verdicts is None and (outputs.duplicates is None or not dropped):
        return
    line = verdict_line(page, verdicts, row, settings.scheme.name)
    if outputs.verdicts is not None:
        outputs.verdicts.write_line(line)
    if outputs.duplicates is not None and dropped:
        outputs.duplicates.write_line(line)


class _ReadAhead:
    """Iterates over micro-batches that a thread reads and decodes; ends early once `stopping` is set."""

    def __init__(self, inputs: Sequence[Input], settings: Settings, stopping: threading.Event) -> None:
        self._inputs = inputs
        self._settings = settings
        self._stopping = stopping
        self.complete = False
        self._left = threading.Event()
        self._queue: queue.Queue[Batch | BaseException | None] = queue.Queue(_BATCHES_AHEAD)
        # A daemon: a read from a pipe that never ends cannot be interrupted, and must not hold up the exit.
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()

    def __iter__(self) -> Iterator[Batch]:
        while not self._stopping.is_set():
            try:
                item = self._queue.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if item is None:
                self.complete = True
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        try:
            for file in self._inputs:
                self._read(file)
            self._put(None)
        except _LeftError:
            pass
        except BaseException as error:  # raised again in the thread that waits
            self._put(error)

    def _read(self, file: Input) -> None:
        batch = Batch(file)
        counted = 0

        def send() -> None:
            nonlocal batch, counted
            batch.bytes_read, counted = reader.bytes_read - counted, reader.bytes_read
            if batch.outcomes or batch.bytes_read or batch.fault:
                self._put(batch)
            batch = Batch(file)

        most = self._settings.service
        reader = FileReader(file, self._settings.input, before_waiting=send)
        try:
            with reader:
                for outcome in reader:
                    batch.outcomes.append(outcome)
                    batch.held_bytes += _held_bytes(outcome)
                    if len(batch.outcomes) >= most.batch_pages or batch.held_bytes >= most.batch_bytes:
                        send()
        except InputError as error:
            batch.fault = error
        send()

    def _put(self, item: Batch | BaseException | None) -> None:
        while not (self._left.is_set() or self._stopping.is_set()):
            try:
                self._queue.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return
        raise _LeftError


def _held_bytes(outcome: Outcome) -> int:
    """Of a record or of what it unfolds to, whichever is more: 512 records of 16 KB can be 8 GB of pages."""
    body = outcome.result.body if isinstance(outcome.result, Page) else b""
    return max(len(outcome.record.raw), len(body))


class _LeftError(Exception):
    """Nobody waits for more batches."""
