"""The changes of the table of common text restore it, and name exactly the windows that differ."""

import numpy as np
import pytest

from spotsieve.state.format.common_text import (
    BASE_KEY,
    COMMON_WINDOW,
    changes_key,
    encode_base,
    encode_changes,
    read_common_text,
)
from spotsieve.state.index import COMMON_SLOTS, CommonText

LAST = COMMON_SLOTS - 1


@pytest.mark.parametrize(
    "slots", [[], [0], [LAST], [0, 1, COMMON_WINDOW - 1], [COMMON_WINDOW - 1, COMMON_WINDOW], list(range(0, LAST, 37))]
)
def test_changes_restore_a_table_by_the_windows_that_differ(slots: list[int]) -> None:
    before = CommonText(np.random.default_rng(1).integers(0, 2**63, COMMON_SLOTS).astype(np.uint64))
    after = CommonText(before.slots.copy())
    after.slots[slots] ^= np.uint64(1)
    changes = encode_changes(before, after)
    windows = {slot // COMMON_WINDOW for slot in slots}
    assert len(changes) == (5 + len(windows) * (4 + 8 * COMMON_WINDOW) if windows else 0)
    stored = [(BASE_KEY, encode_base(before)), *([(changes_key(1), changes)] if changes else [])]
    restored = read_common_text(stored)
    assert np.array_equal(restored.table.slots, after.slots)
    assert restored.changed == len(changes)
