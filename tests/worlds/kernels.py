"""Counts what numba has compiled, in a process that a test starts."""

import sys

from numba.core.dispatcher import Dispatcher


def compiled() -> dict[str, int]:
    """The kernels of Spotsieve that are loaded, and for how many kinds of arguments each is compiled."""
    modules = [module for name, module in sys.modules.items() if name.startswith("spotsieve.")]
    there = [value for module in modules for value in vars(module).values()]
    return {
        f"{one.py_func.__module__}.{one.py_func.__qualname__}": len(one.signatures)
        for one in there
        if isinstance(one, Dispatcher) and one.py_func.__module__.startswith("spotsieve.")
    }


def compiled_since(before: dict[str, int]) -> list[str]:
    """The kernels that were compiled since, by name."""
    after = compiled()
    return [name for name in after if after[name] != before.get(name)]
