"""Keeps how far a migration has come, what it counted, and the verdicts that differ; after any kill it goes on there.

    DIRECTORY/migration/journal.json        the next records of both logs, the lengths of the other files, the counts
    DIRECTORY/migration/differences.jsonl   a line for each page whose verdicts differ
    DIRECTORY/migration/unsent.jsonl        pages that the old settings dropped and the new ones would have let through
    DIRECTORY/migration/old/                the state of the old settings, until the migration has ended

A line is written before the journal says so. What a kill leaves behind the lengths in the journal is cut off.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import orjson

from spotsieve.state.directory import make_directory, open_file
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import StateError

FOLDER = "migration"
OLD_FOLDER = "old"
DIFFERENCES_FILE = "differences.jsonl"
_UNSENT_FILE = "unsent.jsonl"
_JOURNAL_FILE = "journal.json"


class Journal:
    """The files of one migration. One thread at a time may use it; close() ends it.

    record: the offset in the old log of the next record to move  offset: in the new log, that of the next to apply
    counts: how often, by name
    """

    def __init__(self, directory: Path) -> None:
        """directory: of the new state. Raises StateError."""
        self.folder = directory / FOLDER
        self.record = self.offset = 0
        self.counts: Counter[str] = Counter()
        try:
            make_directory(directory)
            make_directory(self.folder)
            self._differences = open_file(self.folder / DIFFERENCES_FILE, "a+b", buffering=0)
            self._unsent = open_file(self.folder / _UNSENT_FILE, "a+b", buffering=0)
        except OSError as error:
            raise _unusable(self.folder, error) from None
        self._load()

    @property
    def old_directory(self) -> Path:
        """Where the state of the old settings lies."""
        return self.folder / OLD_FOLDER

    @property
    def differences(self) -> Path:
        """The file of verdicts that differ."""
        return self.folder / DIFFERENCES_FILE

    def note(
        self,
        record: int,
        offset: int,
        counts: Counter[str],
        differences: Iterable[dict[str, object]],
        unsent: Iterable[ForgottenPage],
    ) -> None:
        """Note what one record of the old log came to. record, offset: the next ones. Raises StateError."""
        self.counts += counts
        self.record, self.offset = record, offset
        try:
            self._differences.write(b"".join(orjson.dumps(line) + b"\n" for line in differences))
            self._unsent.write(b"".join(orjson.dumps(page) + b"\n" for page in map(list, unsent)))
            self._save((_size(self._differences), _size(self._unsent)))
        except OSError as error:
            raise _unusable(self.folder, error) from None

    def unsent(self) -> Iterator[ForgottenPage]:
        """The pages that the old settings dropped, and the new state has filed."""
        with (self.folder / _UNSENT_FILE).open("rb") as file:
            for line in file:
                number, source, partition, offset, keys, _ = orjson.loads(line)
                yield ForgottenPage(number, source, partition, offset, tuple(keys))

    def reset(self) -> None:
        """Begin anew: one of the states that the journal goes with is gone."""
        self.record = self.offset = 0
        self.counts = Counter()
        self._save((0, 0))
        self._differences.truncate(0)
        self._unsent.truncate(0)

    def end(self) -> None:
        """Remove the state of the old settings: nothing is compared any more."""
        shutil.rmtree(self.old_directory, ignore_errors=True)

    def close(self) -> None:
        """Close the files."""
        self._differences.close()
        self._unsent.close()

    def _load(self) -> None:
        path = self.folder / _JOURNAL_FILE
        try:
            known = orjson.loads(path.read_bytes()) if path.exists() else {}
            self.record, self.offset = known.get("record", 0), known.get("offset", 0)
            self.counts = Counter(known.get("counts", {}))
            self._differences.truncate(known.get("differences_bytes", 0))
            self._unsent.truncate(known.get("unsent_bytes", 0))
        except (OSError, orjson.JSONDecodeError, AttributeError) as error:
            raise StateError(
                f"journal {path}",
                f"must be the JSON that spotsieve migrate wrote ({error})",
                None,
                f"delete {self.folder} and start again: the verdicts are then compared from the beginning",
            ) from None

    def _save(self, lengths: tuple[int, int]) -> None:
        partial = self.folder / f"{_JOURNAL_FILE}.partial"
        known = {
            "record": self.record,
            "offset": self.offset,
            "differences_bytes": lengths[0],
            "unsent_bytes": lengths[1],
            "counts": self.counts,
        }
        with open_file(partial, "wb") as file:
            file.write(orjson.dumps(known))
        partial.replace(self.folder / _JOURNAL_FILE)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _unusable(folder: Path, error: OSError) -> StateError:
    return StateError(
        f"journal {folder}",
        f"must be a directory that can be written: {error.strerror}",
        None,
        "free disk space, and start again: it goes on where it was",
    )
