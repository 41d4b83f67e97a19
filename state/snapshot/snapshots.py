"""Takes and restores snapshots of a state, and reads and writes their manifests.

A process may own the state and go on while the snapshot is taken. The snapshot appears under its name when it is
complete and durable. Restoring checks every file against the manifest before the state appears under its name.

    manifest = "spotsieve-snapshot 1" LF, JSON LF, checksum LF
    JSON     = {"created", "entries", "files": [{"bytes", "name", "xxh3_128"}*], "format", "log", "log_position",
                "log_records", "settings", "settings_digest"}, names sorted, without spaces
    checksum = xxh3-64 of all bytes before it, 16 hex digits
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import xxhash
from pydantic import TypeAdapter, ValidationError

from spotsieve.state.directory import (
    DIRECTORY_MODE,
    INDEX_FOLDER,
    INPUTS_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    check_new,
    close_files,
    directory_errors,
    lets_others_in,
    made_beside,
    made_whole,
    make_directory,
    open_file,
    put_in_place,
    sync_directory,
    write_durably,
)
from spotsieve.state.format.meta import log_identity_fields
from spotsieve.state.log.local import whole_frames
from spotsieve.state.snapshot.checkpoints import check_holds_state, checkpoint_of
from spotsieve.state.store.opening import checkpoint_backend, read_meta
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import settings_digest

_KIND = b"spotsieve-snapshot "
_VERSION = b"1"
_CHECKSUM_BYTES = 17
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a snapshot. name: relative path with /  xxh3_128: in hex"""

    name: str
    bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a snapshot.

    created: UTC, ISO 8601  format: state format  log_position: the next offset to apply
    log_id, salt: identity of the log, in hex; None for a state that has read no log yet
    settings: canonical text of the settings that change verdicts  settings_digest: in hex
    log_records: number of records in the local log of the snapshot, None without one
    """

    created: str
    format: int
    log: str
    log_id: str | None
    salt: str | None
    log_position: int
    entries: int
    settings: str
    settings_digest: str
    log_records: int | None
    files: tuple[FileFacts, ...]


def encode_manifest(manifest: Manifest) -> bytes:
    """Write the manifest as bytes."""
    text = json.dumps(dataclasses.asdict(manifest), sort_keys=True, separators=(",", ":"))
    body = _KIND + _VERSION + b"\n" + text.encode() + b"\n"
    return body + b"%016x\n" % xxhash.xxh3_64_intdigest(body)


def read_manifest(snapshot: Path) -> Manifest:
    """Read the manifest in a snapshot.

    Raises StateError for a missing manifest or another version, CorruptRecord for a damaged one.
    """
    path = snapshot / MANIFEST_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StateError(
            "snapshot",
            f"must hold {MANIFEST_FILE}: {error.strerror}",
            str(snapshot),
            "name a directory that spotsieve state snapshot made",
        ) from None
    first, _, rest = content.partition(b"\n")
    if first.startswith(_KIND) and first != _KIND + _VERSION:
        raise StateError(
            str(path),
            f"must be of version {_VERSION.decode()}",
            first[len(_KIND) :].decode("ascii", "replace"),
            "use the release that made it",
        )
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if first != _KIND + _VERSION or checksum != b"%016x\n" % xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(str(path), 0, "must end in its xxh3-64 checksum", "take another snapshot")
    try:
        return TypeAdapter(Manifest).validate_json(rest[: -_CHECKSUM_BYTES - 1], strict=True)
    except ValidationError:
        raise CorruptRecord(
            str(path), len(first) + 1, "must be JSON with all fields of a manifest", "take another snapshot"
        ) from None


def digest_of(file: BinaryIO, on_block: Callable[[int], None], into: BinaryIO | None = None) -> tuple[int, str]:
    """Read the rest of a file, and return its size and its xxh3-128 in hex.

    on_block: called with the size of each block  into: a file to copy the blocks to, None: no copy
    """
    hashed, size = xxhash.xxh3_128(), 0
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
        if into is not None:
            into.write(block)
        size += len(block)
        on_block(len(block))
    return size, hashed.hexdigest()


def take_snapshot(
    directory: Path,
    target: Path,
    timeout_s: float = 300.0,
    on_progress: OnProgress = ignore_progress,
    after_outcome: int | None = None,
) -> Manifest:
    """Snapshot the state in a directory as the new directory target, and return its manifest.

    after_outcome: of a shard, after the first outcome from this offset on (checkpoints.py); None: as it is

    A process that owns the state only makes a checkpoint; this process does the rest. A local log is copied too, so
    that a restored snapshot can continue, and the settings by which its files were read.
    Raises StateError if there is no state, or a snapshot in its place, for after_outcome of a state that is no shard,
    if target exists, another request stays open or the owner does not respond in time, or there is no room. Then this
    call makes no target.
    """
    check_holds_state(directory)
    check_new("TARGET", target)
    if after_outcome is not None:
        with checkpoint_backend(directory, directory / INDEX_FOLDER) as backend:
            if read_meta(backend).identity.part is None:
                rule = "needs the state of a shard, and this state is no shard of a service and has no outcomes"
                raise StateError("--after-outcome", rule, str(directory), "leave out --after-outcome")
    with made_whole("TARGET", target) as partial:
        with checkpoint_of(directory, timeout_s, on_progress, after_outcome) as checkpoint:
            _move(checkpoint, partial / INDEX_FOLDER)
        if not lets_others_in(directory / INDEX_FOLDER):  # otherwise files shared by hard links stay readable
            close_files(partial / INDEX_FOLDER)
        records = _copy_log(directory / LOG_FILE, partial / LOG_FILE)
        if (directory / INPUTS_FILE).exists():
            with (directory / INPUTS_FILE).open("rb") as source, open_file(partial / INPUTS_FILE, "wb") as into:
                shutil.copyfileobj(source, into)
        manifest = _manifest(partial, records, on_progress)
        write_durably(partial / MANIFEST_FILE, encode_manifest(manifest))
    return manifest


def _move(checkpoint: Path, index: Path) -> None:
    try:
        checkpoint.rename(index)
        index.chmod(DIRECTORY_MODE)  # RocksDB creates it by the umask
    except OSError:  # another file system
        make_directory(index)
        for file in checkpoint.iterdir():
            shutil.copyfile(file, index / file.name)


def _copy_log(log: Path, copy: Path) -> int | None:
    """Copy the complete records of a local log and return their number; None without a log. The log may grow."""
    if not log.exists():
        return None
    with log.open("rb") as source, open_file(copy, "wb") as into:
        records, size = whole_frames(source)
        source.seek(0)
        left = size
        while left:
            block = source.read(min(left, 2**20))
            into.write(block)
            left -= len(block)
    return records


def _manifest(partial: Path, records: int | None, on_progress: OnProgress) -> Manifest:
    """Make the manifest of a checkpoint. Reads the meta values, and every file for its checksum."""
    with checkpoint_backend(partial, partial / INDEX_FOLDER) as backend:
        meta = read_meta(backend)
    paths = sorted(path for path in partial.rglob("*") if path.is_file())
    total, done = sum(path.stat().st_size for path in paths), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        on_progress("bytes read for the checksums", done, total)

    files = []
    for path in paths:
        with path.open("rb") as file:
            size, digest = digest_of(file, count)
            os.fsync(file.fileno())
        files.append(FileFacts(path.relative_to(partial).as_posix(), size, digest))
    sync_directory(partial / INDEX_FOLDER)
    return Manifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        format=meta.identity.state_format,
        log=meta.identity.log,
        **log_identity_fields(meta.identity.log_identity),
        log_position=meta.progress.position,
        entries=meta.living_entries,
        settings=meta.identity.settings,
        settings_digest=settings_digest(meta.identity.settings).hex(),
        log_records=records,
        files=tuple(files),
    )


def check_snapshot(snapshot: Path) -> None:
    """Check every file of a snapshot against its manifest. Raises StateError, CorruptRecord."""
    rule, then = "must be a directory whose files can be read", "check the permissions there"
    for facts in read_manifest(snapshot).files:
        with directory_errors("snapshot", rule, snapshot, then):
            _read_checked(snapshot / facts.name, facts, lambda _: None)


def copy_path(folder: Path, facts: FileFacts, snapshot: str) -> Path:
    """Return the path of a file in a copy of a snapshot, and make its directory.

    snapshot: for the message  Raises CorruptRecord if the path is outside the folder, OSError.
    """
    copy = folder / facts.name
    if "\0" in facts.name or not copy.resolve().is_relative_to(folder.resolve()):
        raise CorruptRecord(snapshot, facts.name, "must lie in the snapshot", "take another snapshot")
    make_directory(copy.parent)
    return copy


def _read_checked(
    source: Path, facts: FileFacts, on_block: Callable[[int], None], into: BinaryIO | None = None
) -> None:
    """Read a file of a snapshot, and copy it if `into` is given. Raises CorruptRecord if it differs from its facts."""
    try:
        with source.open("rb") as file:
            found = digest_of(file, on_block, into)
    except FileNotFoundError:
        raise _damaged(source, facts, "is missing") from None
    if found != (facts.bytes, facts.xxh3_128):
        raise _damaged(source, facts, f"has {found[0]} bytes of digest {found[1]}")


PARTIAL = ".restore-partial"


def restore_snapshot(snapshot: Path, directory: Path, on_progress: OnProgress = ignore_progress) -> Manifest:
    """Copy a snapshot into a state directory without an index, and return its manifest. The next start reads the log.

    An existing local log stays if it begins with the log of the snapshot. Raises StateError if a file would be
    overwritten or there is no room, CorruptRecord if a file differs from the manifest. Then the directory is unchanged.
    """
    manifest = read_manifest(snapshot)
    with made_beside(directory, PARTIAL) as partial:
        _copy(snapshot, partial, manifest, on_progress)
        _place_log(partial / LOG_FILE, directory / LOG_FILE)
        if (partial / INPUTS_FILE).exists() and not (directory / INPUTS_FILE).exists():
            (partial / INPUTS_FILE).rename(directory / INPUTS_FILE)
        put_in_place(partial / INDEX_FOLDER, directory)
    return manifest


def _copy(snapshot: Path, partial: Path, manifest: Manifest, on_progress: OnProgress) -> None:
    total, done = sum(facts.bytes for facts in manifest.files), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        on_progress("bytes restored", done, total)

    for facts in manifest.files:
        with open_file(copy_path(partial, facts, str(snapshot)), "wb") as into:
            _read_checked(snapshot / facts.name, facts, count, into)
            into.flush()
            os.fsync(into.fileno())
    sync_directory(partial / INDEX_FOLDER)


def _damaged(source: Path, facts: FileFacts, fault: str) -> CorruptRecord:
    return CorruptRecord(
        str(source),
        0,
        f"must have {facts.bytes} bytes of digest {facts.xxh3_128}, as the manifest says, but {fault}",
        "restore another snapshot, or rebuild the state from the log: start with an empty directory",
    )


def _place_log(restored: Path, log: Path) -> None:
    """Move the local log of the snapshot into place, unless the directory has a log that begins with it."""
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
