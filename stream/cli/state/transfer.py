"""Owns `spotsieve state export` and `import`: the files, and what is said of them."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from spotsieve.stream.errors import EXIT_OK, InputError, SettingError
from spotsieve.stream.text_safety import show

Told = Callable[[str, int, int], None]
Facts = dict[str, Any]
Progress = Callable[[], AbstractContextManager[Told]]
MAX_LINE_BYTES = 2**28
EXPORT_ABOUT = """All that a state remembers, as JSON Lines (state/FORMATS.md): for other programs, and for import. Of a
state that a process works on, by a checkpoint; of a snapshot too. A local log is not in it."""
IMPORT_ABOUT = """Makes a state equal to the exported one, byte for byte, where none is yet. It belongs to the same log
and the same settings and goes on from the same place of the log; to a filter's state bring the file `log` too. A file
that is cut or damaged is refused (exit code 3), and no state is made of it."""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve state export`."""
    parser.add_argument("-o", "--out", default="-", metavar="FILE",
                        help="compressed by its ending .gz, .xz or .zst; - is standard output (default)")  # fmt: skip
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="a state directory, or a snapshot")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS",
        help="how long to wait for the process that works on the state (300)",
    )  # fmt: skip


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve state import`."""
    parser.add_argument("file", metavar="FILE", help="an export, compressed or not; - is standard input")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="the state directory to be made")


def run_export(options: argparse.Namespace, progress: Progress, say: Callable[[Facts], None]) -> int:
    """Export; the exit code."""
    if options.out == "-" and options.json:
        raise SettingError("--json", "must not go where the export goes", "-", "give --out a file")
    from spotsieve.state.portable.export import export_lines, header_of, loaded
    from spotsieve.state.still.reading import still_state
    from spotsieve.stream.files.writer import OutputFile

    with progress() as told, still_state(options.state, options.timeout, told) as state:
        header = header_of(state)
        output, last = OutputFile(options.out), b""
        try:
            for block in export_lines(state, told):
                output.write_line(block)
                last = block
        except BaseException:
            left = output.abandon()
            if left is not None:
                left.unlink()
            raise
        output.complete()
    done = {**header, **loaded(last), "out": options.out}
    done.pop("end")
    if options.json:
        say(done)
    else:
        to = sys.stderr if options.out == "-" else sys.stdout
        show(f"exported {options.state} to {options.out}: {_told(done)}", to=to)
    return EXIT_OK


def run_import(options: argparse.Namespace, progress: Progress, say: Callable[[Facts], None]) -> int:
    """Import; the exit code."""
    from spotsieve.state.log.local import FILE_NAME, LocalLog
    from spotsieve.state.portable.importing import import_state

    with progress() as told, _lines(options.file) as lines:
        done = import_state(lines, "standard input" if options.file == "-" else options.file, options.state, told)
    if options.json:
        say(done)
        return EXIT_OK
    show(f"imported {options.file} to {options.state}; the next start goes on from there: {_told(done)}")
    if done["log"] == LocalLog.name and not (options.state / FILE_NAME).exists():
        show(f"Before you filter, bring its log: the file {FILE_NAME!r} of the exported state, to {options.state}")
    return EXIT_OK


def _told(facts: Facts) -> str:
    return (
        f"record {facts['log_position']} of the log {facts['log']!r}, {facts['entries']:,} entries, "
        f"{facts['buckets']:,} buckets, {facts['postings']:,} postings"
    )


@contextlib.contextmanager
def _lines(name: str) -> Iterator[Iterator[bytes]]:
    from spotsieve.stream.files.compression import read_chunks
    from spotsieve.stream.files.jsonlines import split_lines

    def whole(source: Any) -> Iterator[bytes]:
        for record in split_lines(read_chunks(source, name), MAX_LINE_BYTES):
            if record.fault is not None:
                raise InputError(name, f"line {record.number + 1} {record.fault[1]}", None, "copy the file whole")
            yield record.raw

    try:
        with contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as source:
            yield whole(source)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the name") from None
