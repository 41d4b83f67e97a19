"""Owns bringing a snapshot back: every file is checked against the manifest before the state appears under its name."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotsieve.state.log.local import FILE_NAME as LOG_NAME
from spotsieve.state.snapshot.manifest import FileFacts, Manifest, digest_of, read_manifest
from spotsieve.state.snapshot.take import Told, sync_directory
from spotsieve.state.store.rocks import DIRECTORY
from spotsieve.stream.errors import CorruptRecord, StateError

PARTIAL = ".restore-partial"


def restore_snapshot(snapshot: Path, directory: Path, told: Told = lambda *_: None) -> Manifest:
    """Copy a snapshot into a state directory that has no index; -> its manifest. The log is applied by the next start.

    A local log that lies there already is kept, if it goes on from the snapshot's. Raises StateError where something
    would be overwritten or there is no room, CorruptRecord where a file is not as the manifest says; the directory is
    then as it was.
    """
    manifest = read_manifest(snapshot)
    with made_beside(directory, PARTIAL) as partial:
        _copy(snapshot, partial, manifest, told)
        _place_log(partial / LOG_NAME, directory / LOG_NAME)
        put_in_place(partial / DIRECTORY, directory)
    return manifest


@contextmanager
def made_beside(directory: Path, name: str) -> Iterator[Path]:
    """A new directory of this name in a state directory that has no index, gone again at the end.

    What is made there and then put in its place appears whole or not at all. Raises StateError where the directory
    holds a state, or cannot be written.
    """
    check_free(directory)
    partial = directory / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        yield partial
    except OSError as error:
        raise StateError(
            "--state", f"must be a directory that can be written: {error.strerror}", str(error.filename or directory),
            "check the permissions and the free space there",
        ) from None  # fmt: skip
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def put_in_place(index: Path, directory: Path) -> None:
    """Make a whole index that of the state directory, which may hold an empty one. Raises OSError."""
    if (directory / DIRECTORY).is_dir():
        (directory / DIRECTORY).rmdir()
    index.rename(directory / DIRECTORY)
    sync_directory(directory)


def check_free(directory: Path) -> None:
    """Raises StateError where the directory holds a state."""
    index = directory / DIRECTORY
    if index.exists() and (not index.is_dir() or any(index.iterdir())):
        raise StateError(
            "--state", "must hold no state yet: nothing is overwritten", str(directory),
            f"name another directory, or move {index} away",
        )  # fmt: skip


def _copy(snapshot: Path, partial: Path, manifest: Manifest, told: Told) -> None:
    total, done = sum(facts.bytes for facts in manifest.files), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        told("bytes restored", done, total)

    for facts in manifest.files:
        source, copy = snapshot / facts.name, partial / facts.name
        if "\0" in facts.name or not copy.resolve().is_relative_to(partial.resolve()):
            raise CorruptRecord(str(snapshot), facts.name, "must lie in the snapshot")
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            with source.open("rb") as file, copy.open("wb") as into:
                found = digest_of(file, count, into)
                into.flush()
                os.fsync(into.fileno())
        except FileNotFoundError:
            raise _damaged(source, facts, "is missing") from None
        if found != (facts.bytes, facts.xxh3_128):
            raise _damaged(source, facts, f"has {found[0]} bytes of digest {found[1]}")
    sync_directory(partial / DIRECTORY)


def _damaged(source: Path, facts: FileFacts, what: str) -> CorruptRecord:
    return CorruptRecord(
        str(source), 0, f"must have {facts.bytes} bytes of digest {facts.xxh3_128}, as the manifest says, but {what}",
        "restore another snapshot, or rebuild the state from the log: start with an empty directory",
    )  # fmt: skip


def _place_log(restored: Path, log: Path) -> None:
    """The snapshot's local log, unless one lies there that begins with it."""
    if not restored.exists():
        return
    if not log.exists():
        restored.rename(log)
        return
    with restored.open("rb") as ours, log.open("rb") as theirs:
        while block := ours.read(2**20):
            if theirs.read(len(block)) != block:
                raise StateError(
                    "--state", "must hold no local log, or the one that the snapshot was taken with", str(log),
                    "restore into another directory, or move that file away",
                )  # fmt: skip
