"""A state says of a partition whether its latest entries hold pages of it."""

from pathlib import Path

import numpy as np
import pytest

from spotsieve.state import recent
from spotsieve.state.recent import knows_pages_of
from tests.worlds.local_states import apply_log, open_state


def test_the_partitions_of_filed_pages_are_known_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_AT_ONCE", 7)
    with open_state(tmp_path) as state:
        assert not knows_pages_of(state, "pages", 0)
        apply_log(tmp_path, 0, 2, state)
        assert state.entry_count > 14
        source, partition, _ = next(page_id for page_id in state.page_ids(np.zeros(1, np.uint64)) if page_id)
        assert knows_pages_of(state, source, partition)
        assert not knows_pages_of(state, source, 10**6)
        assert not knows_pages_of(state, source + "x", partition)
