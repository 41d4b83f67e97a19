"""Maintains a state at rest: forgets pages of a state with a local log, exports a state, imports an export.

To forget pages, records that name them are appended to the log and applied at once.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spotsieve.state.directory import LOG_FILE, is_snapshot
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.portable.export import Fields, export_lines, header_of, loaded
from spotsieve.state.portable.importing import import_state
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import InputError, StateError, StateLockedError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.engine import forget
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.local.engines import open_log

MAX_LINE_BYTES = 2**28
"""The longest line of an export that is read."""


def open_log_to_forget(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log of a state at rest; return it with notices for people.

    Raises StateError if the directory is a snapshot or has no log, StateLockedError if a running filter holds the log.
    """
    if is_snapshot(directory):
        raise StateError(
            "--state",
            "must be a state directory and not a snapshot: the log of a snapshot ends before its state",
            str(directory),
            "name the state directory itself",
        )
    if not (directory / LOG_FILE).exists():
        raise StateError(
            "--state", "must contain its local log", str(directory), f"restore the file {LOG_FILE!r} from a snapshot"
        )
    try:
        return open_log(directory)
    except StateLockedError:
        raise StateLockedError(
            "--state",
            "must not be in use while pages are forgotten, and a running spotsieve filter holds its log",
            str(directory),
            "wait until the filter has ended and run this command again; --dry-run works now",
        ) from None


def append_and_apply(directory: Path, log: LocalLog, records: Sequence[bytes], settings_text: str) -> list[int]:
    """Append records to the log, forget the pages that they name, and return the offsets of the records.

    No process may have the state open. After a kill, a state can be behind its log; then only the log changes, and the
    next `spotsieve filter` applies the rest. Raises StateError, CorruptRecord.
    """
    first = log.end
    offsets = [log.append(record) for record in records]
    log.sync()
    with disk_state(directory, settings_text, LocalLog.name, IndexSettings()) as state:
        if state.position == first:
            for offset, record in zip(offsets, records, strict=True):
                forget(state, decode(record, LocalLog.name, offset), offset)
    return offsets


def export_to_file(directory: Path, out: str, timeout_s: float, on_progress: OnProgress) -> Fields:
    """Export a state or a snapshot; return the header of the export with the counts of its trailer.

    out: name of a file, whose suffix chooses the compression; - is standard output
    timeout_s: seconds to wait for a process that works on the state
    Raises StateError, CorruptRecord; then no file of this name is left.
    """
    with read_only_state(directory, timeout_s, on_progress) as state:
        header = header_of(state)
        output, last = OutputFile(out, lines_only=True, private=True), b""
        try:
            for block in export_lines(state, on_progress):
                output.write_line(block)
                last = block
        except BaseException:
            output.discard()
            raise
        output.complete()
    fields = {**header, **loaded(last)}
    fields.pop("end")
    return fields


def import_from_file(name: str, directory: Path, on_progress: OnProgress) -> Fields:
    """Create a state in a directory from an export; return the export's header with the counts of its trailer.

    name: name of the file, compressed or not; - is standard input
    Raises InputError if it cannot be read or is damaged, StateError if the directory has a state already.
    """
    with _open_lines(name) as lines:
        return import_state(lines, "standard input" if name == "-" else name, directory, on_progress)


@contextlib.contextmanager
def _open_lines(name: str) -> Iterator[Iterator[bytes]]:
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as source:
            yield _lines(source, name)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the name") from None


def _chunks(source: Any, name: str) -> Iterator[bytes]:
    """The content of an export. Raises InputError."""
    try:
        yield from read_chunks(source, name)
    except InputError as error:
        then = "nothing was imported; copy the complete file again, or export the state again"
        raise InputError(error.name, error.rule, error.value, then) from None


def _lines(source: Any, name: str) -> Iterator[bytes]:
    for record in split_lines(_chunks(source, name), MAX_LINE_BYTES):
        if record.fault is not None:
            raise InputError(name, f"line {record.number + 1} {record.fault[1]}", None, "copy the complete file again")
        yield record.raw
