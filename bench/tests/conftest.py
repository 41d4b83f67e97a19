"""Gives the tests of bench/ the fixtures that they share with tests/."""

from tests.conftest import shared_data

__all__ = ["shared_data"]
