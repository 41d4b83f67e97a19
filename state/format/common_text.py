"""Encodes and decodes the table of common text (spotsieve.state.index.CommonText): a base, and changes of windows.

    base    = version u8, slots u64[COMMON_SLOTS]                                  under key 0
    changes = version u8, windows u32 (k), window u32[k], slots u64[k][WINDOW]     under keys 1, 2, ...

A record changes few windows, so each update writes these windows only. When the changes take more bytes than a base,
the next update writes a base instead and removes the changes.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import COMMON_SLOTS, CommonText, no_common_text
from spotsieve.stream.base.errors import CorruptRecord

COMMON_VERSION = 1
COMMON_WINDOW = 8
"""The number of slots that are written together; spotsieve.stream.judge.by_host.common_text changes them together."""
BASE_KEY = bytes(8)
_HEAD = struct.Struct("<BI")
_BASE_BYTES = 1 + 8 * COMMON_SLOTS
_CHANGE_BYTES = 4 + 8 * COMMON_WINDOW


class StoredCommonText(NamedTuple):
    """The table as it is stored. table: the content  number: of the last changes  changed: bytes of all changes"""

    table: CommonText
    number: int
    changed: int


def changes_key(number: int) -> bytes:
    """The key of changes, from 1 on."""
    return number.to_bytes(8, "big")


def encode_base(table: CommonText) -> bytes:
    """Write a whole table."""
    return bytes([COMMON_VERSION]) + np.ascontiguousarray(table.slots, "<u8").tobytes()


def encode_changes(before: CommonText, after: CommonText) -> bytes:
    """Write the windows in which two tables differ; b"" if they are equal."""
    # Slots are compared in one row: numpy reduces many short rows ten times slower, and every record compares.
    changed = np.unique(np.flatnonzero(before.slots != after.slots) // COMMON_WINDOW)
    if not len(changed):
        return b""
    slots = _windows(after.slots)[changed]
    return _HEAD.pack(COMMON_VERSION, len(changed)) + changed.astype("<u4").tobytes() + slots.tobytes()


def is_base_due(changed: int) -> bool:
    """Whether the next update writes a base. changed: bytes of all changes since the last base"""
    return changed > _BASE_BYTES


def windows_in_use(table: CommonText) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the windows with any slot in use: their numbers, int64[k], and their slots, uint64[k, COMMON_WINDOW]."""
    windows = _windows(table.slots)
    numbers = np.flatnonzero(windows.any(axis=1))
    return numbers, windows[numbers]


def read_common_text(items: Iterable[tuple[bytes, bytes]]) -> StoredCommonText:
    """Read a table from its base and changes, in the order of their keys. Raises CorruptRecord."""
    table, number, changed = no_common_text(), 0, 0
    for key, value in items:
        if len(key) != len(BASE_KEY) or value[:1] != bytes([COMMON_VERSION]):
            raise CorruptRecord("common", key, f"must have a key of {len(BASE_KEY)} bytes and version {COMMON_VERSION}")
        if key == BASE_KEY:
            if len(value) != _BASE_BYTES:
                raise CorruptRecord("common", key, f"must have {_BASE_BYTES} bytes")
            table = CommonText(np.frombuffer(value, "<u8", offset=1).astype(np.uint64))
            continue
        if key != changes_key(number + 1):
            raise CorruptRecord("common", key, f"must follow the changes {number}, as number {number + 1}")
        _apply(table, key, value)
        number, changed = number + 1, changed + len(value)
    return StoredCommonText(table, number, changed)


def _apply(table: CommonText, key: bytes, value: bytes) -> None:
    count = _HEAD.unpack_from(value)[1] if len(value) >= _HEAD.size else -1
    if len(value) != _HEAD.size + count * _CHANGE_BYTES:
        raise CorruptRecord("common", key, "must have the length that it declares")
    window = np.frombuffer(value, "<u4", count, _HEAD.size)
    if (window >= COMMON_SLOTS // COMMON_WINDOW).any():
        raise CorruptRecord("common", key, f"must name windows below {COMMON_SLOTS // COMMON_WINDOW}")
    slots = np.frombuffer(value, "<u8", count * COMMON_WINDOW, _HEAD.size + 4 * count)
    _windows(table.slots)[window] = slots.reshape(count, COMMON_WINDOW)


def _windows(slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The slots, a row for each window: uint64[COMMON_SLOTS] -> uint64[COMMON_SLOTS / WINDOW, WINDOW], a view."""
    return slots.reshape(-1, COMMON_WINDOW)
