"""The steps at which tests kill a process name functions that exist; they are strings, so no type checker sees them."""

import pytest

from tests.worlds.services.killed_at import POINTS, owner_of
from tests.worlds.services.role_steps import STEPS

FUNCTIONS = sorted(
    {
        function
        for point in (*POINTS, *(point for points in STEPS.values() for point in points))
        for function in (point.exactly_once, point.at_least_once)
        if function is not None
    }
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_function_of_a_step_exists(function: str) -> None:
    owner, name = owner_of(function)
    assert callable(getattr(owner, name))
