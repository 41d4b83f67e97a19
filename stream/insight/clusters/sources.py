"""Reads files of verdict lines, or of reports, plain or compressed.

Writes a page and its cluster as a line.

JSON = {"id", "url", "verdict": text or null, "cluster": id of the canonical page, "canonical": bool, "size"}
CSV  = the same columns under a heading; canonical is true or false, and what is null is empty

Judges the local log of a state once more, in a state of its own, and says what became of every page in it.

A state remembers the pages that it let through; only its log also names those that were dropped.
"""

import csv
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog, read_records
from spotsieve.stream.base.errors import InputError, StateError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import open_engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.files.compression import READ_BYTES, read_chunks
from spotsieve.stream.files.inputs import Input, open_input
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.insight.clusters.grouping import Member, Statement, read_statement, state_verdicts
from spotsieve.stream.judge import entry_of

OnRead = Callable[[int, int], None]
"""on_read(lines, bytes_read) is called now and then; bytes as on disk."""
_LINES_A_STEP = 1024


@dataclass(slots=True)
class InputLines:
    """What was read. lines: all but blank ones  bytes_read: as on disk  faults: of files that were not read whole"""

    lines: int = 0
    bytes_read: int = 0
    faults: list[InputError] = field(default_factory=list)


def read_files(inputs: Sequence[Input], read: InputLines, on_read: OnRead) -> Iterator[Statement]:
    """Give what the lines of the files say, file after file; what cannot be read is among the faults of `read`."""
    for file in inputs:
        others, first, before = 0, "", read.lines
        try:
            with open_input(file)[0] as source:
                for record in split_lines(read_chunks(_CountingFile(source, read), file.source)):
                    statement = None if record.fault else read_statement(record.raw)
                    read.lines += 1
                    if statement is None:
                        others += 1
                        first = first or f"line {record.number + 1}"
                    else:
                        yield statement
                    if read.lines % _LINES_A_STEP == 0:
                        on_read(read.lines, read.bytes_read)
        except InputError as error:
            read.faults.append(error)
        except OSError as error:
            read.faults.append(InputError(file.source, f"cannot be read: {error.strerror}", None, "check the file"))
        if others:
            rule = f"must hold verdicts, and {others:,} of {read.lines - before:,} lines are none: the first is {first}"
            then = "name what `spotsieve filter --verdicts`, `query` or `replay --into` wrote"
            read.faults.append(InputError(file.source, rule, None, then))


class _CountingFile:
    """A file that counts what is read of it."""

    def __init__(self, file: BinaryIO, read: InputLines) -> None:
        self._file, self._read = file, read

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, READ_BYTES))
        self._read.bytes_read += len(data)
        return data


_COLUMNS = ("id", "url", "verdict", "cluster", "canonical", "size")


def json_line(member: Member) -> bytes:
    """A page and its cluster as JSON."""
    return orjson.dumps(dict(zip(_COLUMNS, _values(member), strict=True)))


def csv_heading() -> bytes:
    """The names of the columns."""
    return ",".join(_COLUMNS).encode()


def csv_line(member: Member) -> bytes:
    """A page and its cluster as CSV (RFC 4180, but lines end in a line feed)."""
    identity, url, verdict, cluster, canonical, size = _values(member)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow((identity, url, verdict, cluster, str(canonical).lower(), size))
    return line.getvalue().encode("utf-8", "replace")


def _values(member: Member) -> tuple[str, str, str | None, str, bool, int]:
    return member.id, member.url, member.verdict, member.cluster, member.canonical, member.size


def check_has_log(directory: Path) -> None:
    """Raises StateError if a state directory has no log of its own."""
    if not (directory / LOG_FILE).is_file():
        raise StateError(
            "--state",
            "must have a log of its own, as the state of `spotsieve filter` has",
            str(directory),
            "the verdicts of a service are in its topics: give -c and --topics",
        )


def judge_log(directory: Path, settings: Settings, on_progress: OnProgress) -> Iterator[Statement]:
    """Give what becomes of the pages of a state's log, in its order; a process may be appending to it meanwhile.

    settings: those that change verdicts are the state's  Raises StateError, CorruptRecord.
    """
    with tempfile.TemporaryDirectory(prefix="spotsieve-clusters-") as made:
        index = settings.index.model_copy(update={"directory": Path(made)})
        engine = open_engine(settings.model_copy(update={"index": index}), LocalLog.name)
        try:
            compile_kernels(engine.scheme)
            for offset, record, done, of in read_records(directory / LOG_FILE):
                applied = engine.apply(record, offset)
                on_progress("bytes of the log judged again", done, of)
                signatures = applied.record.signatures
                pages = [entry_of(signatures, row) for row in range(len(signatures))]
                yield from state_verdicts(pages, applied.verdicts)
        finally:
            engine.state.close()
