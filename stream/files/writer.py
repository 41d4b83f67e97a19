"""Writes an output: the ending of its name chooses the form, and a file has its name only when it is complete.

A file is written as NAME.partial and gets its name when the run is complete. An interrupted run closes it properly and
leaves it as NAME.partial, which is readable but cannot be mistaken for the whole. A pipe or /dev/null is written
directly, as anything else that is no regular file.
"""

import bz2
import gzip
import importlib.util
import lzma
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Protocol

import zstandard

from spotsieve.stream.errors import InputError, SettingError
from spotsieve.stream.files.records import Layout, Record
from spotsieve.stream.files.remote import shown_url
from spotsieve.stream.files.targets import STDOUT, cut_off, target_of
from spotsieve.stream.files.warc import closed

if TYPE_CHECKING:
    from spotsieve.stream.files.parquet.sink import ParquetSink

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_PARQUET = ".parquet"
CSV = ".csv"
FOREIGN = frozenset(
    ".7z .arc .arrow .avro .br .cdx .cdxj .csv .db .feather .htm .html .lz4 .lzma .npy .orc .pickle .pkl .rar "
    ".sqlite .sz .tar .tgz .toml .tsv .wacz .xls .xlsx .xml .yaml .yml .z .zip".split()
)
"""Endings of formats that are never written: whoever opened such a file by its name would find JSON lines in it."""
_NAMED = {
    Layout.WARC: frozenset([".warc"]),
    Layout.JSONL: frozenset([".jsonl", ".json", ".ndjson"]),
    Layout.PARQUET: frozenset([_PARQUET]),
}
_FORMS = {
    Layout.JSONL: ("JSON lines", "end it in .jsonl, and in .gz, .xz, .zst or .bz2 to compress it"),
    Layout.WARC: ("WARC records", "end it in .warc, and in .gz, .xz, .zst or .bz2 to compress it"),
    Layout.PARQUET: ("rows of Parquet", "end it in .parquet"),
}
_XZ_PRESET = 2  # 4 times faster than 6 on crawled pages, for a tenth more bytes


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...


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
        path = PurePosixPath("" if name == STDOUT else self.name)
        endings = [ending.lower() for ending in path.suffixes[-2:]]
        self._check_endings([ending for ending in endings if ending != writes])
        self._named = {layout for layout, known in _NAMED.items() if known & set(endings)}
        if lines_only:
            self._check_named(Layout.JSONL)
        if self._named == {Layout.PARQUET}:
            _check_pyarrow(self.name)
        self._layout: Layout | None = None
        self._is_empty = True
        self._target = target_of(name, stdout, private)
        self._file = self._target.file
        ending = path.suffix.lower()
        self._member, self._keeps_members = _MEMBERS.get(ending), ending == ".gz"
        self._sink: _Sink | None = None
        self._rows: ParquetSink | None = None
        self._open_stream = _STREAMS.get(ending)

    def write_line(self, line: bytes) -> None:
        """Write a line and a line feed. Raises SettingError if the name says that there are other records."""
        self._check_named(Layout.JSONL)
        self._is_empty = False
        self._write(line + b"\n")

    def write_record(self, record: Record, layout: Layout) -> None:
        """Write a record: the bytes of a JSONL line, of a WARC record, compressed by itself as WARC readers expect, or
        a row of Parquet. A WARC record that came as a member of gzip by itself goes to a .gz as it came; any other gets
        the line ends that it lacks, as the last of a file may.

        Raises SettingError if records of several layouts, or rows of several schemas, would go into one file.
        """
        self.know_record(record, layout)
        self._is_empty = False
        if self._rows is not None and record.place is not None:
            self._guard(self._rows.write, record.place)
        elif layout is Layout.JSONL:
            self.write_line(record.raw)
        elif self._keeps_members and record.packed is not None:
            self._guard(self._file.write, record.packed)
        elif self._member is not None:
            self._guard(self._file.write, self._member(closed(record.raw)))
        else:
            self._write(closed(record.raw))

    def know_record(self, record: Record, layout: Layout) -> None:
        """Take the form of a record that need not be written: an output without rows has the columns of its input.

        Raises SettingError, as write_record.
        """
        if self._layout not in (None, layout):
            rule = f"must hold records of one layout, and the files are {self._layout.value} and {layout.value}"
            raise SettingError(self.name, rule, None, "filter each in a run of its own, with the same --state")
        if self._layout is None:
            self._check_named(layout)
            self._layout = layout
        if layout is Layout.PARQUET and record.place is not None:
            self._guard(self._sink_of_rows().know, record.place)

    def flush(self) -> None:
        """Hand what was written to the reader of a pipe or of NAME.partial now. The compressed waits for its end."""
        if self._target.watched and self._sink is None and self._rows is None:
            self._guard(self._file.flush)

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

    def _check_endings(self, endings: list[str]) -> None:
        for ending in endings:
            if ending in FOREIGN:
                then = "end it in .jsonl or .warc, and in .gz, .xz, .zst or .bz2 to compress it; or in .parquet"
                raise SettingError(self.name, f"must not end in {ending}, which is not written", None, then)
        if _PARQUET in endings and endings[-1] != _PARQUET:
            raise SettingError(self.name, "must end in .parquet alone", None, "Parquet compresses its pages itself")

    def _check_named(self, layout: Layout) -> None:
        if self._named and layout not in self._named:
            what, then = _FORMS[layout]
            raise SettingError(self.name, f"is named as of another format than the {what} that go into it", None, then)

    def _sink_of_rows(self) -> "ParquetSink":
        if self._rows is None:
            from spotsieve.stream.files.parquet.sink import ParquetSink

            self._rows = ParquetSink(self._file, self.name)
        return self._rows

    def _write(self, data: bytes) -> None:
        if self._sink is None and self._open_stream is not None:
            self._sink = self._open_stream(self._file)
        self._guard((self._sink or self._file).write, data)

    def _close(self) -> None:
        if self._named == {Layout.PARQUET}:
            self._sink_of_rows()
        elif self._is_empty and self._open_stream is not None:
            self._sink = self._open_stream(self._file)  # an empty output is a valid file of its kind
        try:
            for sink in (self._rows, self._sink):
                if sink is not None:
                    self._guard(sink.close)
        finally:
            self._guard(self._target.close)

    def _guard(self, act: Callable[..., object], *values: object) -> None:
        try:
            act(*values)
        except BrokenPipeError:
            raise  # Nobody reads any more, as behind `head`: that is no trouble of a disk.
        except OSError as error:
            raise cut_off(self.name, error, self._target) from None


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


def _check_pyarrow(name: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError(name, "is Parquet, which pyarrow writes", None, "pip install 'spotsieve[parquet]'")


_STREAMS: dict[str, Callable[[BinaryIO], _Sink]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0, filename=""),
    ".xz": lambda file: lzma.LZMAFile(file, "wb", preset=_XZ_PRESET),  # noqa: SIM115 - closed with its OutputFile
    ".zst": lambda file: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(file, closefd=False),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
}
_MEMBERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda raw: gzip.compress(raw, _GZIP_LEVEL, mtime=0),
    ".zst": lambda raw: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(raw),
}
