"""Writes outputs. The suffix of a name chooses the format, and a file gets its name only when it is complete.

A file is written as NAME.partial and renamed to NAME when the run is complete. An interrupted run closes the file
properly and leaves it as NAME.partial, which is readable and cannot be mistaken for a complete file. Pipes, devices
such as /dev/null and standard output are written directly. JSON lines on standard output are escaped, because a
terminal may be at the end of the pipe; their parsed values stay the same.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Self

from spotsieve.state.directory import write_atomically
from spotsieve.stream.base.errors import InputError, SettingError, write_advice
from spotsieve.stream.base.terminal import escape_control_characters, escape_json
from spotsieve.stream.files.compression import COMPRESSORS, CompressedStream
from spotsieve.stream.files.file_format import FileFormat, FormatWriter, Record
from spotsieve.stream.files.formats import check_named, endings_of, formats_named
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.remote import shown_url
from spotsieve.stream.files.targets import STDOUT, target_of, write_error


class OutputFile:
    """One output. Write lines or records to it, then call complete, abandon or discard."""

    def __init__(
        self,
        name: str,
        stdout: BinaryIO | None = None,
        *,
        lines_only: bool = False,
        writes: str = "",
        private: bool = False,
        judged: bool = False,
    ) -> None:
        """Open the output. Raises SettingError if it cannot be written.

        lines_only: whether the output gets only JSON lines
        writes: the suffix of another format of its lines, such as .csv
        private: whether a file gets mode 0600, independent of the umask
        judged: whether the output is of pages that are judged in this run, for errors
        """
        self.name, self._judged = shown_url(name), judged
        shown_name = "" if name == STDOUT else self.name
        endings = endings_of(shown_name)
        self._named = formats_named(self.name, [ending for ending in endings if ending != writes])
        self._compressed = not COMPRESSORS.keys().isdisjoint(endings[-1:])
        if lines_only:
            self._check_named(JSON_LINES)
        # If the name stands for exactly one format, an output without records gets this format.
        self._only_named = next(iter(self._named)) if len(self._named) == 1 else None
        if self._only_named is not None:
            self._only_named.check_writable(self.name)
        self._format: FileFormat | None = None
        self._writer: FormatWriter | None = None
        self._is_empty = True
        self._target = target_of(name, stdout, private)
        self._is_terminal = self._target.file.isatty()
        self._is_shown, self._is_text = name == STDOUT or self._is_terminal, bool(writes)
        self._stream = CompressedStream(self._target.file, shown_name)

    def write_line(self, line: bytes) -> None:
        """Write a line and a line feed. Raises SettingError if the name stands for another format."""
        self.write_record(Record(0, line), JSON_LINES)

    def write_record(self, record: Record, format_: FileFormat) -> None:
        """Write a record: a line, a WARC record or a row.

        Raises SettingError if records of several formats, or rows of several schemas, would be mixed in one output, and
        if records that are not lines would be written to a terminal.
        """
        writer = self._writer_of(format_)
        self._is_empty = False
        self._guard(writer.write, self._shown(record, format_) if self._is_shown else record)

    def know_record(self, record: Record, format_: FileFormat) -> None:
        """Take the layout from a record without writing it, so that an output without rows has the input's columns.

        Raises SettingError in the same cases as write_record.
        """
        self._guard(self._writer_of(format_).know, record)

    def flush(self) -> None:
        """Make the written bytes visible to readers of the pipe or of NAME.partial, unless a compressor holds them."""
        if self._target.watched and not self._stream.is_delayed:
            self._guard(self._target.file.flush)

    def complete(self) -> None:
        """Close the output and rename the file to its name. Raises StateError if the disk is full."""
        self._close()
        self._guard(self._target.finish)

    def abandon(self) -> Path | None:
        """Close the output and leave it as NAME.partial; remove it if it has no records.

        Returns the path of NAME.partial; None if the output is not a local file or was removed.
        """
        if self._is_empty:
            self.discard()
            return None
        self._close()
        return self._target.left

    def discard(self) -> None:
        """Close and remove the output."""
        self._close()
        self._guard(self._target.discard)

    def _shown(self, record: Record, format_: FileFormat) -> Record:
        """The record as it goes to standard output or a terminal."""
        if format_ is not JSON_LINES:
            if self._is_terminal:
                rule = f"is a terminal, and {format_.name} records may contain control characters"
                raise SettingError(self.name, rule, None, "name a file, or redirect standard output")
            return record
        if not self._is_text:
            return dataclasses.replace(record, raw=escape_json(record.raw))
        if not self._is_terminal:
            return record  # A program reads it, and CSV has no escapes.
        shown = escape_control_characters(record.raw.decode("utf-8", "surrogateescape"))
        return dataclasses.replace(record, raw=shown.encode())

    def _check_named(self, format_: FileFormat) -> None:
        check_named(self.name, self._named, self._compressed, format_)

    def _writer_of(self, format_: FileFormat) -> FormatWriter:
        """The writer of the output's one format, which the first record decides."""
        if self._writer is None:
            self._check_named(format_)
            self._format, self._writer = format_, format_.writer(self._stream)
        elif self._format is not format_ and self._format != format_:
            assert self._format is not None
            rule = f"cannot contain records of two formats, and the inputs are {self._format.name} and {format_.name}"
            raise SettingError(self.name, rule, None, "filter the files of each format in a separate run, same --state")
        return self._writer

    def _close(self) -> None:
        if self._writer is None and self._only_named is not None:
            self._writer = self._only_named.writer(self._stream)
        try:
            if self._writer is not None:
                self._guard(self._writer.finish)
            self._guard(self._stream.close)
        finally:
            self._guard(self._target.close)

    def _guard(self, function: Callable[..., object], *values: object) -> None:
        """Call a function. An OSError of the disk becomes a StateError."""
        try:
            function(*values)
        except BrokenPipeError:
            raise  # The reader of the pipe has ended, such as `head`: this is not an error of the disk.
        except OSError as error:
            raise write_error(self.name, error, self._target, self._judged) from None


class FileOutputs:
    """The four outputs of a run; each may be None. Use it as a context: without complete() the files stay partial."""

    def __init__(self, outputs: dict[str, OutputFile | None]) -> None:
        self.out, self.duplicates = outputs["out"], outputs["duplicates"]
        self.verdicts, self.rejected = outputs["verdicts"], outputs["rejected"]
        self._open = [output for output in outputs.values() if output is not None]

    @classmethod
    def open(cls, out: str | None, duplicates: str | None, verdicts: str | None, rejected: str | None) -> Self:
        """Open the outputs that have a name. Raises SettingError if one cannot be written."""
        names = {"out": out, "duplicates": duplicates, "verdicts": verdicts, "rejected": rejected}
        outputs: dict[str, OutputFile | None] = {}
        try:
            for flag, name in names.items():
                outputs[flag] = OutputFile(name, lines_only=flag != "out", judged=True) if name else None
        except SettingError:
            for output in outputs.values():
                if output is not None:
                    output.discard()
            raise
        return cls(outputs)

    def flush(self) -> None:
        """Make the pages of a micro-batch visible to readers of pipes and of NAME.partial files."""
        for output in self._open:
            output.flush()

    def complete(self) -> None:
        """Complete every output, after all pages are judged."""
        while self._open:
            self._open.pop().complete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            with contextlib.suppress(BrokenPipeError):
                self._open.pop().abandon()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: it gets its name when all bytes are on disk. Raises InputError if that fails."""
    try:
        write_atomically(path, content, sync=True, private=False)
    except OSError as error:
        then = f"{write_advice(error)}, or choose another path"
        raise InputError(str(path), f"cannot be written: {error.strerror}", None, then) from None
