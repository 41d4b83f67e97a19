"""Recompiles the judge of hosts with some constants changed, for the ablations of its rules.

A kernel and its parts contain the constants of their modules as compiled code. So these modules are executed once more,
beside those of the product. Their constants are changed before anything is compiled, and nothing goes into the cache on
disk.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from typing import Any
from unittest.mock import patch

from numba import njit

from spotsieve.stream import judge
from spotsieve.stream.base import jit
from spotsieve.stream.judge import by_host

_MODULES = (
    "common_text",
    "memory",
    "distinctive_text",
    "containment",
    "pairs",
    "confirmation",
    "learning",
    "resolution",
)
"""Modules of spotsieve.stream.judge.by_host, each after those that it imports."""


@contextmanager
def rules_changed(rules: Mapping[str, float]) -> Iterator[None]:
    """Judge records with these constants, "module.NAME" to value, in the block. Raises AttributeError for one that is
    not there.
    """
    changed = _hosts_with(rules)
    with patch.object(judge, "judge_with_hosts", changed.judge_with_hosts):
        yield


def _hosts_with(rules: Mapping[str, float]) -> Any:
    """The module of the judge of hosts, rebuilt from the changed modules."""
    made: dict[str, Any] = {}
    with patch.dict(sys.modules), patch.object(jit, "kernel", njit(nogil=True)):
        for name in _MODULES:
            spec = find_spec(f"{by_host.__name__}.{name}")
            if spec is None or spec.loader is None:
                raise ImportError(f"{by_host.__name__} has no module {name}")
            made[name] = sys.modules[spec.name] = module_from_spec(spec)
            spec.loader.exec_module(made[name])
            for rule, value in rules.items():
                module, _, constant = rule.partition(".")
                if module == name:
                    getattr(made[name], constant)
                    setattr(made[name], constant, value)
    return made["resolution"]
