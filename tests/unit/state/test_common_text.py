"""The changes of the table of common text restore it, and name exactly the windows that differ."""

import random

import numpy as np
import pytest

from spotsieve.state.format.common_text import (
    BASE_KEY,
    changes_key,
    encode_base,
    encode_changes,
    put_windows,
    read_common_text,
)
from spotsieve.state.index import COMMON_SLOTS, COMMON_WINDOW, CommonText, CommonWindows, no_common_text
from spotsieve.stream.base.errors import CorruptRecord

LAST = COMMON_SLOTS - 1
HEAD_BYTES, WINDOW_BYTES = 5, 3


def some_table() -> CommonText:
    return CommonText(np.random.default_rng(1).integers(0, 2**63, COMMON_SLOTS).astype(np.uint64))


def windows_of(table: CommonText) -> CommonWindows:
    """All windows of a table."""
    slots = table.slots.reshape(-1, COMMON_WINDOW)
    return CommonWindows(np.arange(len(slots)), slots)


def check_restored(before: CommonText, changes: bytes, after: CommonText) -> None:
    stored = [(BASE_KEY, encode_base(before)), *([(changes_key(1), changes)] if changes else [])]
    restored = read_common_text(stored)
    assert np.array_equal(restored.table.slots, after.slots)
    assert restored.changed == len(changes)


@pytest.mark.parametrize(
    "slots", [[], [0], [LAST], [0, 1, COMMON_WINDOW - 1], [COMMON_WINDOW - 1, COMMON_WINDOW], list(range(0, LAST, 37))]
)
def test_changes_restore_a_table_by_the_windows_that_differ(slots: list[int]) -> None:
    before, after = some_table(), some_table()
    after.slots[slots] ^= np.uint64(1)
    changes = encode_changes(before, windows_of(after))
    assert int.from_bytes(changes[1:5], "little") == len({slot // COMMON_WINDOW for slot in slots})
    check_restored(before, changes, after)


def test_a_block_that_moves_to_the_front_of_its_window_takes_eleven_bytes() -> None:
    before = some_table()
    window = before.slots[8:16].copy()
    moved = np.concatenate([window[5:6] | np.uint64(1 << 63), window[:5], window[6:]])
    changes = encode_changes(before, CommonWindows(np.array([1]), moved[None]))
    assert len(changes) == HEAD_BYTES + WINDOW_BYTES + 8
    after = CommonText(before.slots.copy())
    after.slots[8:16] = moved
    check_restored(before, changes, after)


def test_changes_restore_every_order_of_new_old_equal_and_empty_slots() -> None:
    dice = random.Random(3)
    before, windows = no_common_text(), list[list[int]]()
    for number in range(2000):
        old = [dice.choice([0, 0, 1, 2, 2**64 - 1, *range(10, 20)]) for _ in range(COMMON_WINDOW)]
        before.slots[8 * number : 8 * number + 8] = old
        windows.append([dice.choice([*old, 0, 2**63, 30]) for _ in range(COMMON_WINDOW)])
    changed = CommonWindows(np.arange(2000), np.array(windows, np.uint64))
    after = CommonText(before.slots.copy())
    put_windows(after, changed)
    check_restored(before, encode_changes(before, changed), after)


@pytest.mark.parametrize(
    "value",
    [
        b"\x02\x01\0\0",
        b"\x02\x01\0\0\0" + b"\x00\x00\xff" + b"\0",
        b"\x02\x01\0\0\0" + b"\x00\x00\xfe" + bytes(7),
        b"\x02\x02\0\0\0" + b"\x00\x00\xff",
        b"\x02\x01\0\0\0" + b"\x00\x80\xff",
        b"\x02\xff\xff\xff\xff" + b"\x00\x00\xff",
        b"\x01\x00\0\0\0",
    ],
    ids=["a cut head", "a byte too many", "a cut slot", "a missing window", "no such window", "too many", "version 1"],
)
def test_damaged_changes_are_rejected(value: bytes) -> None:
    with pytest.raises(CorruptRecord):
        read_common_text([(changes_key(1), value)])
