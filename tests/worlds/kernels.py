"""Counts the kernels that numba has compiled, in a process that a test starts."""

import sys

from numba.core.dispatcher import Dispatcher


def compiled() -> dict[str, int]:
    """The loaded kernels of Spotsieve, and the number of signatures that each is compiled for."""
    modules = [module for name, module in sys.modules.items() if name.startswith("spotsieve.")]
    there = [value for module in modules for value in vars(module).values()]
    return {
        f"{one.py_func.__module__}.{one.py_func.__qualname__}": len(one.signatures)
        for one in there
        if isinstance(one, Dispatcher) and one.py_func.__module__.startswith("spotsieve.")
    }


def compiled_since(before: dict[str, int]) -> list[str]:
    """The names of the kernels that were compiled since then."""
    after = compiled()
    return [name for name in after if after[name] != before.get(name)]
