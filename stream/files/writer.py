"""Writes the outputs: the ending of a name chooses the compression, and a file has its name only when it is complete.

A file is written as NAME.partial and gets its name when the run is complete. An interrupted run closes it properly and
leaves it as NAME.partial, which is readable but cannot be mistaken for the whole. A pipe or /dev/null is written
directly, as anything else that is no regular file.
"""

import contextlib
import gzip
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import zstandard

from spotsieve.stream.errors import InputError, SettingError, StateError
from spotsieve.stream.files.records import Layout, Record

PARTIAL = ".partial"
CSV = ".csv"
STDOUT = "-"
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_READ_ONLY = (".bz2",)
_FOREIGN = frozenset(
    ".7z .arc .arrow .avro .br .cdx .cdxj .csv .db .feather .htm .html .lz4 .lzma .npy .orc .parquet .pickle .pkl .rar "
    ".sqlite .sz .tar .tgz .toml .tsv .wacz .xls .xlsx .xml .yaml .yml .z .zip".split()
)
"""Endings of formats that are never written: whoever opened such a file by its name would find JSON lines in it."""
_JSON_LINES = (".jsonl", ".json", ".ndjson")
_ENDINGS = "choose a name in .gz, .xz or .zst, or one without compression"
_XZ_PRESET = 2  # 4 times faster than 6 on crawled pages, for a tenth more bytes


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...


class OutputFile:
    """One output. write_line takes lines, write_record takes records as they came; then call complete or abandon."""

    def __init__(self, name: str, stdout: BinaryIO | None = None, *, writes: str = "") -> None:
        """Open it. Raises SettingError if the file cannot be written.

        writes: the ending of another format that the caller's lines are of, such as CSV
        """
        self.name = name
        self.path = None if name == STDOUT else Path(name)
        if self.path is not None and self.path.suffix.lower() in _READ_ONLY:
            raise SettingError(name, f"must not end in {self.path.suffix}, which is only read", None, _ENDINGS)
        endings = [] if self.path is None else [ending.lower() for ending in self.path.suffixes[-2:]]
        for ending in endings:
            if ending in _FOREIGN and ending != writes:
                then = "end it in .jsonl or .warc, and in .gz, .xz or .zst to compress it"
                raise SettingError(name, f"must not end in {ending}, which is not written", None, then)
        self._named = {
            Layout.WARC: ".warc" in endings,
            Layout.JSONL: any(ending in _JSON_LINES for ending in endings),
        }
        self._layout: Layout | None = None
        self._direct = self.path is None or (self.path.exists() and not self.path.is_file())
        self._target = self.path if self._direct or self.path is None else self.path.with_name(self.path.name + PARTIAL)
        try:
            self._file: BinaryIO = (stdout or sys.stdout.buffer) if self._target is None else self._target.open("wb")
        except OSError as error:
            raise SettingError(
                name, f"cannot be written: {error.strerror}", None, "check the directory and its permissions"
            ) from None
        ending = self.path.suffix.lower() if self.path is not None else ""
        self._member = _MEMBERS.get(ending)
        self._sink: _Sink | None = None
        self._open_stream = _STREAMS.get(ending)

    def write_line(self, line: bytes) -> None:
        """Write a line and a line feed. Raises SettingError if the name says that there are WARC records."""
        self._check_named(Layout.WARC, "JSON lines", ".jsonl")
        self._write(line + b"\n")

    def write_record(self, record: Record, layout: Layout) -> None:
        """Write the bytes of a record: a JSONL line, or a WARC record, compressed by itself as WARC readers expect.

        Raises SettingError if records of both layouts would go into one file.
        """
        if self._layout not in (None, layout):
            raise SettingError(
                self.name,
                "must hold records of one layout, and the files are JSONL and WARC",
                None,
                "filter JSONL and WARC in two runs with the same --state",
            )
        self._layout = layout
        if layout is Layout.JSONL:
            self.write_line(record.raw)
            return
        self._check_named(Layout.JSONL, "WARC records", ".warc")
        if self._member is not None:
            self._guard(self._file.write, self._member(record.raw))
        else:
            self._write(record.raw)

    def flush(self) -> None:
        """Hand what was written to the reader of a pipe now. A file that waits for its end needs nothing."""
        if self._direct and self._sink is None:
            self._guard(self._file.flush)

    def complete(self) -> None:
        """Close it, and give it its name. Raises StateError if the disk is full."""
        self._close()
        if not self._direct and self._target is not None and self.path is not None:
            self._target.replace(self.path)

    def abandon(self) -> Path | None:
        """Close it and leave it as NAME.partial. Returns that path, or None for an output that is written directly."""
        self._close()
        return None if self._direct else self._target

    def _check_named(self, other: Layout, what: str, ending: str) -> None:
        if self._named[other]:
            rule = f"is named as of another format than the {what} that go into it"
            raise SettingError(self.name, rule, None, f"end it in {ending}, and in .gz, .xz or .zst to compress it")

    def _write(self, data: bytes) -> None:
        if self._sink is None and self._open_stream is not None:
            self._sink = self._open_stream(self._file)
        self._guard((self._sink or self._file).write, data)

    def _close(self) -> None:
        if self._sink is None and self._open_stream is not None and self._layout is not Layout.WARC:
            self._sink = self._open_stream(self._file)  # an empty output is a valid file of its kind
        try:
            if self._sink is not None:
                self._guard(self._sink.close)
            self._guard(self._file.flush)
        finally:
            if self._target is not None:
                self._guard(self._file.close)

    def _guard(self, act: Callable[..., object], *values: bytes) -> None:
        try:
            act(*values)
        except BrokenPipeError:
            raise  # Nobody reads any more, as behind `head`: that is no trouble of a disk.
        except OSError as error:
            raise StateError(
                self.name,
                f"cannot be written: {error.strerror}",
                None,
                "free disk space, and run again: a --state repeats its verdicts",
            ) from None


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


class Outputs:
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
                wanted[flag] = OutputFile(name) if name else None
        except SettingError:
            for output in wanted.values():
                path = output.abandon() if output else None
                if path is not None:
                    path.unlink()  # nothing was written yet
            raise
        return cls(wanted)

    def flush(self) -> None:
        """Call it after a micro-batch, so that the reader of a pipe sees its pages."""
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


_STREAMS: dict[str, Callable[[BinaryIO], _Sink]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0, filename=""),
    ".xz": lambda file: lzma.LZMAFile(file, "wb", preset=_XZ_PRESET),  # noqa: SIM115 - closed with its OutputFile
    ".zst": lambda file: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(file, closefd=False),
}
_MEMBERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda raw: gzip.compress(raw, _GZIP_LEVEL, mtime=0),
    ".zst": lambda raw: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(raw),
}
