"""Owns taking a snapshot of a state, whether a process works on it or not, and making it durable under its name."""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rocksdict import Checkpoint, Rdict

from spotsieve.state.log.local import FILE_NAME as LOG_NAME
from spotsieve.state.log.local import whole_frames
from spotsieve.state.snapshot import requests
from spotsieve.state.snapshot.manifest import FILE_NAME, FileFacts, Manifest, digest_of, encode_manifest
from spotsieve.state.still.inspect import describe
from spotsieve.state.store.rocks import DIRECTORY
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.verify.families import locked
from spotsieve.stream.errors import StateError
from spotsieve.stream.settings.verdicts import settings_digest

POLL_SECONDS = 0.05
Told = Callable[[str, int, int], None]


def take_snapshot(directory: Path, target: Path, timeout_s: float = 300.0, told: Told = lambda *_: None) -> Manifest:
    """Snapshot the state in directory as the new directory target; -> its manifest.

    A process that owns the state is asked for a checkpoint and goes on at once; the rest is done here. A local log is
    copied too: a snapshot of it alone can be restored and continued. told(what, done, of): progress
    Raises StateError: no state, target exists, another snapshot is under way, the owner does not answer in time, no
    room; nothing is then left at target.
    """
    _check_state(directory)
    if target.exists() or target.is_symlink():
        raise StateError("TARGET", "must not exist yet", str(target), "name a new directory")
    partial = target.with_name(f"{target.name}.partial-{uuid.uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        with checkpoint_of(directory, timeout_s, told) as checkpoint:
            _move(checkpoint, partial / DIRECTORY)
        records = _copy_log(directory / LOG_NAME, partial / LOG_NAME)
        manifest = _manifest(partial, records, told)
        _write_durably(partial / FILE_NAME, encode_manifest(manifest))
        partial.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise StateError(
            "TARGET", f"must be a directory that can be made: {error.strerror}", str(error.filename or target),
            "check the permissions and the free space there",
        ) from None  # fmt: skip
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


@contextmanager
def checkpoint_of(directory: Path, timeout_s: float, told: Told) -> Iterator[Path]:
    """A checkpoint of the state in directory, which is gone when the block ends. Errors as in take_snapshot."""
    _check_state(directory)
    with _asking(directory) as folder:
        checkpoint = folder / uuid.uuid4().hex
        _checkpoint(directory, checkpoint, timeout_s, told)
        yield checkpoint


def _check_state(directory: Path) -> None:
    if not (directory / DIRECTORY / "CURRENT").exists():
        raise StateError("--state", "must hold a state", str(directory), "name the directory of index.directory")


@contextmanager
def _asking(directory: Path) -> Iterator[Path]:
    """Hold the asker's lock, with nothing left of those who asked before and were killed."""
    folder = directory / requests.FOLDER
    folder.mkdir(exist_ok=True)
    with (folder / requests.LOCK).open("a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                "--state", "must have one snapshot taken at a time, and another one is under way", str(directory),
                "wait until it is done",
            ) from None  # fmt: skip
        _clear(folder)
        try:
            yield folder
        finally:
            _clear(folder)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != requests.LOCK:
            path.unlink(missing_ok=True)


def _checkpoint(directory: Path, checkpoint: Path, timeout_s: float, told: Told) -> None:
    """By the owner where there is one; it may end, or another one begin, at any time."""
    folder, began = checkpoint.parent, time.monotonic()
    request, answer = folder / requests.REQUEST, folder / requests.ANSWER
    while time.monotonic() - began < timeout_s:
        if _without_owner(directory, checkpoint):
            return
        # Taken up by an owner that was killed over it, or not written yet: asked again, under the same name.
        if not request.exists() and not answer.exists():
            shutil.rmtree(checkpoint, ignore_errors=True)
            requests.write_whole(request, checkpoint.name)
        told("waiting for the process that works on the state, seconds", int(time.monotonic() - began), int(timeout_s))
        for _ in range(10):
            time.sleep(POLL_SECONDS)
            if answer.exists():
                name, _, trouble = answer.read_text("utf-8").partition(" ")
                answer.unlink()
                if name != checkpoint.name:
                    continue
                if trouble:
                    raise StateError("--state", f"could not be snapshot by its owner: {trouble}", str(directory))
                return
    raise StateError(
        "--state", f"must be answered for within {timeout_s:g} s by the process that works on it, and was not",
        str(directory), "ask as the user it runs as, wait until it judges pages again, give it longer with --timeout, "
        "or stop it and ask again",
    )  # fmt: skip


def _without_owner(directory: Path, checkpoint: Path) -> bool:
    """Take it ourselves where nobody owns the state; False where somebody does."""
    path = directory / DIRECTORY
    try:
        with locked(path):
            # What an owner began and was killed over.
            for left in checkpoint.parent.glob(f"{checkpoint.name}*"):
                shutil.rmtree(left, ignore_errors=True)
            options = database_options()
            options.create_if_missing(False)
            options.create_missing_column_families(False)
            with rocks_errors(directory, "open"):
                database = Rdict(str(path), options, column_families(None))
                try:
                    Checkpoint(database).create_checkpoint(str(checkpoint))
                finally:
                    database.close()
            return True
    except StateError as error:
        if "holds its lock" in error.rule:
            return False
        raise


def _move(checkpoint: Path, index: Path) -> None:
    try:
        checkpoint.rename(index)
    except OSError:  # another file system
        index.mkdir()
        for file in checkpoint.iterdir():
            shutil.copyfile(file, index / file.name)


def _copy_log(log: Path, copy: Path) -> int | None:
    """Copy the whole records of a local log; -> how many, None where there is no log. The owner may be appending."""
    if not log.exists():
        return None
    with log.open("rb") as source, copy.open("wb") as into:
        records, size = whole_frames(source)
        source.seek(0)
        left = size
        while left:
            block = source.read(min(left, 2**20))
            into.write(block)
            left -= len(block)
    return records


def _manifest(partial: Path, records: int | None, told: Told) -> Manifest:
    """Read what the checkpoint holds, and every byte of it."""
    facts = describe(partial)
    paths = sorted(path for path in partial.rglob("*") if path.is_file())
    total, done = sum(path.stat().st_size for path in paths), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        told("bytes read for the checksums", done, total)

    files = []
    for path in paths:
        with path.open("rb") as file:
            size, digest = digest_of(file, count)
            os.fsync(file.fileno())
        files.append(FileFacts(path.relative_to(partial).as_posix(), size, digest))
    sync_directory(partial / DIRECTORY)
    return Manifest(
        datetime.now(UTC).isoformat(timespec="seconds"),
        facts["format"],
        facts["log"],
        facts["log_position"],
        facts["entries"],
        facts["verdict_settings"],
        settings_digest(facts["verdict_settings"]).hex(),
        records,
        tuple(files),
    )


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Return once the names in it would survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
