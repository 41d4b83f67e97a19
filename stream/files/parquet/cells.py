"""Converts the cells of a record batch into values of JSON types, and computes their sizes before the conversion."""

from datetime import date, datetime, time
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pybase64
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of


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
