"""Makes the fixtures of tests/ available to the tests of bench/."""

from tests.conftest import shared_data

__all__ = ["shared_data"]
