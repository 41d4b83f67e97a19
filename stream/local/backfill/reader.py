"""Readers: decode and sign the pages of inputs batch by batch, hold the records, write them by their verdicts."""

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spotsieve.state.log.local import RECORD_BYTES
from spotsieve.state.log.record import encode, split
from spotsieve.stream.base.errors import InputError, SettingError, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.files.file_format import Intake
from spotsieve.stream.files.formats import form_of
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import FileOutputs
from spotsieve.stream.local.against import Checkpoint, OtherStates, StateVerdicts, open_checkpoints, poison_notice
from spotsieve.stream.local.backfill.batch_queue import BatchQueue
from spotsieve.stream.local.backfill.parts import Parts, VerdictRows
from spotsieve.stream.local.batch_reader import BatchReader, FileBatch
from spotsieve.stream.local.engines import sign_every_page, with_unsigned
from spotsieve.stream.local.file_filter import RecordOutput, TextColumns, count_pages, write_outcomes
from spotsieve.stream.local.summary import ExactCopies, FilterSummary
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope

BATCH_PAGES = 2048
"""Pages that are signed, logged and judged together. A call to another process costs about 500 us for any size."""


class SignedRecords(NamedTuple):
    """A signed batch of an input.

    records: log records of its pages, in order, without pages that other states contain
    pages: the number of all its pages  bytes_read: of the input
    in_other_states: the number of pages that other states contain  exact_copies: those among them
    notice: a line for people about poison pages of signing, or of the query of another state, "" if there are none
    """

    records: tuple[bytes, ...]
    pages: int
    bytes_read: int
    in_other_states: int = 0
    exact_copies: ExactCopies = ExactCopies()
    notice: str = ""


class Reader:
    """Reads inputs, one call at a time. Every input is opened, signed to its end, written and finished."""

    def __init__(self, settings: Settings, batch_pages: int = BATCH_PAGES) -> None:
        service = settings.service.model_copy(update={"batch_pages": batch_pages})
        self._settings = settings.model_copy(update={"service": service})
        self._scheme = scheme_in_scope(settings)
        self._digest = digest_of_settings(settings)
        self._writer, self._sequence = uuid.uuid4().bytes, 0
        self._readings: dict[int, _OpenInput] = {}
        self._closing = contextlib.ExitStack()
        self._others: OtherStates | None = None

    def open(
        self,
        number: int,
        file: Input,
        parts: Parts,
        run: bytes = b"",
        salt: int = 0,
        against: Sequence[Checkpoint] = (),
        with_clusters: bool = False,
        with_text: bool = False,
    ) -> None:
        """Start reading an input. run: prefix of the writer of its records, which identifies the run in the log

        salt: of the state that judges the pages  against: other states, whose pages are dropped
        with_clusters: whether verdicts get the column "cluster"  with_text: whether pages get their text
        All inputs of a reader have the same salt and states.
        Raises SettingError if a part cannot be written, StateError if a state cannot be read.
        """
        if against and self._others is None:
            self._others = self._closing.enter_context(open_checkpoints(against, self._settings))
        self._writer = run + self._writer[len(run) :]
        self._scheme = salted(self._scheme, salt)
        texts = TextColumns(self._scheme, Intake(file.source, self._settings.input)) if with_text else None
        self._readings[number] = _OpenInput(file, parts, self._settings, with_clusters, texts)

    def sign(self, number: int) -> SignedRecords | None:
        """Read and sign the next batch of an input, or return None at its end."""
        reading = self._readings.get(number)
        batch = None if reading is None else reading.next_batch()
        if reading is None or batch is None:
            return None
        pages = count_pages(batch, self._settings, reading.summary)
        records, found, notice = tuple[bytes, ...](), None, ""
        unsigned: Mapping[int, Exception] = {}
        if pages:
            signatures, unsigned = sign_every_page(self._scheme, pages)
            notice = poison_notice(signatures, unsigned, of_query=False) if unsigned else ""
            if self._others is not None:
                found = self._others.find(signatures)
                if found.poison:
                    notice += "\n" * bool(notice) + poison_notice(signatures, found.poison, of_query=True)
                signatures = found.rest_of(signatures)
            records = tuple(map(self._encode, split(signatures, RECORD_BYTES))) if len(signatures) else ()
        reading.put(batch, found, list(unsigned))
        if found is None:
            return SignedRecords(records, len(pages), batch.bytes_read, notice=notice)
        exact_copies = ExactCopies()
        exact_copies.count(found.verdicts)
        return SignedRecords(records, len(pages), batch.bytes_read, found.dropped, exact_copies, notice)

    def write(self, number: int, verdicts: Verdicts) -> None:
        """Write the oldest batch of an input that waits for its verdicts. verdicts: of the pages of its records"""
        self._readings[number].write(verdicts)

    def finish(self, number: int) -> FilterSummary:
        """Give the parts of a written input their names, and return its summary."""
        reading = self._readings[number]
        reading.complete()
        del self._readings[number]
        return reading.summary

    def close(self) -> None:
        """Close the parts of unfinished inputs without giving them their names."""
        for reading in self._readings.values():
            with contextlib.suppress(OSError, StateError):  # The full disk has already ended the run.
                reading.close()
        self._readings.clear()
        self._closing.close()

    def _encode(self, signatures: Signatures) -> bytes:
        self._sequence += 1
        return encode(signatures, self._writer, self._sequence - 1, self._digest)


class _OpenInput:
    """An input that is being read and written."""

    def __init__(
        self, file: Input, parts: Parts, settings: Settings, with_clusters: bool, texts: TextColumns | None
    ) -> None:
        self.summary = FilterSummary()
        self._source = file.source
        self.held = BatchQueue(file, keep_records=parts.out is not None, keep_bodies=texts is not None)
        self._found = deque[tuple[StateVerdicts | None, Sequence[int]]]()
        self._settings = settings
        self._whole: RecordOutput | None = None
        with contextlib.ExitStack() as stack:
            stack.callback(self.held.close)
            self._outputs = stack.enter_context(
                FileOutputs.open(out=parts.out, duplicates=None, verdicts=None, rejected=parts.rejected)
            )
            if self._outputs.out is not None and parts.out is not None:
                uris = settings.input.companion_uris
                self._whole = RecordOutput(
                    self._outputs.out, self.summary, revisits=False, companion_uris=uris, texts=texts
                )
                form = form_of([file], parts.out)
                if form is not None:
                    self._whole.know_record(*form)
            self._rows = None
            if parts.verdicts:
                self._rows = VerdictRows(parts.verdicts, settings.scheme.name, with_clusters)
            self._batches = iter(stack.enter_context(BatchReader([file], settings, threading.Event())))
            self._closing = stack.pop_all()

    def next_batch(self) -> FileBatch | None:
        batch = next(self._batches, None)
        if batch is not None:
            self.summary.bytes_read += batch.bytes_read
            if batch.fault is not None:
                self.summary.faults.append(batch.fault)
            self._check_part(batch)
        return batch

    def _check_part(self, batch: FileBatch) -> None:
        """Check that the part can hold these records, before any page is judged. Raises InputError, SettingError."""
        if self._whole is not None:
            self._whole.check_pages(batch)
        first = next((outcome for outcome in batch.outcomes if isinstance(outcome.result, Page)), None)
        if first is None or self._whole is None:
            return
        try:
            self._whole.know_record(first.record, first.format)
        except SettingError as error:
            raise InputError(
                self._source,
                f"must be named by its format, because its part {error.name} {error.rule}",
                None,
                "rename it; delete backfill/run.json in the state directory, and run again",
            ) from None

    def put(self, batch: FileBatch, found: StateVerdicts | None, unsigned: Sequence[int]) -> None:
        """Hold a batch until its verdicts arrive.

        found: its verdicts by other states, if there are any
        unsigned: the rows of poison pages of signing
        """
        self.held.put(batch)
        self._found.append((found, unsigned))

    def write(self, verdicts: Verdicts) -> None:
        batch, (found, unsigned) = self.held.take(), self._found.popleft()
        if found is not None:
            verdicts = found.with_own(verdicts)
            self.summary.in_other_states += found.dropped
        verdicts = with_unsigned(verdicts, unsigned)
        self.summary.count(verdicts)
        rows: Iterator[tuple[Verdicts, int]] = ((verdicts, row) for row in range(len(verdicts)))
        write_outcomes(batch, rows, self._settings, self._outputs, self.summary, self._whole)
        if self._rows is not None:
            self._rows.write(batch.pages, verdicts)

    def complete(self) -> None:
        if self._whole is not None:
            self._whole.end()
        if self._rows is not None:
            self._rows.complete()
        self._outputs.complete()
        self._closing.close()

    def close(self) -> None:
        with self._closing:
            if self._rows is not None:
                self._rows.abandon()
