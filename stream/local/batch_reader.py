"""Reads and decodes files in a background thread, one micro-batch ahead of the thread that judges.

Decompression and the kernels release the GIL, so both threads run in parallel. Verdicts do not depend on where
micro-batches are cut.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from spotsieve.stream.base.batches import FillLevel
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import FileReader, RecordResult

_BATCHES_AHEAD = 1
"""Finished micro-batches that may wait while the next one is read. A second one costs memory and is no faster."""
_POLL_S = 0.1


@dataclass(slots=True)
class FileBatch:
    """A micro-batch of records of one file.

    bytes_read: bytes of the file, as stored, read since the batch before
    fault: the error that ends the file here; None if the file continues
    ahead: the result of on_batch for the pages; None without it
    """

    file: Input
    outcomes: list[RecordResult] = field(default_factory=list)
    bytes_read: int = 0
    fault: InputError | None = None
    ahead: Any = None

    @property
    def pages(self) -> list[Page]:
        """The pages of the batch, in order."""
        return [outcome.result for outcome in self.outcomes if isinstance(outcome.result, Page)]


class BatchReader:
    """Iterates over the micro-batches that the reader thread produces. Use it as a context.

    stopping: ends the iteration early when it is set
    complete: whether every input was read to its end
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        settings: Settings,
        stopping: threading.Event,
        on_batch: Callable[[list[Page]], Any] | None = None,
    ) -> None:
        """on_batch: called in the reader thread with the pages of each batch that has some; sets FileBatch.ahead"""
        self._inputs = inputs
        self._on_batch = on_batch
        self._settings = settings
        self._stopping = stopping
        self.complete = False
        self._left = threading.Event()
        self._queue: queue.Queue[FileBatch | BaseException | None] = queue.Queue(_BATCHES_AHEAD)
        # A daemon thread: a read from a pipe cannot be interrupted, and must not delay the exit of the process.
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()

    def __iter__(self) -> Iterator[FileBatch]:
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
        with suppress(_LeftError):
            try:
                for file in self._inputs:
                    self._read(file)
                self._put(None)
            except BaseException as error:  # raised again in the thread that consumes the batches, unless it has left
                self._put(error)

    def _read(self, file: Input) -> None:
        batch = FileBatch(file)
        counted = 0

        def send() -> None:
            nonlocal batch, counted
            batch.bytes_read, counted = reader.bytes_read - counted, reader.bytes_read
            if batch.outcomes or batch.bytes_read or batch.fault:
                if self._on_batch is not None and (pages := batch.pages):
                    batch.ahead = self._on_batch(pages)
                self._put(batch)
            batch = FileBatch(file)
            level.reset()

        limits = self._settings.service
        level = FillLevel(limits.batch_pages, limits.batch_bytes)
        reader = FileReader(file, self._settings.input, before_waiting=send)
        try:
            with reader:
                for outcome in reader:
                    size = _held_bytes(outcome)
                    if not level.has_room(size):
                        send()
                    batch.outcomes.append(outcome)
                    level.add(size)
                    if level.full:
                        send()
                reader.check_read()
        except InputError as error:
            batch.fault = error
        send()

    def _put(self, item: FileBatch | BaseException | None) -> None:
        while not (self._left.is_set() or self._stopping.is_set()):
            try:
                self._queue.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return
        raise _LeftError


def _held_bytes(outcome: RecordResult) -> int:
    """Return the bytes of a record or of its decompressed page, whichever is larger.

    512 records of 16 KB can decompress to 8 GB of pages.
    """
    body = outcome.result.body if isinstance(outcome.result, Page) else b""
    return max(len(outcome.record.raw), len(body))


class _LeftError(Exception):
    """The consumer has left the context and takes no more batches."""
