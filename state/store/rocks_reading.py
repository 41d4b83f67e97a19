"""Reads a database that another process may work on, without taking its lock and without changing it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rocksdict import AccessType, Options, Rdict, ReadOptions

from spotsieve.state.format.meta import (
    HEARD,
    IDENTITY,
    MARKS,
    PROGRESS,
    Identity,
    Progress,
    decode_clock,
    decode_heard,
    decode_identity,
    decode_progress,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_format
from spotsieve.state.index import Heard
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.errors import StateError


class MetaValues(NamedTuple):
    """What a state belongs to, how far it has applied its log, and how far event time has come.

    heard: the outcome that the state of a shard was last filed by
    """

    identity: Identity
    progress: Progress
    clock: Clock
    heard: Heard | None = None

    @property
    def living_entries(self) -> int:
        """How many entries count: all of them, or those within the horizon."""
        return self.progress.entry_count - self.clock.floor


@contextmanager
def opened_secondary(directory: Path, path: Path) -> Iterator[Rdict]:
    """Open the database at path as a secondary of RocksDB's. directory: for messages. Raises StateError, CorruptRecord.

    A secondary writes nothing there. To open for reading only is not possible: it ends the process (a segmentation
    fault) where the manifest lists write-ahead logs, in RocksDB 9.8 as in 9.9 (facebook/rocksdb issue 13235).
    """
    refuse_other_format(directory, path)
    with _secondary(directory, path, column_families(None)) as database:
        yield database


def refuse_other_format(directory: Path, path: Path) -> None:
    """Refuse the database at path where it lacks families because another release wrote it.

    Opening would say no more than that a family is missing. directory: for messages  Raises StateError, CorruptRecord.
    """
    try:
        stored = set(Rdict.list_cf(str(path), database_options()))
    except Exception:  # rocksdict raises plain Exception; opening tells what is wrong
        return
    if stored >= column_families(None).keys():
        return
    families = {name: Options(raw_mode=True) for name in stored - {"default"}}
    identity = None
    with suppress(StateError), _secondary(directory, path, families) as database:
        identity = database.get(IDENTITY)
    if isinstance(identity, bytes):
        check_format(str(directory), decode_identity(identity))


@contextmanager
def _secondary(directory: Path, path: Path, families: dict[str, Options]) -> Iterator[Rdict]:
    with ExitStack() as closing:
        scratch = closing.enter_context(TemporaryDirectory(prefix="spotsieve-"))
        with rocks_errors(directory, "read"):
            database = Rdict(str(path), database_options(), families, AccessType.secondary(scratch))
        closing.callback(database.close)
        yield database


def read_meta(directory: Path, database: Rdict) -> MetaValues:
    """Read the meta values. directory: for messages. Raises StateError where the state has none yet, CorruptRecord."""
    with rocks_errors(directory, "read"):
        identity, progress, marks, heard = (database.get(name) for name in (IDENTITY, PROGRESS, MARKS, HEARD))
    if not isinstance(identity, bytes) or not isinstance(progress, bytes):
        raise StateError(
            "--state",
            "holds no identity: its first start did not finish",
            str(directory),
            "start it once more, or delete it",
        )
    decoded = decode_progress(progress)
    clock = decode_clock(decoded, marks if isinstance(marks, bytes) else None)
    last = decode_heard(heard) if isinstance(heard, bytes) else None
    return MetaValues(decode_identity(identity), decoded, clock, last)


def keys_and_values(family: Rdict, options: ReadOptions | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Give every key and value in order. (The items() of rocksdict ends without a word at a block it cannot read.)"""
    at = family.iter(options)
    at.seek_to_first()
    while at.valid():
        yield at.key(), at.value()
        at.next()
    at.status()
