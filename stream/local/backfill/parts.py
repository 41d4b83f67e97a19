"""Names the parts of a backfill's outputs, one for each input, and writes verdicts as Parquet.

    DIR/00003-NAME    NAME as of the fourth input, whose format its records keep; NAME.parquet of verdicts, NAME.jsonl
                      of what was rejected

Rows of verdicts have the fields of the lines of `filter --verdicts` (stream/files/verdict_lines.py) as columns.
"""

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.files.compression import COMPRESSORS
from spotsieve.stream.files.formats import FORMATS, UNWRITTEN_ENDINGS
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.remote import shown_url
from spotsieve.stream.files.targets import target_of, write_error
from spotsieve.stream.files.verdict_lines import verdict_fields

_COLUMNS = (
    "id",
    "verdict",
    "duplicate_of",
    "score",
    "scheme",
    "reason",
    "url",
    "original_url",
    "replaces",
    "replaced_url",
)
_GROUP_ROWS = 50_000
_WRITTEN_ENDINGS = {
    ending: one.written_as.endings[0] for one in FORMATS if one.written_as != one for ending in one.endings
}
"""The ending of a format that is not written, and that of the format in which its records are written."""


class Parts(NamedTuple):
    """The outputs of one input, by name; None where an output is not wanted."""

    out: str | None
    verdicts: str | None
    rejected: str | None


def parts_of(number: int, file: Input, out: str | None, verdicts: str | None, rejected: str | None) -> Parts:
    """The parts of an input. number: its place among the inputs  out, verdicts, rejected: directories or URLs"""
    name = PurePosixPath(file.source).name or "pages"
    stem = f"{number:05}-{name.split('.', 1)[0] or 'pages'}"
    return Parts(
        out and _within(out, f"{number:05}-{_written_as(name)}"),
        verdicts and _within(verdicts, f"{stem}.parquet"),
        rejected and _within(rejected, f"{stem}.jsonl"),
    )


def _written_as(name: str) -> str:
    path = PurePosixPath(name)
    packed = path.suffix if path.suffix.lower() in COMPRESSORS else ""
    inner = PurePosixPath(name.removesuffix(packed))
    instead = _WRITTEN_ENDINGS.get(inner.suffix.lower())
    if instead is not None:
        return f"{inner.stem}{instead}{packed or '.gz'}"
    # An output may not end as a file of another format does, such as lines of JSON in .csv.
    endings = inner.suffixes[-1:] if packed else inner.suffixes[-2:]
    kept = [ending for ending in endings if ending.lower() not in UNWRITTEN_ENDINGS]
    return inner.name.removesuffix("".join(endings)) + "".join(kept) + packed


def _within(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{escape_control_characters(name)}"


def check_pyarrow() -> None:
    """Raises SettingError where verdicts cannot be written as Parquet."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("--verdicts", "is Parquet, which pyarrow writes", None, "pip install 'spotsieve[parquet]'")


class VerdictRows:
    """A file of verdicts. It has its name only when it is complete."""

    def __init__(self, name: str, scheme: str) -> None:
        """scheme: its name  Raises SettingError if the file cannot be written."""
        import pyarrow as pa
        from pyarrow import parquet

        self._scheme = scheme
        text = pa.string()
        self._schema = pa.schema([(column, pa.float64() if column == "score" else text) for column in _COLUMNS])
        self._name, self._target = name, target_of(name, None)
        self._writer: Any = parquet.ParquetWriter(self._target.file, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def write(self, pages: Sequence[Page], verdicts: Verdicts) -> None:
        """Take the verdicts of these pages. Raises StateError where the disk is full."""
        self._rows += [verdict_fields(page, verdicts, row, self._scheme) for row, page in enumerate(pages)]
        if len(self._rows) >= _GROUP_ROWS:
            with self._told():
                self._write_group()

    def complete(self) -> None:
        """Close the file, and give it its name. Raises StateError."""
        with self._told():
            if self._rows:
                self._write_group()
            self._writer.close()
            self._target.close()
            self._target.finish()

    def abandon(self) -> None:
        """Leave it as it is, without its name. Raises StateError."""
        with self._told():
            self._writer.close()
            self._target.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(shown_url(self._name), error, self._target) from None

    def _write_group(self) -> None:
        import pyarrow as pa

        columns = [[row.get(column) for row in self._rows] for column in _COLUMNS]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []
