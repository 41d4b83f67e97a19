"""Rewrites Arrow's types where rows of other row groups, or fewer kernels, need another form of the same values."""

import base64
from collections.abc import Callable, Mapping

import pyarrow as pa

_ARROW_SCHEMA = b"ARROW:schema"


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
