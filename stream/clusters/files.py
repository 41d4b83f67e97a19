"""Reads files of verdict lines, or of reports, plain or compressed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from spotsieve.stream.clusters.statements import Statement, read_statement
from spotsieve.stream.errors import InputError
from spotsieve.stream.files.compression import READ_BYTES, read_chunks
from spotsieve.stream.files.inputs import Input, open_input
from spotsieve.stream.files.jsonlines import split_lines

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
