"""Reads the column families of a state that no process owns, skips damage, and collects findings.

It reads a copy made of hard links.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import DBRecoveryMode, Rdict, RdictIter, ReadOptions

from spotsieve.state.directory import INDEX_FOLDER, has_index
from spotsieve.state.store.opening import refuse_other_format
from spotsieve.state.store.rocks_errors import locked
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.base.errors import SpotsieveError, StateError, write_advice


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place. place: store and key in hex, or file and offset  rule: the broken rule"""

    place: str
    rule: str


@dataclass(slots=True)
class Findings:
    """The result of a verification. shown: greatest number of damages in the list; `damaged` counts all

    notices: remarks that are no damage  checked: number of checked items by kind
    log_damaged: number of damages of the local log
    part: the shard of the state, "" for a state with all entries
    """

    shown: int
    damages: list[Damage] = field(default_factory=list)
    damaged: int = 0
    log_damaged: int = 0
    notices: list[str] = field(default_factory=list)
    log: str = ""
    part: str = ""
    log_position: int = 0
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, place: str, rule: str) -> None:
        """Count a damage, and list it if it is one of the first."""
        self.damaged += 1
        if len(self.damages) < self.shown:
            self.damages.append(Damage(place, rule))

    def add_error(self, error: SpotsieveError) -> None:
        """Count a damage that a decoder has found."""
        self.add(error.name, error.rule)


SCRATCH_PREFIX = ".verify-"
_READAHEAD_BYTES = 2**21
_KEY_BITS = 64
Skipped = Callable[[bytes, bytes | None, str], None]
Add = Callable[[str, str], None]


def open_families(directory: Path, closing: ExitStack, add: Add) -> "dict[str, Family] | None":
    """Lock the state, copy it and open the copy. If it cannot be opened, add a damage and return None.

    Raises StateError if there is no state, it has another format, or no copy can be made; StateLockedError if a process
    owns it.
    """
    path = directory / INDEX_FOLDER
    if not path.is_dir() or not any(path.iterdir()):
        raise StateError(
            "directory", "must hold a state", str(directory), "name the directory given as index.directory (--state)"
        )
    closing.enter_context(locked(path))
    if not has_index(path):
        add(f"index[{path / 'CURRENT'}]", "is missing: without it the database cannot be opened")
        return None
    _remove_leftovers(directory)
    refuse_other_format(directory, path)
    try:
        return _open(_copy(path, directory, closing), closing, strict=True)
    except StateError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        strictly = _said(error)
    try:
        families = _open(_copy(path, directory, closing), closing, strict=False)
    except StateError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        add(f"index[{directory}]", f"cannot be opened ({_said(error)})")
        return None
    add(
        f"index[{directory}]",
        f"must have a write-ahead log that is whole to its end ({strictly}): the state falls back to the last whole "
        "record before, and continues from there by the log",
    )
    return families


class Family:
    """A column family whose unreadable stretches are skipped."""

    def __init__(self, family: Rdict) -> None:
        self._family = family
        self._options = ReadOptions()
        self._options.set_verify_checksums(True)
        self._options.set_readahead_size(_READAHEAD_BYTES)

    def estimated_keys(self) -> int:
        """Return RocksDB's estimate of the number of keys."""
        return self._family.property_int_value("rocksdb.estimate-num-keys") or 0

    def first_number(self) -> int:
        """Return the least key as a number, -1 without a readable one."""
        at = self._family.iter(self._options)
        at.seek_to_first()
        first: Any = at.key() if at.valid() else None
        return -1 if first is None else int.from_bytes(first, "big")

    def last_number(self) -> int:
        """Return the greatest key as a number, -1 without a readable one."""
        at = self._family.iter(self._options)
        at.seek_to_last()
        key: Any = at.key() if at.valid() else None
        return -1 if key is None else int.from_bytes(key, "big")

    def items(self, skipped: Skipped) -> Iterator[tuple[bytes, bytes]]:
        """Yield every readable key and value, in order.

        skipped(start, end, why) is called for each unreadable stretch, from key start to before key end (None: to the
        last key). A stretch may hold some readable keys, because the next readable block is searched in steps.
        """
        at = self._family.iter(self._options)
        at.seek_to_first()
        start = b""
        while True:
            while at.valid():
                key: Any = at.key()
                yield key, at.value()
                start = key + b"\0"
                at.next()
            why = _fault(at)
            if why is None:
                return
            at = self._beyond(start)
            end: Any = at.key() if at.valid() else None
            skipped(start, end, why)
            if end is None:
                return

    def _beyond(self, start: bytes) -> RdictIter:
        """Seek the first readable key after start: double the step, then bisect the last one."""
        bad = int.from_bytes(start[:8].ljust(8, b"\0"), "big")
        good, step = bad, 1
        while good == bad:
            tried = min(bad + step, 2**_KEY_BITS - 1)
            if _fault(self._seek(tried)) is None or tried == 2**_KEY_BITS - 1:
                good = tried
            else:
                bad = good = tried
                step *= 2
        while good - bad > 1:
            middle = (good + bad) // 2
            if _fault(self._seek(middle)) is None:
                good = middle
            else:
                bad = middle
        return self._seek(good)

    def _seek(self, number: int) -> RdictIter:
        at = self._family.iter(self._options)
        at.seek(number.to_bytes(8, "big"))
        return at


def _fault(at: RdictIter) -> str | None:
    try:
        at.status()
    except Exception as error:  # rocksdict raises plain Exception
        return _said(error)
    return None


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _open(copy: Path, closing: ExitStack, *, strict: bool) -> dict[str, Family]:
    """Open the copy. strict: an incomplete or damaged last record of the write-ahead log is an error too"""
    options, families = database_options(), column_families(None)
    options.create_if_missing(False)
    options.create_missing_column_families(False)
    if strict:
        options.set_wal_recovery_mode(DBRecoveryMode.absolute_consistency())
    for family in families.values():
        family.set_disable_auto_compactions(True)
    database = Rdict(str(copy), options, families)
    closing.callback(database.close)
    opened = {"default": Family(database)}
    for name in families:
        family_database = database.get_column_family(name)
        closing.callback(family_database.close)
        opened[name] = Family(family_database)
    return opened


def _copy(path: Path, directory: Path, closing: ExitStack) -> Path:
    """Make a copy that RocksDB may change: hard links of table files, which it never changes; copies of the rest."""
    try:
        scratch = TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=directory)
    except OSError:
        scratch = TemporaryDirectory(prefix="spotsieve-verify-")
    copy = Path(closing.enter_context(scratch))
    for file in path.iterdir():
        if file.name == "LOCK" or file.name.startswith("LOG"):
            continue
        try:
            if file.suffix == ".sst":
                try:
                    os.link(file, copy / file.name)
                    continue
                except OSError:
                    pass
            shutil.copyfile(file, copy / file.name)
        except OSError as error:
            denied = isinstance(error, PermissionError)
            raise StateError(
                "directory",
                f"must have files that can be copied to {copy.parent}: {error.strerror or error}",
                str(file),
                "verify as the user who owns the state" if denied else f"{write_advice(error)}, and verify again",
            ) from None
    return copy


def _remove_leftovers(directory: Path) -> None:
    """Remove the copies of killed verifications. This process holds the lock, so no other one is running."""
    for leftover in directory.glob(f"{SCRATCH_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
