"""A file system of a few kilobytes that a test can fill and empty again."""

import errno
import os
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.worlds.waiting import SECONDS, wait_until


class SmallDisk:
    """A tmpfs, mounted while the block runs. The test is skipped if mounting is not allowed."""

    def __init__(self, path: Path, kib: int = 64) -> None:
        self.path = path
        self._kib = kib

    def __enter__(self) -> Self:
        self.path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self._kib}k", "tmpfs", str(self.path)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"needs to mount a small file system: {done.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self.path], check=True)

    def resize(self, kib: int) -> None:
        """Set the size of the whole disk."""
        subprocess.run(["mount", "-o", f"remount,size={kib}k", self.path], check=True)

    def fill(self, room_kib: int) -> Path:
        """Write a file that leaves only this much room. Removing it frees the room again.

        Others may write at the same time: the next attempt accounts for their writes.
        """
        ballast = self.path / "ballast"
        with ballast.open("wb") as file:

            def is_filled() -> bool:
                free = os.statvfs(self.path)
                try:
                    os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - room_kib * 1024))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return False
                return True

            wait_until(is_filled, SECONDS, "a file that fills the disk")
        return ballast
