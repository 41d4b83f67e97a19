"""Encodes and decodes the table of common text (spotsieve.state.index.CommonText): a base, and changes of windows.

    base    = version u8, slots u64[COMMON_SLOTS]                                  under key 0
    changes = version u8, windows u32 (k), (window u16, stays u8)[k], slot u64[s]  under keys 1, 2, ...

A record changes few windows, so each update writes these windows only. In a window, the blocks that were seen move to
the front, and the others stay behind them in their order. So a change has a bit for each old slot that stays, and the
new slots before these: 8 less the number of bits. When the changes take more bytes than a base, the next update writes
a base instead and removes the changes.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import read_word, write_word
from spotsieve.state.index import COMMON_SLOTS, COMMON_WINDOW, CommonText, CommonWindows, no_common_text
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel

COMMON_VERSION = 2
BASE_KEY = bytes(8)
_HEAD = struct.Struct("<BI")
_HEAD_BYTES = _HEAD.size
_BASE_BYTES = 1 + 8 * COMMON_SLOTS
_WINDOW_BYTES = 3
"""Size of a changed window without its new slots."""
_WINDOWS = COMMON_SLOTS // COMMON_WINDOW


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


def encode_changes(table: CommonText, windows: CommonWindows) -> bytes:
    """Write the windows that differ from a table; b"" if none does."""
    most = _HEAD_BYTES + len(windows.numbers) * (_WINDOW_BYTES + 8 * COMMON_WINDOW)
    buffer = np.empty(most, np.uint8)
    changed, size = _write_changes(table.slots, windows.numbers, windows.slots, buffer)
    if not changed:
        return b""
    return _HEAD.pack(COMMON_VERSION, changed) + buffer[_HEAD_BYTES:size].tobytes()


def put_windows(table: CommonText, windows: CommonWindows) -> None:
    """Write windows into a table."""
    _put_windows(table.slots, windows.numbers, windows.slots)


def is_base_due(changed: int) -> bool:
    """Whether the next update writes a base. changed: bytes of all changes since the last base"""
    return changed > _BASE_BYTES


def windows_in_use(table: CommonText) -> CommonWindows:
    """Return the windows with any slot in use."""
    windows = _windows(table.slots)
    numbers = np.flatnonzero(windows.any(axis=1))
    return CommonWindows(numbers, windows[numbers])


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
        count = _HEAD.unpack_from(value)[1] if len(value) >= _HEAD_BYTES else _WINDOWS + 1
        if count > _WINDOWS or not _read_changes(np.frombuffer(value, np.uint8), count, table.slots):
            rule = f"must have the length that it declares, and name windows below {_WINDOWS}"
            raise CorruptRecord("common", key, rule)
        number, changed = number + 1, changed + len(value)
    return StoredCommonText(table, number, changed)


@kernel
def _put_windows(slots, numbers, windows):
    # numbers: int64[k]  windows: uint64[k, COMMON_WINDOW]  ->  slots: uint64[COMMON_SLOTS]
    for place in range(len(numbers)):
        first = numbers[place] * COMMON_WINDOW
        slots[first : first + COMMON_WINDOW] = windows[place]


@kernel
def _write_changes(slots, numbers, windows, buffer):
    # slots: uint64[COMMON_SLOTS]  numbers: int64[k], windows: uint64[k, COMMON_WINDOW], the new contents
    # ->  buffer: uint8[...], all but its head; returns the number of windows that differ, and the size of the value
    changed = 0
    for place in range(len(numbers)):
        first = numbers[place] * COMMON_WINDOW
        for at in range(COMMON_WINDOW):
            if windows[place, at] != slots[first + at]:
                head = _HEAD_BYTES + _WINDOW_BYTES * changed
                write_word(buffer, head, 2, np.uint64(numbers[place]))
                buffer[head + 2] = np.uint8(_stays(slots, first, windows[place]))
                changed += 1
                break
    size = _HEAD_BYTES + _WINDOW_BYTES * changed
    at = 0
    for head in range(_HEAD_BYTES, size, _WINDOW_BYTES):
        number = np.int64(read_word(buffer, head, 2))
        while numbers[at] != number:
            at += 1
        for slot in range(COMMON_WINDOW - _bits(buffer[head + 2])):
            write_word(buffer, size, 8, windows[at, slot])
            size += 8
    return changed, size


@kernel
def _stays(slots, first, window):
    # slots: uint64[COMMON_SLOTS]  first: int64, of a window  window: uint64[COMMON_WINDOW], its new contents
    # ->  int64, a bit for each old slot that stays behind the new ones
    stays, old = np.int64(0), COMMON_WINDOW - 1
    for at in range(COMMON_WINDOW - 1, -1, -1):
        while old >= 0 and slots[first + old] != window[at]:
            old -= 1
        if old < 0:
            break
        stays |= 1 << old
        old -= 1
    return stays


@kernel
def _bits(byte):
    # uint8 -> int64, the number of its bits that are set
    count = np.int64(0)
    for bit in range(8):
        count += np.int64(byte) >> bit & 1
    return count


@kernel
def _read_changes(raw, count, slots):
    # raw: uint8[...], a value with a whole head  count: int64, its windows, at most COMMON_SLOTS / COMMON_WINDOW
    # ->  slots: uint64[COMMON_SLOTS]; returns whether the value has the length and the windows that it declares
    at = _HEAD_BYTES + _WINDOW_BYTES * count
    if at > len(raw):
        return False
    old = np.empty(COMMON_WINDOW, np.uint64)
    for head in range(_HEAD_BYTES, _HEAD_BYTES + _WINDOW_BYTES * count, _WINDOW_BYTES):
        number, stays = np.int64(read_word(raw, head, 2)), raw[head + 2]
        new = COMMON_WINDOW - _bits(stays)
        if number >= _WINDOWS or at + 8 * new > len(raw):
            return False
        first = number * COMMON_WINDOW
        for slot in range(COMMON_WINDOW):
            old[slot] = slots[first + slot]
        for slot in range(new):
            slots[first + slot] = read_word(raw, at, 8)
            at += 8
        slot = first + new
        for place in range(COMMON_WINDOW):
            if stays >> place & 1:
                slots[slot] = old[place]
                slot += 1
    return at == len(raw)


def _windows(slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The slots, a row for each window: uint64[COMMON_SLOTS] -> uint64[COMMON_SLOTS / WINDOW, WINDOW], a view."""
    return slots.reshape(-1, COMMON_WINDOW)
