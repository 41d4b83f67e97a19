"""Defines the Parquet format. The optional pyarrow is imported only when a file is read or written."""

import dataclasses
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.compression import CompressedStream
from spotsieve.stream.files.file_format import (
    FileContent,
    FileFormat,
    FileRecord,
    FormatWriter,
    Intake,
    Record,
    check_installed,
    field_exists,
)
from spotsieve.stream.files.inputs import Input


class Parquet(FileFormat):
    """The Parquet format: rows with columns. It has its own compression, and reading starts at the end of the file."""

    name = "Parquet"
    content = "rows of Parquet"
    endings = (".parquet",)
    fields_label = "rows with the columns"
    compressible = False

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file begins with Parquet's magic bytes."""
        return beginning.startswith(b"PAR1")

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The rows of the file, with their fields."""
        check_installed(content.name, self.name, "pyarrow", "parquet")
        from spotsieve.stream.files.parquet.rows import read_rows

        file = content.open_seeking(self.name)
        return read_rows(file, content.name, content.body_field, content.max_record_bytes)

    def decode(self, file_record: FileRecord, intake: Intake) -> Page:
        """The page in the columns of the row."""
        return intake.page_of_fields(file_record)

    def writer(self, stream: CompressedStream) -> FormatWriter:
        """A writer that collects rows into row groups."""
        from spotsieve.stream.files.parquet.rows import ParquetSink

        return ParquetSink(stream.file, stream.name)

    @property
    def has_fields(self) -> bool:
        """True: a row has columns."""
        return True

    def with_fields(self, record: Record, fields: Mapping[str, str | None]) -> Record:
        """The row with more columns of text."""
        return dataclasses.replace(record, added=fields)

    def check_new_fields(self, record: Record, names: Iterable[str]) -> None:
        """Check that the file has no column of these names. Raises SettingError."""
        for name in names:
            if record.place is not None and name in record.place.batch.schema.names:
                raise field_exists(name, "the file")

    def check_writable(self, name: str) -> None:
        """Check that pyarrow is installed. Raises SettingError."""
        if importlib.util.find_spec("pyarrow") is None:
            rule = "is Parquet, and the package pyarrow, which writes it, is not installed"
            raise SettingError(name, rule, None, "pip install 'spotsieve[parquet]'")

    def find_form(self, inputs: Sequence[Input], out: str) -> Record | None:
        """A record with the columns of the inputs whose names end in .parquet; None without such inputs.

        With it an output without rows has the columns of its inputs.
        """
        named = [file for file in inputs if not file.is_stdin and Path(file.source).suffix.lower() in self.endings]
        if not named or importlib.util.find_spec("pyarrow") is None:
            return None
        from spotsieve.stream.files.parquet.rows import columns_of

        columns = columns_of(named, out)
        return None if columns is None else Record(0, b"", None, columns)


PARQUET = Parquet()
