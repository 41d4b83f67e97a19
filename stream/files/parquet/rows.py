"""Reads and writes the rows of Parquet files in bounded memory, one row group at a time.

An output has all columns of its inputs, with the same schema and metadata. Types change only in their representation:
dictionary indices are widened for rows of several row groups, and views become plain text or bytes, because pyarrow
cannot take rows of views.
"""

import base64
import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pybase64
from numpy.typing import NDArray
from pyarrow import parquet

from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.files.file_format import FileRecord, FormatWriter, Record, RowPlace, too_large
from spotsieve.stream.files.inputs import Input, open_input_seeking
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
        self._added: list[Mapping[str, str | None]] = []
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def know(self, record: Record) -> None:
        """Take the schema from a row without writing it. Raises SettingError if it differs from an earlier schema."""
        place = _place_of(record)
        schema = with_text_columns(place.batch.schema.remove_metadata(), record.added or ())
        if self._writer is None:
            # pyarrow would store the types that it read, with text in lists as dictionaries. The metadata of the input
            # has the types that the input was written with.
            codec = _codec_of(place.metadata)
            self._writer = parquet.ParquetWriter(self._file, schema, compression=codec, store_schema=False)
            self._writer.add_key_value_metadata(wide_metadata(place.metadata.metadata, record.added or ()))
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
        if record.added is not None:
            self._added.append(record.added)

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
            for name in self._added[0] if self._added else ():
                column = pa.array([fields[name] for fields in self._added], pa.large_string())
                rows = rows.append_column(name, column)
            self._waiting.append(rows)
            self._bytes += rows.nbytes
        self._batch, self._rows, self._added = None, [], []
        if self._bytes >= GROUP_BYTES or sum(map(len, self._waiting)) >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._bytes = [], 0


def _place_of(record: Record) -> RowPlace:
    assert record.place is not None, "a record of Parquet is a row"
    return record.place


def _codec_of(metadata: Any) -> str:
    """The compression of the first column of a file (pyarrow's FileMetaData), by pyarrow's name for writing."""
    codec = metadata.row_group(0).column(0).compression if metadata.num_row_groups and metadata.num_columns else ""
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


def with_text_columns(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The schema with more columns of text, which may be null; the same object without such columns."""
    for name in names:
        schema = schema.append(pa.field(name, pa.large_string()))
    return schema


def wide_metadata(metadata: Mapping[bytes, bytes] | None, added: Collection[str] = ()) -> dict[bytes, bytes]:
    """The key-value metadata of a file, changed for an output with rows of several row groups.

    The types that the file was written with (ARROW:schema) get wide indices, and more columns of text.
    added: the names of these columns
    Raises pyarrow.ArrowException, ValueError.
    """
    widened = dict(metadata or {})
    if _ARROW_SCHEMA in widened:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(widened[_ARROW_SCHEMA])))
        wide = with_text_columns(_rewritten(schema, _with_wide_indices), added)
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
        "the rows before the damage were read; get the file again, or write it again, and repeat the command",
    )


def _records(batch: pa.RecordBatch, first: int, metadata: Any, body: str, most: int) -> Iterator[FileRecord]:
    sizes = row_bytes(batch)
    fitting = [row for row, size in enumerate(sizes.tolist()) if size <= most]
    rows = iter(rows_of(batch if len(fitting) == len(batch) else batch.take(pa.array(fitting, pa.int32())), body))
    for row, size in enumerate(sizes.tolist()):
        if size > most:
            yield FileRecord(too_large(first + row, b"", size, most), {})
            continue
        fields = next(rows)
        yield FileRecord(Record(first + row, json_of(fields), None, RowPlace(batch, row, metadata)), fields)


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The bytes of each row: int64[n]. A dictionary value counts in full in every row that refers to it."""
    total = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        total += _cell_bytes(column)
    return total


def rows_of(batch: pa.RecordBatch, body: str) -> list[dict[str, Any]]:
    """Each row as a dict by column names. Times become ISO 8601, bytes become text, except the bytes of the body.

    body: the column whose bytes are not decoded, because their character set is detected later; dots lead into structs
    """
    names = batch.schema.names
    columns = [_values(column, _below(name, body)) for name, column in zip(names, batch.columns, strict=True)]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def json_of(row: dict[str, Any]) -> bytes:
    """A row as a JSON object, for its digest and for people."""
    return orjson.dumps(row, default=_json_default, option=orjson.OPT_NON_STR_KEYS)


def _cell_bytes(array: pa.Array) -> Any:
    """The bytes of each cell of a column, or of each element of a list: int64[n]."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        sizes = np.append(_cell_bytes(array.dictionary), 0)  # The extra last entry is for missing values.
        return sizes[array.indices.fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)]
    if any(is_kind(kind) for is_kind in _WITH_LENGTH):
        return pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_struct(kind):
        return sum((_cell_bytes(child) for child in array.flatten()), np.zeros(len(array), np.int64))
    if any(is_kind(kind) for is_kind in _LISTS):
        starts = _offsets(array)
        elements = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
        inside = [_cell_bytes(part.slice(starts[0], starts[-1] - starts[0])) for part in elements]
        sums = bounds_of(sum(inside[1:], inside[0] + 8))
        return np.diff(sums[starts - starts[0]])
    return np.full(len(array), 8, np.int64)


def _offsets(array: pa.Array) -> Any:
    """The bounds of the lists of n rows among all elements: int64[n + 1]."""
    if pa.types.is_fixed_size_list(array.type):
        return (array.offset + np.arange(len(array) + 1)) * array.type.list_size
    return array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)


def _below(name: str, body: str | None) -> str | None:
    """The path of the body below a column or field of this name: "" for the body itself, None for another column."""
    if body == name:
        return ""
    within = f"{name}."
    return body.removeprefix(within) if body is not None and body.startswith(within) else None


def _values(column: pa.Array, body: str | None) -> list[Any]:
    """The cells of a column as values of JSON types.

    body: the path of the body below this column; "" if the column is the body, None if it has no body
    """
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # pyarrow converts nanoseconds to pandas objects, and pandas may not be installed.
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        values = [_value(cell) for cell in column]
    if pa.types.is_nested(column.type) or any(isinstance(value, date | time | bytes) for value in values):
        return [_plain(value, body) for value in values]
    return values


def _value(cell: Any) -> Any:
    """One cell. Text that is not UTF-8 becomes bytes; values beyond Python's range, such as the year 20000, text."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        kind = cell.type
        if isinstance(cell, pa.ExtensionScalar | pa.DictionaryScalar):
            return _value(cell.value)
        if pa.types.is_struct(kind):
            return {field.name: _value(cell[number]) for number, field in enumerate(kind)}
        if pa.types.is_map(kind):
            return [(_value(entry[0]), _value(entry[1])) for entry in cell.values]
        if any(is_kind(kind) for is_kind in _LISTS):
            return [_value(element) for element in cell.values]
        if isinstance(error, UnicodeDecodeError):
            return cell.as_buffer().to_pybytes()
        try:
            return cell.cast(pa.string()).as_py()
        except pa.ArrowException:
            return None


def _plain(value: Any, body: str | None) -> Any:
    """A value as a JSON type. body: the path of the body below this value; "" if it is the body, None if it has none"""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value if body == "" else value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _plain(inside, _below(name, body)) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside, body) for inside in value]
    return value


def _json_default(value: Any) -> Any:
    """A value without a JSON type as text: bytes decoded or in base64, anything else by str()."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return pybase64.b64encode(value).decode("ascii")
    return str(value)


_WITH_LENGTH = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
