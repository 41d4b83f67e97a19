"""Fixtures of the tests of bench/, also those of tests/."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.large_state import filling
from tests.conftest import restored_logging, shared_data

__all__ = ["one_process", "restored_logging", "shared_data"]


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write table files in threads: a separate process takes seconds to start."""
    monkeypatch.setattr(filling, "ProcessPoolExecutor", lambda workers, _: ThreadPoolExecutor(workers))
