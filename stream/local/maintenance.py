"""Forgets pages of a state with a local log: the records are appended to the log, and applied at once.

Writes a state into an export file, and makes a state from one.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.portable.export import Fields, export_lines, header_of, loaded
from spotsieve.state.portable.importing import import_state
from spotsieve.state.snapshot.snapshots import MANIFEST_FILE
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


def open_log_to_forget(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log of a state at rest, and return it with its notices.

    Raises StateError if it is a snapshot or has no log, StateLockedError if a running filter holds the log.
    """
    if (directory / MANIFEST_FILE).exists():
        raise StateError(
            "--state",
            "must not be a snapshot of a state with a local log: it would end before the state does",
            str(directory),
            "name the state directory itself",
        )
    if not (directory / LOG_FILE).exists():
        raise StateError(
            "--state", "must hold its local log", str(directory), f"bring the file {LOG_FILE!r} back from a snapshot"
        )
    try:
        return open_log(directory)
    except StateLockedError:
        raise StateLockedError(
            "--state",
            "must not be in use to forget pages of it, and a running spotsieve filter holds its log",
            str(directory),
            "wait until it has ended, then forget them; --dry-run works now",
        ) from None


def append_and_apply(directory: Path, log: LocalLog, records: Sequence[bytes], settings_text: str) -> list[int]:
    """Append records to the log, forget what they name, and return their offsets. Nobody may have the state open.

    A state that is behind its log, after a kill, stays as it is: the next `spotsieve filter` reads on.
    Raises StateError, CorruptRecord.
    """
    first = log.end
    offsets = [log.append(record) for record in records]
    log.sync()
    with disk_state(directory, settings_text, LocalLog.name, IndexSettings()) as state:
        if state.position == first:
            for offset, record in zip(offsets, records, strict=True):
                forget(state, decode(record, LocalLog.name, offset), offset)
    return offsets


MAX_LINE_BYTES = 2**28


def export_to_file(directory: Path, out: str, timeout_s: float, on_progress: OnProgress) -> Fields:
    """Export a state or a snapshot; return the header of the export with the counts of its trailer.

    out: a file's name, compressed by its ending; - is standard output. timeout_s: how long to wait for a process that
    works on the state. Raises StateError, CorruptRecord; nothing is then left under the name.
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
    facts = {**header, **loaded(last)}
    facts.pop("end")
    return facts


def import_from_file(name: str, directory: Path, on_progress: OnProgress) -> Fields:
    """Make a state in a directory from an export; return its header with the counts of its trailer.

    name: of the file, compressed or not; - is standard input
    Raises InputError if it cannot be read or is damaged, StateError if there is a state already.
    """
    with _lines(name) as lines:
        return import_state(lines, "standard input" if name == "-" else name, directory, on_progress)


@contextlib.contextmanager
def _lines(name: str) -> Iterator[Iterator[bytes]]:
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as source:
            yield _whole_lines(source, name)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the name") from None


def _whole_lines(source: Any, name: str) -> Iterator[bytes]:
    for record in split_lines(read_chunks(source, name), MAX_LINE_BYTES):
        if record.fault is not None:
            raise InputError(name, f"line {record.number + 1} {record.fault[1]}", None, "copy the file whole")
        yield record.raw
