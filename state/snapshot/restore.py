"""Restores a snapshot. Every file is checked against the manifest before the state appears under its name."""

import os
from pathlib import Path

from spotsieve.state.log.local import LOG_FILE
from spotsieve.state.private import make_directory, open_file
from spotsieve.state.snapshot.manifest import FileFacts, Manifest, digest_of, read_manifest
from spotsieve.state.store.directory import INDEX_FOLDER, made_beside, put_in_place, sync_directory
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.progress import OnProgress, ignore_progress

PARTIAL = ".restore-partial"


def restore_snapshot(snapshot: Path, directory: Path, on_progress: OnProgress = ignore_progress) -> Manifest:
    """Copy a snapshot into a state directory without an index, and return its manifest. The next start reads the log.

    A local log that lies there already stays, if it goes on from the snapshot's. Raises StateError if something would
    be overwritten or there is no room, CorruptRecord if a file differs from the manifest. Then the directory is as it
    was.
    """
    manifest = read_manifest(snapshot)
    with made_beside(directory, PARTIAL) as partial:
        _copy(snapshot, partial, manifest, on_progress)
        _place_log(partial / LOG_FILE, directory / LOG_FILE)
        put_in_place(partial / INDEX_FOLDER, directory)
    return manifest


def _copy(snapshot: Path, partial: Path, manifest: Manifest, on_progress: OnProgress) -> None:
    total, done = sum(facts.bytes for facts in manifest.files), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        on_progress("bytes restored", done, total)

    for facts in manifest.files:
        source, copy = snapshot / facts.name, partial / facts.name
        if "\0" in facts.name or not copy.resolve().is_relative_to(partial.resolve()):
            raise CorruptRecord(str(snapshot), facts.name, "must lie in the snapshot")
        make_directory(copy.parent)
        try:
            with source.open("rb") as file, open_file(copy, "wb") as into:
                found = digest_of(file, count, into)
                into.flush()
                os.fsync(into.fileno())
        except FileNotFoundError:
            raise _damaged(source, facts, "is missing") from None
        if found != (facts.bytes, facts.xxh3_128):
            raise _damaged(source, facts, f"has {found[0]} bytes of digest {found[1]}")
    sync_directory(partial / INDEX_FOLDER)


def _damaged(source: Path, facts: FileFacts, what: str) -> CorruptRecord:
    return CorruptRecord(
        str(source),
        0,
        f"must have {facts.bytes} bytes of digest {facts.xxh3_128}, as the manifest says, but {what}",
        "restore another snapshot, or rebuild the state from the log: start with an empty directory",
    )


def _place_log(restored: Path, log: Path) -> None:
    """Put the snapshot's local log in place, unless a log lies there that begins with it."""
    if not restored.exists():
        return
    if not log.exists():
        restored.rename(log)
        return
    with restored.open("rb") as ours, log.open("rb") as theirs:
        while block := ours.read(2**20):
            if theirs.read(len(block)) != block:
                raise StateError(
                    "--state",
                    "must hold no local log, or the one that the snapshot was taken with",
                    str(log),
                    "restore into another directory, or move that file away",
                )
