"""A state says of a partition whether its latest entries hold pages of it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.stream.base.page import PageId
from spotsieve.stream.service.log import signature_log
from spotsieve.stream.service.log.signature_log import RecentPartitions
from tests.fixtures.states.local_states import apply_log, open_state


def test_the_partitions_of_filed_pages_are_known_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_log, "_AT_ONCE", 7)
    with open_state(tmp_path) as state:
        recent_partitions = RecentPartitions(state)
        assert not recent_partitions.has("pages", 0)
        apply_log(tmp_path, 0, 2, state)
        assert state.entry_count > 14
        source, partition, _ = next(page_id for page_id in state.page_ids(np.zeros(1, np.uint64)) if page_id)
        assert recent_partitions.has(source, partition)
        assert not recent_partitions.has(source, 10**6)
        assert not recent_partitions.has(source + "x", partition)


def test_each_entry_is_read_once_however_many_partitions_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_state(tmp_path) as state:
        apply_log(tmp_path, 0, 2, state)
        read: list[int] = []
        page_ids = state.page_ids

        def noted(numbers: NDArray[np.uint64]) -> list[PageId | None]:
            read.extend(numbers.tolist())
            return page_ids(numbers)

        monkeypatch.setattr(state, "page_ids", noted)
        recent_partitions = RecentPartitions(state)
        for number in range(1000):
            recent_partitions.has("pages", number)
        assert sorted(read) == list(range(state.entry_count))
        apply_log(tmp_path, 2, 3, state)
        recent_partitions.has("pages", 0)
        assert sorted(read) == list(range(state.entry_count))
