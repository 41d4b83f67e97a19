"""Requests checkpoints from the process that owns a state, and responds to such requests.

Without an owner the requester makes the checkpoint. Requests are files. The owner looks for them between two records.

    DIRECTORY/snapshot/lock        the requester holds this lock (flock) for as long as it waits
    DIRECTORY/snapshot/request     the name of the requested checkpoint: 32 hex digits; for a checkpoint after an
                                   outcome also a space and an offset in the topic of verdicts
    DIRECTORY/snapshot/NAME        the checkpoint: a RocksDB database, its table files hard links
    DIRECTORY/snapshot/answer      the response: the name again; after a failure also a space and the error

Files instead of a socket or a port: every user who may write to the state directory may request a checkpoint, also over
volumes and from other containers, and the owner needs no thread. If one side is killed, the other notices a free lock:
the lock of the requester here, and the lock of the owner in RocksDB.

A request after an outcome waits until a shard has indexed the first outcome from that offset on. All shards index the
same outcomes, so checkpoints that are requested with one offset are of one place in the log, although no shard waits
for another.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rocksdict import Checkpoint, Rdict

from spotsieve.state.directory import (
    INDEX_FOLDER,
    check_no_snapshot,
    close_files,
    has_index,
    make_directory,
    open_file,
    write_atomically,
)
from spotsieve.state.store.opening import refuse_other_format
from spotsieve.state.store.rocks_errors import locked, rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError, StateLockedError
from spotsieve.stream.base.progress import OnProgress

FOLDER, LOCK, REQUEST, ANSWER = "snapshot", "lock", "request", "answer"
NAME_DIGITS = 32


class Requests:
    """The owner's side of requests. Call it between two records, in the thread that applies records."""

    def __init__(self, directory: Path, state: State) -> None:
        self._folder = directory / FOLDER
        self._request = str(self._folder / REQUEST)
        self._state = state

    def waiting(self) -> bool:
        """Whether a request is waiting, by one look at the directory."""
        return os.path.exists(self._request)  # noqa: PTH110 - between any two records: a third of what pathlib takes

    def answer(self, before: int | None = None) -> str | None:
        """Make the requested checkpoint and return its name; None if it is not due, or if no requester waits for it.

        before: directly after an outcome was indexed, the offset of the outcome before it (NO_OUTCOME for the first)
        After a failure the response holds the error, and the owner continues.
        """
        try:
            name, _, outcome = Path(self._request).read_text("ascii", "replace").partition(" ")
            if not _has_requester(self._folder) or not _is_name(name) or not (outcome or "0").isdecimal():
                Path(self._request).unlink()
                return None
            failure = self._failure(int(outcome), before) if outcome else ""
            if failure is None:
                return None
            shutil.rmtree(self._folder / name, ignore_errors=True)  # left by a killed owner
            try:
                if not failure:
                    self._state.checkpoint(self._folder / name)
            except StateError as error:
                failure = " ".join(str(error).split())
            write_atomically(self._folder / ANSWER, (f"{name} {failure}" if failure else name).encode())
            Path(self._request).unlink(missing_ok=True)
        except OSError:
            return None  # The requester has gone, or no response can be written: the requester times out.
        return name

    def _failure(self, wanted: int, before: int | None) -> str | None:
        """Why there is no checkpoint after the first outcome from `wanted` on; "" if it is due now, None: it is not."""
        now = outcome_of(self._state)
        if before is not None and is_due(wanted, before, now):
            return ""
        if now < wanted:
            return None
        return f"this shard has indexed outcome {now} already: name a later one to all shards"


NO_OUTCOME = -1
"""Stands for the outcome of a shard that has indexed none."""


def outcome_of(state: State) -> int:
    """The offset of the last outcome that a shard has indexed, or NO_OUTCOME."""
    return NO_OUTCOME if state.last_outcome is None else state.last_outcome.offset


def is_due(wanted: int, before: int, now: int) -> bool:
    """Whether outcome `now`, which follows outcome `before`, is the first one from offset `wanted` on."""
    return before < wanted <= now


def _is_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and all(digit in "0123456789abcdef" for digit in name)


def _has_requester(folder: Path) -> bool:
    with (folder / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


POLL_SECONDS = 0.05


@contextmanager
def checkpoint_of(
    directory: Path, timeout_s: float, on_progress: OnProgress, after_outcome: int | None = None
) -> Iterator[Path]:
    """Yield a checkpoint of the state in a directory, and remove it at the end.

    timeout_s: how long to wait for other requesters and for the owner
    after_outcome: the shard makes it after the first outcome from this offset on; None: as soon as possible
    Raises StateError if there is no state, or a snapshot in its place, if another request stays open, or the owner does
    not respond for this time.
    """
    check_holds_state(directory)
    began = time.monotonic()
    with _request_lock(directory, began, timeout_s, on_progress) as folder:
        checkpoint = folder / uuid.uuid4().hex
        _checkpoint(directory, checkpoint, began, timeout_s, on_progress, after_outcome)
        yield checkpoint


def check_holds_state(directory: Path) -> None:
    """Check that the directory holds a state and is no snapshot, which a checkpoint would change. Raises StateError."""
    check_no_snapshot("--state", directory)
    if not has_index(directory / INDEX_FOLDER):
        raise StateError("--state", "must hold a state", str(directory), "name the directory of index.directory")


@contextmanager
def _request_lock(directory: Path, began: float, timeout_s: float, on_progress: OnProgress) -> Iterator[Path]:
    """Hold the lock of the requester, and remove the files that killed requesters left.

    Waits while another requester holds it, until timeout_s after `began`, a time of the monotonic clock.
    """
    folder = directory / FOLDER
    make_directory(folder)
    with open_file(folder / LOCK, "a+b") as lock:
        while not _is_locked_here(lock):
            waited = time.monotonic() - began
            if waited >= timeout_s:
                raise StateError(
                    "--state",
                    f"must have one checkpoint made at a time, and another one is under way for {timeout_s:g} s",
                    str(directory),
                    "wait until the other command is done, or give it longer with --timeout",
                )
            on_progress("waiting for another command that reads the state, seconds", int(waited), int(timeout_s))
            time.sleep(POLL_SECONDS)
        _clear(folder)
        try:
            yield folder
        finally:
            _clear(folder)


def _is_locked_here(lock: BinaryIO) -> bool:
    """Whether this process got the lock of the requester."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK:
            path.unlink(missing_ok=True)


def _checkpoint(
    directory: Path,
    checkpoint: Path,
    began: float,
    timeout_s: float,
    on_progress: OnProgress,
    after_outcome: int | None,
) -> None:
    """Request the checkpoint, or make it here without an owner. An owner may start or stop at any time."""
    wanted = checkpoint.name if after_outcome is None else f"{checkpoint.name} {after_outcome}"
    folder = checkpoint.parent
    request, response = folder / REQUEST, folder / ANSWER
    # Only a running shard reaches an outcome.
    may_make = after_outcome is None
    if may_make and _checkpoint_without_owner(directory, checkpoint):
        return
    while time.monotonic() - began < timeout_s:
        # An owner was killed during the checkpoint, or no request exists yet: request under the same name.
        if not request.exists() and not response.exists():
            shutil.rmtree(checkpoint, ignore_errors=True)
            write_atomically(request, wanted.encode())
        waited = int(time.monotonic() - began)
        on_progress("waiting for the process that works on the state, seconds", waited, int(timeout_s))
        for _ in range(10):
            time.sleep(POLL_SECONDS)
            if _is_response_good(response, checkpoint, directory):
                return
        if may_make and _checkpoint_without_owner(directory, checkpoint):
            return
    if after_outcome is not None:
        raise StateError(
            "--after-outcome",
            f"must be reached by the shard of {directory} within {timeout_s:g} s, and was not",
            after_outcome,
            "start the shard if it does not run, or give it longer with --timeout. If no pages come, wait until no "
            "round is open (spotsieve shards status), and take the snapshots of all shards without --after-outcome",
        )
    raise StateError(
        "--state",
        f"must get a checkpoint within {timeout_s:g} s from the process that owns it, and got none",
        str(directory),
        "run this as the user of that process, wait until it judges pages again, give it longer with --timeout, "
        "or stop it and try again",
    )


def _is_response_good(response: Path, checkpoint: Path, directory: Path) -> bool:
    """Whether the owner has made this checkpoint. Raises StateError if it failed."""
    if not response.exists():
        return False
    name, _, failure = response.read_text("utf-8").partition(" ")
    response.unlink()
    if name != checkpoint.name:
        return False
    if failure:
        raise StateError("--state", f"could not be snapshot by its owner: {failure}", str(directory))
    return True


def _checkpoint_without_owner(directory: Path, checkpoint: Path) -> bool:
    """Make the checkpoint here if no process owns the state. Return False if one does."""
    path = directory / INDEX_FOLDER
    try:
        with locked(path):
            # An owner may have been killed during this checkpoint.
            for left in checkpoint.parent.glob(f"{checkpoint.name}*"):
                shutil.rmtree(left, ignore_errors=True)
            refuse_other_format(directory, path)
            options = database_options()
            options.create_if_missing(False)
            options.create_missing_column_families(False)
            with rocks_errors(directory, "open"):
                database = Rdict(str(path), options, column_families(None))
                try:
                    Checkpoint(database).create_checkpoint(str(checkpoint))
                finally:
                    database.close()
                    close_files(path)
    except StateLockedError:
        return False
    return True
