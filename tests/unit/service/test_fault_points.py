"""Every function that a fault test patches exists, so that a renamed one is found without a broker."""

import pkgutil

import pytest

from tests.fixtures.services import breaking, killed_at, role_steps, wedged

POINTS = [*killed_at.POINTS, *(point for steps in role_steps.STEPS.values() for point in steps)]
FUNCTIONS = {name for point in POINTS for name in (point.exactly_once, point.at_least_once) if name}
FUNCTIONS |= {name for name, _ in breaking.PLACES.values()} | set(wedged.STEPS.values())


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_a_fault_test_patches_exists(name: str) -> None:
    assert callable(pkgutil.resolve_name(name))
