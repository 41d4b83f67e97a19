"""Writes outputs: the ending of a name chooses the format, and a file has its name only when it is complete.

A file is written as NAME.partial and gets its name when the run is complete. An interrupted run closes it properly and
leaves it as NAME.partial, which is readable but cannot be mistaken for the whole. A pipe or /dev/null is written
directly, as anything else that is no regular file.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self

from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.files.compression import COMPRESSORS, CompressedStream
from spotsieve.stream.files.file_format import FileFormat, FormatWriter
from spotsieve.stream.files.formats import check_named, formats_named
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.remote import shown_url
from spotsieve.stream.files.targets import STDOUT, target_of, write_error


class OutputFile:
    """One output. write_line takes lines, write_record takes records as they came; then call complete or abandon."""

    def __init__(
        self,
        name: str,
        stdout: BinaryIO | None = None,
        *,
        lines_only: bool = False,
        writes: str = "",
        private: bool = False,
    ) -> None:
        """Open it. Raises SettingError if the file cannot be written.

        lines_only: no records go into it  writes: the ending of another format that the lines are of, such as CSV
        private: a file gets mode 0600, whatever the umask
        """
        self.name = shown_url(name)
        shown_name = "" if name == STDOUT else self.name
        endings = [ending.lower() for ending in PurePosixPath(shown_name).suffixes[-2:]]
        self._named = formats_named(self.name, [ending for ending in endings if ending != writes])
        self._compressed = not COMPRESSORS.keys().isdisjoint(endings[-1:])
        if lines_only:
            self._check_named(JSON_LINES)
        # A name of one format alone says what an output without records is.
        self._only_named = next(iter(self._named)) if len(self._named) == 1 else None
        if self._only_named is not None:
            self._only_named.check_writable(self.name)
        self._format: FileFormat | None = None
        self._writer: FormatWriter | None = None
        self._is_empty = True
        self._target = target_of(name, stdout, private)
        self._stream = CompressedStream(self._target.file, shown_name)

    def write_line(self, line: bytes) -> None:
        """Write a line and a line feed. Raises SettingError if the name says that there are other records."""
        self.write_record(Record(0, line), JSON_LINES)

    def write_record(self, record: Record, format_: FileFormat) -> None:
        """Write a record as its format joins records: a line, a WARC record, a row.

        Raises SettingError if records of several formats, or rows of several schemas, would go into one file.
        """
        writer = self._writer_of(format_)
        self._is_empty = False
        self._guard(writer.write, record)

    def know_record(self, record: Record, format_: FileFormat) -> None:
        """Take the form of a record that need not be written: an output without rows has the columns of its input.

        Raises SettingError, as write_record.
        """
        self._guard(self._writer_of(format_).know, record)

    def flush(self) -> None:
        """Hand what was written to the reader of a pipe or of NAME.partial now. The compressed waits for its end."""
        if self._target.watched and not self._stream.is_delayed:
            self._guard(self._target.file.flush)

    def complete(self) -> None:
        """Close it, and give it its name. Raises StateError if the disk is full."""
        self._close()
        self._guard(self._target.name_it)

    def abandon(self) -> Path | None:
        """Close it and leave it as NAME.partial; one without a line or a record is removed.

        Returns that path, or None for an output that is no file here.
        """
        if self._is_empty:
            self.discard()
            return None
        self._close()
        return self._target.left

    def discard(self) -> None:
        """Close it and remove it: nothing of use is in it."""
        self._close()
        self._guard(self._target.discard)

    def _check_named(self, format_: FileFormat) -> None:
        check_named(self.name, self._named, self._compressed, format_)

    def _writer_of(self, format_: FileFormat) -> FormatWriter:
        """The writer of the output's one format, which the first record decides."""
        if self._writer is None:
            self._check_named(format_)
            self._format, self._writer = format_, format_.writer(self._stream)
        elif self._format is not format_ and self._format != format_:
            assert self._format is not None
            rule = f"must hold records of one layout, and the files are {self._format.name} and {format_.name}"
            raise SettingError(self.name, rule, None, "filter each in a run of its own, with the same --state")
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

    def _guard(self, act: Callable[..., object], *values: object) -> None:
        try:
            act(*values)
        except BrokenPipeError:
            raise  # Nobody reads any more, as behind `head`: that is no trouble of a disk.
        except OSError as error:
            raise write_error(self.name, error, self._target) from None


class FileOutputs:
    """The four outputs of a run, each of which may be None. A context: without complete() the files stay partial."""

    def __init__(self, wanted: dict[str, OutputFile | None]) -> None:
        self.out, self.duplicates = wanted["out"], wanted["duplicates"]
        self.verdicts, self.rejected = wanted["verdicts"], wanted["rejected"]
        self._open = [output for output in wanted.values() if output is not None]

    @classmethod
    def open(cls, out: str | None, duplicates: str | None, verdicts: str | None, rejected: str | None) -> Self:
        """Open the outputs that have a name. Raises SettingError if one cannot be written."""
        names = {"out": out, "duplicates": duplicates, "verdicts": verdicts, "rejected": rejected}
        wanted: dict[str, OutputFile | None] = {}
        try:
            for flag, name in names.items():
                wanted[flag] = OutputFile(name, lines_only=flag != "out") if name else None
        except SettingError:
            for output in wanted.values():
                if output is not None:
                    output.discard()
            raise
        return cls(wanted)

    def flush(self) -> None:
        """Call it after a micro-batch, so that the reader of a pipe or of NAME.partial sees its pages."""
        for output in self._open:
            output.flush()

    def complete(self) -> None:
        """All pages are judged: every output gets its name."""
        while self._open:
            self._open.pop().complete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            with contextlib.suppress(BrokenPipeError):
                self._open.pop().abandon()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that has its name only when it is whole and on disk. Raises InputError if that fails."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}", None, "name another place") from None
