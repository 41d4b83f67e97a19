"""Reads the rows of a Parquet file in bounded memory, row group by row group."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.file_format import FileRecord
from spotsieve.stream.files.inputs import Input, open_input_seeking
from spotsieve.stream.files.parquet.cells import json_of, row_bytes, rows_of
from spotsieve.stream.files.parquet.page_sizes import largest_of
from spotsieve.stream.files.parquet.sink import other_columns, plain_schema
from spotsieve.stream.files.records import Record, RowPlace, too_large

MOST_FOOTER_BYTES = 64 * 2**20
MOST_ROWS = 512
"""Rows of a batch, as many as the filter judges at once."""
_BATCH_BYTES = 64 * 2**20
"""A batch has so few rows that it stays below this if every value were as long as the longest page."""
_BUFFER_BYTES = 2**20
_MAGIC = b"PAR1"
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, MemoryError)


def read_rows(file: BinaryIO, name: str, body: str, max_record_bytes: int) -> Iterator[FileRecord]:
    """The rows of a file with what stands in their columns, in order.

    body: the column whose bytes stay bytes
    A row longer than max_record_bytes has the fault TOO_LARGE. Raises InputError where the file is damaged, after the
    rows before the damage.
    """
    try:
        table, repeated = open_table(file, name)
        schema, number = table.schema_arrow, 0
        has_views = plain_schema(schema) is not schema
        for group in range(table.metadata.num_row_groups):
            largest = largest_of(file, table.metadata.row_group(group), repeated, name)
            rows = max(1, min(MOST_ROWS, _BATCH_BYTES // max(largest.page, 1)))
            for batch in table.iter_batches(rows, row_groups=[group], use_threads=False):
                plain = batch.cast(plain_schema(batch.schema)) if has_views else batch
                yield from _records(plain, number, table.metadata, body, max_record_bytes)
                number += len(batch)
    except _ARROW_ERRORS as error:
        raise damage_error(name, error) from None


def open_table(file: BinaryIO, name: str) -> tuple[parquet.ParquetFile, frozenset[str]]:
    """The file, and the paths of its columns in lists and maps. Raises InputError, or what pyarrow raises.

    Text in lists is read as indices into a dictionary: one row may repeat a long value for ever, and its length is
    known before it is unfolded.
    """
    file.seek(max(0, file.seek(0, os.SEEK_END) - len(_MAGIC) - 4))
    tail = file.read(len(_MAGIC) + 4)
    size = int.from_bytes(tail[:4], "little")
    if not tail.endswith(_MAGIC) or size > MOST_FOOTER_BYTES:
        rule = f"it must end in {_MAGIC.decode()}, and its footer may have {MOST_FOOTER_BYTES:,} bytes"
        raise damage_error(name, ValueError(rule))
    file.seek(0)
    metadata = parquet.read_metadata(file)
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    repeated = frozenset(column.path for column in columns if column.max_repetition_level)
    lists = [column.path for column in columns if column.path in repeated and column.physical_type == "BYTE_ARRAY"]
    table = parquet.ParquetFile(
        file, metadata=metadata, read_dictionary=lists, pre_buffer=False, buffer_size=_BUFFER_BYTES
    )
    return table, repeated


def columns_of(inputs: Sequence[Input], out: str) -> RowPlace | None:
    """The columns of the Parquet files among the inputs, without rows; None where none is, or none can be read yet.

    Raises SettingError for files whose rows cannot stand in one output.
    """
    first = None
    for file in inputs:
        with contextlib.closing(open_input_seeking(file)) as source:
            found = _columns(source, file.source)
        if first is not None and found is not None and not found.batch.schema.equals(first.batch.schema):
            raise other_columns(out, found.batch.schema, first.batch.schema)
        first = first or found
    return first


def _columns(source: BinaryIO, name: str) -> RowPlace | None:
    """None for a file that is no whole Parquet: what is wrong with it is told when it is read."""
    try:
        table, _ = open_table(source, name)
        return RowPlace(plain_schema(table.schema_arrow).remove_metadata().empty_table(), 0, table.metadata)
    except (*_ARROW_ERRORS, InputError):
        return None


def damage_error(name: str, error: BaseException) -> InputError:
    """The error of a file that pyarrow cannot read on."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError(
        name,
        f"must be whole Parquet: {text}",
        None,
        "what came before was judged; get the file again, or write it anew",
    )


def _records(batch: pa.RecordBatch, first: int, table: Any, body: str, most: int) -> Iterator[FileRecord]:
    sizes = row_bytes(batch)
    fitting = [row for row, size in enumerate(sizes.tolist()) if size <= most]
    rows = iter(rows_of(batch if len(fitting) == len(batch) else batch.take(pa.array(fitting, pa.int32())), body))
    for row, size in enumerate(sizes.tolist()):
        if size > most:
            yield FileRecord(too_large(first + row, b"", size, most), {})
            continue
        fields = next(rows)
        yield FileRecord(Record(first + row, json_of(fields), None, RowPlace(batch, row, table)), fields)
