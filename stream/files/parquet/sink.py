"""Writes rows of Parquet files as they came: all columns, the same schema and metadata, row group by row group.

Types are rewritten where rows of several row groups, or a lack of kernels in pyarrow, need another form of the same
values.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from spotsieve.stream.errors import SettingError
from spotsieve.stream.files.file_format import FormatWriter
from spotsieve.stream.files.records import Record, RowPlace

GROUP_BYTES = 64 * 2**20
GROUP_ROWS = 100_000
_ARROW_SCHEMA = b"ARROW:schema"
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "LZ4": "lz4", "ZSTD": "zstd"}


class ParquetSink(FormatWriter):
    """Gathers rows, and writes them as row groups of at most GROUP_BYTES."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """name: of the output, for errors"""
        self._file = file
        self._name = name
        self._writer: parquet.ParquetWriter | None = None
        self._schema = pa.schema([])
        self._batch: pa.RecordBatch | None = None
        self._rows: list[int] = []
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def know(self, record: Record) -> None:
        """Take the schema of a row, which need not be written. Raises SettingError for another one than before."""
        place = _place_of(record)
        schema = place.batch.schema.remove_metadata()
        if self._writer is None:
            # pyarrow would note with which types it read, text in lists as a dictionary. The source's own metadata has
            # the types that it was written with.
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
            self._gather()
            self.know(record)
            self._batch = place.batch
        self._rows.append(place.row)

    def finish(self) -> None:
        """Write the waiting rows and the footer. A file without rows has the columns that are known, if any are."""
        self._gather()
        self._write_group()
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, self._schema)
        self._writer.close()

    def _gather(self) -> None:
        """Copy the rows that are kept of a batch, so that the batch itself can go."""
        if self._batch is not None and self._rows:
            kept = self._batch.take(pa.array(self._rows, pa.int32()))
            self._waiting.append(kept)
            self._bytes += kept.nbytes
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
    """The compression of a file's first column (pyarrow's FileMetaData), in the word for writing."""
    named = table.row_group(0).column(0).compression if table.num_row_groups and table.num_columns else ""
    return _CODECS.get(named, "zstd")


def other_columns(name: str, found: Any, before: Any) -> SettingError:
    """The error of files whose rows cannot stand in one output. found, before: their pyarrow.Schema"""
    differing = [str(field.name) for field in found if field not in list(before)]
    differing += [str(field.name) for field in before if field.name not in found.names]
    rule = f"must hold rows of one schema, and the files differ in {', '.join(differing[:8]) or 'the order of columns'}"
    return SettingError(name, rule, None, "filter files of each schema in a run of its own, with the same --state")


def _without_views(kind: pa.DataType) -> pa.DataType:
    """A type with text and bytes in place of views of them: rows of views cannot be taken."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return _with_children(kind, _without_views)


def _with_wide_indices(kind: pa.DataType) -> pa.DataType:
    """A type whose dictionaries have indices of 32 bits at least: one row group may need fewer than several do."""
    if pa.types.is_dictionary(kind):
        index = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, _with_wide_indices(kind.value_type), kind.ordered)
    return _with_children(kind, _with_wide_indices)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema without views; the same one where it has none."""
    return _rewritten(schema, _without_views)


def wide_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The key-value metadata of a file, for one that holds rows of several row groups.

    The types with which it was written (ARROW:schema) get wide indices. Raises pyarrow.ArrowException, ValueError.
    """
    found = dict(metadata or {})
    if _ARROW_SCHEMA in found:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found[_ARROW_SCHEMA])))
        wide = _rewritten(schema, _with_wide_indices)
        if wide is not schema:
            found[_ARROW_SCHEMA] = base64.b64encode(wide.serialize().to_pybytes())
    return found


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
