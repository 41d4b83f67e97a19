"""Reads a file as pages: it opens the file, finds out its compression and layout, and decodes its records."""

import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import xxhash

from spotsieve.stream.errors import InputError, PageError
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.misread import Tally, foreign_format
from spotsieve.stream.files.records import MAX_RECORD_BYTES, Layout, Record
from spotsieve.stream.files.warc import capture_of, split_warc
from spotsieve.stream.intake import Acceptance, Decoder, Message, make_page, shorten
from spotsieve.stream.page import Page
from spotsieve.stream.settings.model import InputSettings

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A record and its result: a page, a rejection, or None for a WARC record that is no page."""

    record: Record
    layout: Layout
    result: Page | PageError | None


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read, or standard input. source: the first part of its pages' ids; size: bytes on disk, or None."""

    path: Path | None
    source: str
    size: int | None


def check_inputs(names: Sequence[str], stdin_name: str = STDIN) -> list[Input]:
    """The inputs of these names, each once; "-" is standard input. Raises InputError for a file that cannot be opened.

    A page's id begins with its file's absolute path, so that the same file is the same source from any directory.
    """
    inputs = list[Input]()
    for name in dict.fromkeys(names):
        if name == STDIN:
            inputs.append(Input(None, _as_utf8(stdin_name), None))
            continue
        path = Path(name).resolve()
        if any(path == other.path for other in inputs):
            continue  # It was named twice: its novel pages would be written twice.
        try:
            with path.open("rb") as file:
                inputs.append(Input(path, _as_utf8(str(path)), os.fstat(file.fileno()).st_size or None))
        except OSError as error:
            raise _unreadable(name, error) from None
    return inputs


def total_bytes(inputs: Sequence[Input]) -> int | None:
    """The size of all files on disk; None if one of them has no known size."""
    sizes = [file.size for file in inputs]
    return None if None in sizes else sum(filter(None, sizes))


class FileReader:
    """Reads one input, as a context: iterating gives an Outcome for each record, in order, in bounded memory.

    Iterating raises InputError for a file that is neither JSONL nor WARC, and for a damaged file after every record
    before the damage.
    before_waiting: called when standard input has nothing to read, so that the pages read so far can be judged
    """

    def __init__(
        self,
        file: Input,
        settings: InputSettings,
        max_record_bytes: int = MAX_RECORD_BYTES,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._input = file
        self._max_record_bytes = max_record_bytes
        self._max_page_bytes = settings.max_page_bytes
        # Files are JSONL or WARC by their content; `format` says what the messages of a topic are.
        self._decoder = Decoder(settings.model_copy(update={"format": "json"}))
        self._acceptance = Acceptance(settings)
        self._before_waiting = before_waiting
        self._file: BinaryIO | None = None
        self._written_ms = 0
        self.bytes_read = 0
        self._tally: Tally | None = None

    def __enter__(self) -> Self:
        """Open the file. Raises InputError."""
        self._file, self._written_ms = _open(self._input)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, size: int, /) -> bytes:
        """The next bytes of the file, still compressed, counted for the progress line."""
        if self._file is None:
            raise ValueError("a FileReader is read inside its context")
        if self._input.path is None and not select.select([self._file], [], [], 0)[0]:
            self._before_waiting()
        try:
            data = self._file.read(size)
        except OSError as error:
            raise _unreadable(self._input.source, error) from None
        self.bytes_read += len(data)
        return data

    def __iter__(self) -> Iterator[Outcome]:
        chunks = read_chunks(self, self._input.source)
        beginning, fault = _begin(chunks)
        layout = self._layout_of(beginning)
        split = split_warc if layout is Layout.WARC else split_lines
        self._tally = Tally(self._input.source, beginning)
        for record in split(_again(beginning, chunks, fault), self._max_record_bytes):
            result = self._decode(record, layout)
            self._tally.count(record, result)
            yield Outcome(record, layout, result)

    def check_read(self) -> None:
        """Check, after the last record, that the input was not misread. Raises InputError if too few are pages."""
        if self._tally is not None:
            self._tally.check()

    def _layout_of(self, beginning: bytes) -> Layout:
        head = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
        if head.startswith(b"WARC/") or ".warc" in Path(self._input.source).suffixes:
            return Layout.WARC
        foreign = foreign_format(beginning) or foreign_format(head)
        if foreign is not None:
            rule = f"must be JSONL or WARC, plain or as gzip, xz, zstd or bzip2, and looks like {foreign[0]}"
            raise InputError(self._input.source, rule, shorten(head[:20]), foreign[1])
        return Layout.JSONL

    def _decode(self, record: Record, layout: Layout) -> Page | PageError | None:
        source, number, partition = self._input.source, record.number, content_number(record.raw)
        if record.fault is not None:
            reason, rule = record.fault
            return PageError(reason, f"{source} record {number}", rule, None, "look at the file at this place")
        try:
            if layout is Layout.JSONL:
                return self._decoder.decode(Message(None, record.raw, (), source, partition, number, self._written_ms))
            capture = capture_of(record.raw, self._max_page_bytes, self._written_ms)
            if capture is None:
                return None
            return make_page(
                capture.body,
                source=source,
                partition=partition,
                offset=number,
                url=capture.url,
                content_type=capture.content_type,
                event_time_ms=capture.time_ms,
                latest_ms=self._written_ms,
                filtered=self._acceptance.filtered(capture.status, capture.content_type),
                max_page_bytes=self._max_page_bytes,
            )
        except PageError as error:
            return error


def content_number(raw: bytes) -> int:
    """The middle part of the id of a page of a file: 31 bits of the XXH3-64 of its record's bytes.

    Tomorrow's file may have today's name: without it, its records would be taken for those of today, submitted again.
    The bytes hold whatever names the record, such as `id` or WARC-Record-ID.
    """
    return xxhash.xxh3_64_intdigest(raw) >> 33


def _begin(chunks: Iterator[bytes]) -> tuple[bytes, InputError | None]:
    """The first bytes, which show the layout, and the fault if the file is damaged there."""
    beginning = b""
    try:
        while len(beginning.lstrip()) < 16:
            chunk = next(chunks, None)
            if chunk is None:
                break
            beginning += chunk
    except InputError as error:
        return beginning, error
    return beginning, None


def _again(beginning: bytes, chunks: Iterator[bytes], fault: InputError | None) -> Iterator[bytes]:
    if beginning:
        yield beginning
    if fault is not None:
        raise fault
    yield from chunks


def _open(file: Input) -> tuple[BinaryIO, int]:
    """The file, and the time when it was written, in ms; for standard input the time now.

    That time replaces a missing fetch time and is an upper bound for the others, so reading a file again gives the same
    times.
    """
    try:
        if file.path is None:
            # Unbuffered: a read returns what a pipe holds, and does not wait for a full buffer.
            return os.fdopen(os.dup(0), "rb", buffering=0), int(time.time() * 1000)
        return file.path.open("rb"), int(file.path.stat().st_mtime * 1000)
    except OSError as error:
        raise _unreadable(file.source, error) from None


def _as_utf8(name: str) -> str:
    """The name with escapes for bytes that are no UTF-8, since page ids are UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(
        name, f"cannot be read: {error.strerror}", None, "check the path and the disk, or use - for standard input"
    )
