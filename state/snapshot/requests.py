"""Answers requests for a checkpoint, in the process that owns a state. Requests are files, read between two records.

    DIRECTORY/snapshot/lock        the one who asks locks it (flock) for as long as it waits
    DIRECTORY/snapshot/request     the name of the wanted checkpoint: 32 hex digits
    DIRECTORY/snapshot/NAME        the checkpoint: a RocksDB database, its table files hard links
    DIRECTORY/snapshot/answer      the name again; if something went wrong, a space and what it was

Why files, and not a socket or a port: whoever may write to the state directory may ask, over volumes and from other
containers too. The owner needs no thread for it. If one side is killed, the other notices by a lock that is free: the
asker's here, and the owner's in RocksDB.
"""

import fcntl
import os
import shutil
from pathlib import Path

from spotsieve.state.index import State
from spotsieve.state.private import open_file
from spotsieve.stream.errors import StateError

FOLDER, LOCK, REQUEST, ANSWER = "snapshot", "lock", "request", "answer"
NAME_DIGITS = 32


class Requests:
    """The owner's side. Call it between two records, in the thread that files them."""

    def __init__(self, directory: Path, state: State) -> None:
        self._folder = directory / FOLDER
        self._request = str(self._folder / REQUEST)
        self._state = state

    def waiting(self) -> bool:
        """Tell whether somebody asks, by one look at the directory."""
        return os.path.exists(self._request)  # noqa: PTH110 - between any two records: a third of what pathlib takes

    def answer(self) -> str | None:
        """Make the wanted checkpoint and return its name; None if nobody waits for it any more.

        If something goes wrong, the one who asks is told, and the owner goes on.
        """
        try:
            name = Path(self._request).read_text("ascii", "replace")
            if not _has_asker(self._folder) or not _is_name(name):
                Path(self._request).unlink()
                return None
            trouble = ""
            shutil.rmtree(self._folder / name, ignore_errors=True)  # left by an owner that was killed over it
            try:
                self._state.checkpoint(self._folder / name)
            except StateError as error:
                trouble = " " + " ".join(str(error).split())
            write_whole(self._folder / ANSWER, name + trouble)
            Path(self._request).unlink(missing_ok=True)
        except OSError:
            return None  # The asker took the request back, or cannot be answered; it sees that no answer comes.
        return name


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody sees it half written."""
    partial = path.with_name(path.name + ".partial")
    with open_file(partial, "wb") as file:
        file.write(text.encode())
    partial.replace(path)


def _is_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and all(digit in "0123456789abcdef" for digit in name)


def _has_asker(folder: Path) -> bool:
    with (folder / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
