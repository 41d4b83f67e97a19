"""Takes a snapshot of a state, whether a process works on it or not, and makes it durable under its name."""

import os
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path

from spotsieve.state.log.local import LOG_FILE, whole_frames
from spotsieve.state.private import DIRECTORY_MODE, close_files, lets_others_in, make_directory, open_file
from spotsieve.state.snapshot.asking import check_holds_state, checkpoint_of
from spotsieve.state.snapshot.manifest import MANIFEST_FILE, FileFacts, Manifest, digest_of, encode_manifest
from spotsieve.state.store.directory import INDEX_FOLDER, sync_directory, write_durably
from spotsieve.state.store.rocks_reading import opened_secondary, read_meta
from spotsieve.stream.errors import StateError
from spotsieve.stream.progress import OnProgress, ignore_progress
from spotsieve.stream.settings.verdicts import settings_digest


def take_snapshot(
    directory: Path, target: Path, timeout_s: float = 300.0, on_progress: OnProgress = ignore_progress
) -> Manifest:
    """Snapshot the state in a directory as the new directory target, and return its manifest.

    A process that owns the state makes a checkpoint and goes on at once; the rest is done here. A local log is copied
    too, so the snapshot alone can be restored and continued.
    Raises StateError: there is no state, target exists, another snapshot is under way, the owner does not answer in
    time, or there is no room. Then nothing is left at target.
    """
    check_holds_state(directory)
    if target.exists() or target.is_symlink():
        raise StateError("TARGET", "must not exist yet", str(target), "name a new directory")
    partial = target.with_name(f"{target.name}.partial-{uuid.uuid4().hex}")
    try:
        make_directory(partial)
        with checkpoint_of(directory, timeout_s, on_progress) as checkpoint:
            _move(checkpoint, partial / INDEX_FOLDER)
        if not lets_others_in(directory / INDEX_FOLDER):  # else what both share as hard links stays readable
            close_files(partial / INDEX_FOLDER)
        records = _copy_log(directory / LOG_FILE, partial / LOG_FILE)
        manifest = _manifest(partial, records, on_progress)
        write_durably(partial / MANIFEST_FILE, encode_manifest(manifest))
        partial.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise StateError(
            "TARGET",
            f"must be a directory that can be made: {error.strerror}",
            str(error.filename or target),
            "check the permissions and the free space there",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _move(checkpoint: Path, index: Path) -> None:
    try:
        checkpoint.rename(index)
        index.chmod(DIRECTORY_MODE)  # RocksDB made it by the umask
    except OSError:  # another file system
        make_directory(index)
        for file in checkpoint.iterdir():
            shutil.copyfile(file, index / file.name)


def _copy_log(log: Path, copy: Path) -> int | None:
    """Copy the whole records of a local log and return how many; None without a log. Its owner may be appending."""
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
    """Read what the checkpoint says of itself, and every byte of it."""
    with opened_secondary(partial, partial / INDEX_FOLDER) as database:
        meta = read_meta(partial, database)
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
        log_position=meta.progress.position,
        entries=meta.living_entries,
        settings=meta.identity.settings,
        settings_digest=settings_digest(meta.identity.settings).hex(),
        log_records=records,
        files=tuple(files),
    )
