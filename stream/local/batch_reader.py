"""Reads and decodes files in a thread of its own, one micro-batch ahead of the thread that judges.

Decompression and the kernels release the GIL, so both threads run at once. Where micro-batches are cut changes no
verdict.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from spotsieve.stream.base.batches import FillLevel
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import FileReader, RecordResult

_BATCHES_AHEAD = 1
"""Beside the one that is being read. A second one brings no speed, and takes memory."""
_POLL_S = 0.1


@dataclass(slots=True)
class FileBatch:
    """Records of one file. fault: why the file ends here, None if it goes on"""

    file: Input
    outcomes: list[RecordResult] = field(default_factory=list)
    bytes_read: int = 0
    fault: InputError | None = None


class BatchReader:
    """Gives the micro-batches that a thread reads and decodes. It ends early when `stopping` is set."""

    def __init__(self, inputs: Sequence[Input], settings: Settings, stopping: threading.Event) -> None:
        self._inputs = inputs
        self._settings = settings
        self._stopping = stopping
        self.complete = False
        self._left = threading.Event()
        self._queue: queue.Queue[FileBatch | BaseException | None] = queue.Queue(_BATCHES_AHEAD)
        # A daemon: nothing interrupts a read from a pipe that never ends, and it must not hold up the exit.
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
        try:
            for file in self._inputs:
                self._read(file)
            self._put(None)
        except _LeftError:
            pass
        except BaseException as error:  # raised again in the thread that waits
            self._put(error)

    def _read(self, file: Input) -> None:
        batch = FileBatch(file)
        counted = 0

        def send() -> None:
            nonlocal batch, counted
            batch.bytes_read, counted = reader.bytes_read - counted, reader.bytes_read
            if batch.outcomes or batch.bytes_read or batch.fault:
                self._put(batch)
            batch = FileBatch(file)
            level.reset()

        most = self._settings.service
        level = FillLevel(most.batch_pages, most.batch_bytes)
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
    """Return the size of a record or of its page, whichever is more: 512 records of 16 KB can be 8 GB of pages."""
    body = outcome.result.body if isinstance(outcome.result, Page) else b""
    return max(len(outcome.record.raw), len(body))


class _LeftError(Exception):
    """Nobody waits for more batches."""
