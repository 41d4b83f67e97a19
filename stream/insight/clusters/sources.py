"""Reads statements from files or from a state's log, and writes pages with their clusters.

Files hold verdict lines or reports, plain or compressed, or the rows of verdicts of a backfill (Parquet). A log is
judged again in a temporary state: the entries of a state are novel pages only, but its log has every page. An output
line is

    JSON = {"id", "url", "verdict": text or null, "cluster": id of the canonical page, "canonical": bool, "size"}
    CSV  = the same columns with a heading; canonical is true or false, null is empty
"""

import contextlib
import csv
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.log.local import LocalLog, read_records
from spotsieve.stream.base.errors import InputError, StateError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import open_engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.files.compression import READ_BYTES
from spotsieve.stream.files.inputs import Input, RandomAccess, open_input
from spotsieve.stream.files.verdict_lines import split_objects
from spotsieve.stream.insight.clusters.grouping import Member, Statement, state_verdicts, statement_of
from spotsieve.stream.judge import entry_of
from spotsieve.stream.local.engines import check_identity_of_log

OnRead = Callable[[int, int], None]
"""on_read(lines, bytes_read), called every _LINES_PER_STEP lines; bytes as on disk."""
_LINES_PER_STEP = 1024
_COLUMNS = ("id", "url", "verdict", "cluster", "canonical", "size")


@dataclass(slots=True)
class InputLines:
    """Progress of a reader. lines: non-blank lines  bytes_read: as on disk  faults: one per file with an error"""

    lines: int = 0
    bytes_read: int = 0
    faults: list[InputError] = field(default_factory=list)


def read_files(inputs: Sequence[Input], read: InputLines, on_read: OnRead) -> Iterator[Statement]:
    """The statements of all lines, file by file. Errors go to the faults of `read`; the next file is read then."""
    for file in inputs:
        others, first, before = 0, "", read.lines
        try:
            with contextlib.ExitStack() as closing:
                source = closing.enter_context(open_input(file)[0])

                def open_seeking(_: str, file: Input = file, closing: contextlib.ExitStack = closing) -> BinaryIO:
                    return closing.enter_context(RandomAccess(file, read).as_file())

                for record, fields in split_objects(_CountingFile(source, read), file.source, open_seeking):
                    statement = None if fields is None else statement_of(fields)
                    read.lines += 1
                    if statement is None:
                        others += 1
                        first = first or f"line {record.number + 1}"
                    else:
                        yield statement
                    if read.lines % _LINES_PER_STEP == 0:
                        on_read(read.lines, read.bytes_read)
        except InputError as error:
            read.faults.append(error)
        except OSError as error:
            read.faults.append(InputError(file.source, f"cannot be read: {error.strerror}", None, "check the file"))
        if others:
            rule = f"has {others:,} lines (of {read.lines - before:,}) that are not verdicts; the first is {first}"
            then = "give a file that `spotsieve filter --verdicts`, `backfill`, `query` or `replay --into` wrote"
            read.faults.append(InputError(file.source, rule, None, then))


class _CountingFile:
    """A file that counts the bytes read."""

    def __init__(self, file: BinaryIO, read: InputLines) -> None:
        self._file, self._read = file, read

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, READ_BYTES))
        self._read.bytes_read += len(data)
        return data


def json_line(member: Member) -> bytes:
    """A member as a line of JSON."""
    return orjson.dumps(dict(zip(_COLUMNS, _values(member), strict=True)))


def csv_heading() -> bytes:
    """The names of the columns."""
    return ",".join(_COLUMNS).encode()


def csv_line(member: Member) -> bytes:
    """A member as a line of CSV (RFC 4180, but lines end with a line feed)."""
    identity, url, verdict, cluster, canonical, size = _values(member)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow((identity, url, verdict, cluster, str(canonical).lower(), size))
    return line.getvalue().encode("utf-8", "replace")


def _values(member: Member) -> tuple[str, str, str | None, str, bool, int]:
    return member.id, member.url, member.verdict, member.cluster, member.canonical, member.size


def check_has_log(directory: Path) -> None:
    """Check that a state has a log of its own. Raises StateError."""
    if not (directory / LOG_FILE).is_file():
        raise StateError(
            "--state",
            "must be the state of `spotsieve filter`, which has a log of its own",
            str(directory),
            "for a service, read its output topics: -c FILE --topics",
        )


def judge_log(
    directory: Path, settings: Settings, stored: LogIdentity | None, on_progress: OnProgress
) -> Iterator[Statement]:
    """Judge the pages of a state's log again, and yield their verdicts in log order. The log may grow meanwhile.

    settings: must have the state's verdict settings  stored: the identity of the log in the state
    Raises StateError, CorruptRecord.
    """
    records = ((offset, record) for offset, record, _, _ in read_records(directory / LOG_FILE))
    log = check_identity_of_log(records, directory, stored)
    with tempfile.TemporaryDirectory(prefix="spotsieve-clusters-") as scratch:
        index = settings.index.model_copy(update={"directory": Path(scratch)})
        engine = open_engine(settings.model_copy(update={"index": index}), LocalLog.name)
        try:
            engine.adopt(log)
            compile_kernels(engine.scheme)
            for offset, record, done, of in read_records(directory / LOG_FILE):
                applied = engine.apply(record, offset)
                on_progress("bytes of the log judged again", done, of)
                signatures = applied.record.signatures
                pages = [entry_of(signatures, row) for row in range(len(signatures))]
                yield from state_verdicts(pages, applied.verdicts)
        finally:
            engine.state.close()
