"""Reads and writes the rows of Parquet files in bounded memory, one row group at a time.

An output has all columns of its inputs, with the same schema and metadata. Types change only in their representation:
dictionary indices are widened for rows of several row groups, and views become plain text or bytes, because pyarrow
cannot take rows of views.
"""

import base64
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.files.file_format import FileRecord, FormatWriter, Record, RowPlace, too_large
from spotsieve.stream.files.inputs import Input, open_input_seeking
from spotsieve.stream.files.parquet.cells import json_of, row_bytes, rows_of
from spotsieve.stream.files.parquet.page_sizes import largest_of

GROUP_BYTES = 64 * 2**20
"""Bytes of rows after which the writer ends a row group."""
GROUP_ROWS = 100_000
MOST_FOOTER_BYTES = 64 * 2**20
MOST_ROWS = 512
"""Rows of a batch that is read; the filter judges as many pages at once."""
_BATCH_BYTES = 64 * 2**20
"""A batch stays below this size even if every value is as long as the longest page."""
_BUFFER_BYTES = 2**20
_MAGIC = b"PAR1"
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, MemoryError)
_ARROW_SCHEMA = b"ARROW:schema"
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "LZ4": "lz4", "ZSTD": "zstd"}


class ParquetSink(FormatWriter):
    """Collects rows, and writes them as row groups of about GROUP_BYTES."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """name: the name of the output, for errors"""
        self._file = file
        self._name = name
        self._writer: parquet.ParquetWriter | None = None
        self._schema = pa.schema([])
        self._batch: pa.RecordBatch | None = None
        self._rows: list[int] = []
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def know(self, record: Record) -> None:
        """Take the schema from a row without writing it. Raises SettingError if it differs from an earlier schema."""
        place = _place_of(record)
        schema = place.batch.schema.remove_metadata()
        if self._writer is None:
            # pyarrow would store the types that it read, with text in lists as dictionaries. The metadata of the input
            # has the types that the input was written with.
            codec = _codec_of(place.table)
            self._writer = parquet.ParquetWriter(self._file, schema, compression=codec, store_schema=False)
            self._writer.add_key_value_metadata(wide_metadata(place.table.metadata))
            self._schema = schema
        elif schema is not self._schema and not schema.equals(self._schema):
            raise other_columns(self._name, schema, self._schema)

    def write(self, record: Record) -> None:
        """Write one row."""
        place = _place_of(record)
        if self._batch is not place.batch:
            self._flush_batch()
            self.know(record)
            self._batch = place.batch
        self._rows.append(place.row)

    def finish(self) -> None:
        """Write the buffered rows and the footer. A file without rows gets the columns of the known schema, if any."""
        self._flush_batch()
        self._write_group()
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, self._schema)
        self._writer.close()

    def _flush_batch(self) -> None:
        """Copy the written rows out of the batch, so that the memory of the batch can be freed."""
        if self._batch is not None and self._rows:
            rows = self._batch.take(pa.array(self._rows, pa.int32()))
            self._waiting.append(rows)
            self._bytes += rows.nbytes
        self._batch, self._rows = None, []
        if self._bytes >= GROUP_BYTES or sum(map(len, self._waiting)) >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._bytes = [], 0


def _place_of(record: Record) -> RowPlace:
    assert record.place is not None, "a record of Parquet is a row"
    return record.place


def _codec_of(table: Any) -> str:
    """The compression of the first column of a file (pyarrow's FileMetaData), by pyarrow's name for writing."""
    codec = table.row_group(0).column(0).compression if table.num_row_groups and table.num_columns else ""
    return _CODECS.get(codec, "zstd")


def other_columns(name: str, schema: Any, before: Any) -> SettingError:
    """The SettingError for files whose rows cannot be part of one output. schema, before: their pyarrow.Schema"""
    differing = [str(field.name) for field in schema if field not in list(before)]
    differing += [str(field.name) for field in before if field.name not in schema.names]
    columns = ", ".join(differing[:8]) or "the order of columns"
    rule = f"cannot contain rows of two schemas, and the files differ in {columns}"
    return SettingError(name, rule, None, "filter the files of each schema in a separate run, with the same --state")


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type with plain text and bytes in place of views."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return _with_children(kind, _without_views)


def _with_wide_indices(kind: pa.DataType) -> pa.DataType:
    """The type with dictionary indices of at least 32 bits: several row groups may need more bits than one."""
    if pa.types.is_dictionary(kind):
        index = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, _with_wide_indices(kind.value_type), kind.ordered)
    return _with_children(kind, _with_wide_indices)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without views; the same object if it has none."""
    return _rewritten(schema, _without_views)


def wide_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The key-value metadata of a file, changed for an output with rows of several row groups.

    The types that the file was written with (ARROW:schema) get wide indices. Raises pyarrow.ArrowException, ValueError.
    """
    widened = dict(metadata or {})
    if _ARROW_SCHEMA in widened:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(widened[_ARROW_SCHEMA])))
        wide = _rewritten(schema, _with_wide_indices)
        if wide is not schema:
            widened[_ARROW_SCHEMA] = base64.b64encode(wide.serialize().to_pybytes())
    return widened


def _rewritten(schema: pa.Schema, rewrite: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    rewritten = pa.schema([field.with_type(rewrite(field.type)) for field in schema], schema.metadata)
    return schema if rewritten.equals(schema) else rewritten


def _with_children(kind: pa.DataType, rewrite: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    def child(field: pa.Field) -> pa.Field:
        return field.with_type(rewrite(field.type))

    if pa.types.is_struct(kind):
        return pa.struct([child(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(child(kind.key_field), child(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(child(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(child(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(child(kind.value_field))
    return kind


def read_rows(file: BinaryIO, name: str, body: str, max_record_bytes: int) -> Iterator[FileRecord]:
    """The rows of a file with their fields, in order.

    body: the column whose bytes are not decoded
    A row longer than max_record_bytes gets the fault TOO_LARGE. Raises InputError for damage, after the rows before it.
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
    """The opened file, and the paths of its columns in lists and maps. Raises InputError and pyarrow's exceptions.

    Text in lists is read as indices into a dictionary: one row may repeat a long value without limit, and with a
    dictionary its size is known before it is expanded.
    """
    file.seek(max(0, file.seek(0, os.SEEK_END) - len(_MAGIC) - 4))
    tail = file.read(len(_MAGIC) + 4)
    size = int.from_bytes(tail[:4], "little")
    if not tail.endswith(_MAGIC) or size > MOST_FOOTER_BYTES:
        rule = f"it must end in {_MAGIC.decode()}, and its footer must have at most {MOST_FOOTER_BYTES:,} bytes"
        raise damage_error(name, ValueError(rule))
    file.seek(0)
    metadata = parquet.read_metadata(file)
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    repeated = frozenset(column.path for column in columns if column.max_repetition_level)
    lists = [column.path for column in columns if column.path in repeated and column.physical_type == "BYTE_ARRAY"]
    table = parquet.ParquetFile(
        file, metadata=metadata, read_dictionary=lists, pre_buffer=False, buffer_size=_BUFFER_BYTES
    )
    names = table.schema_arrow.names
    twice = next((column for column in names if names.count(column) > 1), None)
    if twice is not None:
        rule = f"must have one column of each name, and has {names.count(twice)} of the name {twice}"
        raise InputError(name, rule, None, "rename or remove all but one of them")
    return table, repeated


def columns_of(inputs: Sequence[Input], out: str) -> RowPlace | None:
    """The columns of the Parquet inputs, as a place without rows; None if no input is readable Parquet.

    out: the name of the output
    Raises SettingError for files whose rows cannot be part of one output.
    """
    first = None
    for file in inputs:
        with contextlib.closing(open_input_seeking(file)) as source:
            columns = _columns(source, file.source)
        if first is not None and columns is not None and not columns.batch.schema.equals(first.batch.schema):
            raise other_columns(out, columns.batch.schema, first.batch.schema)
        first = first or columns
    return first


def _columns(source: BinaryIO, name: str) -> RowPlace | None:
    """The columns of a file; None for damaged Parquet, which is reported when the file is read."""
    try:
        table, _ = open_table(source, name)
        return RowPlace(plain_schema(table.schema_arrow).remove_metadata().empty_table(), 0, table.metadata)
    except (*_ARROW_ERRORS, InputError):
        return None


def damage_error(name: str, error: BaseException) -> InputError:
    """The InputError for a file that pyarrow cannot read."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError(
        name,
        f"is damaged Parquet: {text}",
        None,
        "the rows before the damage were judged; get the file again, or write it again",
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
