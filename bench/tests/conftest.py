"""Makes the fixtures of tests/ available to the tests of bench/."""

from tests.conftest import restored_logging, shared_data

__all__ = ["restored_logging", "shared_data"]
