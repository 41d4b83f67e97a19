"""Stores the progress, the counts and the differing verdicts of a migration, so that a killed one can continue.

    DIRECTORY/migration/journal.json        the run, next offsets in both logs, lengths of the other files, counts
    DIRECTORY/migration/differences.jsonl   a line for each page with differing verdicts
    DIRECTORY/migration/unsent.jsonl        pages that the old settings dropped and that are novel with the new ones
    DIRECTORY/migration/old/                the state of the old settings, until the migration ends

A line is written before the journal that counts it. After a kill, the files are cut to the lengths in the journal.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from spotsieve.state.directory import make_directory, open_file, write_atomically
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import SettingError, StateError, write_advice
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.local.input_ledger import as_json, difference

FOLDER = "migration"
OLD_FOLDER = "old"
DIFFERENCES_FILE = "differences.jsonl"
_UNSENT_FILE = "unsent.jsonl"
_JOURNAL_FILE = "journal.json"
_OF_RUN = {"old_log": "another old log", "input": "other input settings", "files": "other files in --from-pages"}


class Journal:
    """The files of one migration. Only one thread at a time may use it.

    record: old log offset of the next record to move  offset: new log offset of the next record to apply
    counts: number of pages, by the names in record_move.py
    """

    _run: dict[str, Any] | None

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

    def begin(self, old_log: int, pages: InputSettings | None, files: Sequence[Input] = ()) -> None:
        """Note what the result depends on, or check that an interrupted migration depended on the same.

        old_log: checksum of its first record  pages: how pages are read to be signed again; None: they are not
        files: files in which they are looked up
        Raises SettingError if something differs, StateError.
        """
        wanted = {
            "old_log": f"{old_log:016x}",
            "input": None if pages is None else as_json(pages),
            "files": [] if pages is None else [[file.source, file.size] for file in files],
        }
        if self._run is None:
            self._run = wanted
            try:
                self._save((0, 0))
            except OSError as error:
                raise _unusable(self.folder, error) from None
        for name, value in wanted.items():
            if self._run.get(name) != value:
                before = self._run.get(name)
                told = difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else ""
                raise SettingError(
                    "--state",
                    f"has a migration with {_OF_RUN[name]}{told}",
                    str(self.folder.parent),
                    "repeat that command, or restart with another log and another state directory",
                )

    @property
    def old_directory(self) -> Path:
        """The directory of the state with the old settings."""
        return self.folder / OLD_FOLDER

    @property
    def differences(self) -> Path:
        """The file with the differing verdicts."""
        return self.folder / DIFFERENCES_FILE

    def note(
        self,
        record: int,
        offset: int,
        counts: Counter[str],
        differences: Iterable[dict[str, object]],
        unsent: Iterable[ForgottenPage],
    ) -> None:
        """Add the results of one record of the old log. record, offset: the next offsets. Raises StateError."""
        self.counts += counts
        self.record, self.offset = record, offset
        try:
            self._differences.write(b"".join(orjson.dumps(line) + b"\n" for line in differences))
            self._unsent.write(b"".join(orjson.dumps(page) + b"\n" for page in map(list, unsent)))
            self._save((_size(self._differences), _size(self._unsent)))
        except OSError as error:
            raise _unusable(self.folder, error) from None

    def unsent(self) -> Iterator[ForgottenPage]:
        """The pages that the old settings dropped and the new state has indexed."""
        with (self.folder / _UNSENT_FILE).open("rb") as file:
            for line in file:
                number, source, partition, offset, keys, _ = orjson.loads(line)
                yield ForgottenPage(number, source, partition, offset, tuple(keys))

    def reset(self) -> None:
        """Start over, because one of the two states was lost."""
        self.record = self.offset = 0
        self.counts = Counter()
        self._save((0, 0))
        self._differences.truncate(0)
        self._unsent.truncate(0)

    def end(self) -> None:
        """Remove the state of the old settings after the migration."""
        shutil.rmtree(self.old_directory, ignore_errors=True)

    def close(self) -> None:
        """Close the files."""
        self._differences.close()
        self._unsent.close()

    def _load(self) -> None:
        path = self.folder / _JOURNAL_FILE
        try:
            fields = orjson.loads(path.read_bytes()) if path.exists() else {}
            self._run = fields.get("run")
            self.record, self.offset = fields.get("record", 0), fields.get("offset", 0)
            self.counts = Counter(fields.get("counts", {}))
            self._differences.truncate(fields.get("differences_bytes", 0))
            self._unsent.truncate(fields.get("unsent_bytes", 0))
        except (OSError, orjson.JSONDecodeError, AttributeError) as error:
            raise StateError(
                f"journal {path}",
                f"is not the JSON that spotsieve migrate writes ({error})",
                None,
                f"delete {self.folder} and run the command again: it compares the verdicts from the beginning",
            ) from None

    def _save(self, lengths: tuple[int, int]) -> None:
        fields = {
            "run": self._run,
            "record": self.record,
            "offset": self.offset,
            "differences_bytes": lengths[0],
            "unsent_bytes": lengths[1],
            "counts": self.counts,
        }
        write_atomically(self.folder / _JOURNAL_FILE, orjson.dumps(fields))


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _unusable(folder: Path, error: OSError) -> StateError:
    return StateError(
        f"journal {folder}",
        f"cannot be written: {error.strerror}",
        None,
        f"{write_advice(error)} and run the command again: it continues where it stopped",
    )
