"""Opens the outputs of a run together, and completes them together."""

import contextlib
from typing import Self

from spotsieve.stream.errors import SettingError
from spotsieve.stream.files.writer import OutputFile


class Outputs:
    """The four outputs of a run, each of which may be None. A context: without complete() the files stay partial."""

    def __init__(self, wanted: dict[str, OutputFile | None]) -> None:
        self.out, self.duplicates = wanted["out"], wanted["duplicates"]
        self.verdicts, self.rejected = wanted["verdicts"], wanted["rejected"]
        self._open = [output for output in wanted.values() if output is not None]

    @classmethod
    def open(cls, out: str | None, duplicates: str | None, verdicts: str | None, rejected: str | None) -> Self:
        """Open the outputs that have a name. Raises SettingError if one cannot be written."""
        names = {"out": out, "duplicates": duplicates, "verdicts": verdicts, "rejected": rejected}
        wanted: dict[str, OutputFile | None] = {}
        try:
            for flag, name in names.items():
                wanted[flag] = OutputFile(name, lines_only=flag != "out") if name else None
        except SettingError:
            for output in wanted.values():
                if output is not None:
                    output.discard()
            raise
        return cls(wanted)

    def flush(self) -> None:
        """Call it after a micro-batch, so that the reader of a pipe or of NAME.partial sees its pages."""
        for output in self._open:
            output.flush()

    def complete(self) -> None:
        """All pages are judged: every output gets its name."""
        while self._open:
            self._open.pop().complete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            with contextlib.suppress(BrokenPipeError):
                self._open.pop().abandon()
