"""Makes a short command start sooner: it loads numba without what our kernels have no use for."""

import gc
import sys

_COLLECT_AFTER = 50_000
"""Objects that are made before Python looks for garbage (Python: 700). Loading makes 400,000, and all of them stay."""


def quick_start() -> None:
    """Load numba without SciPy, and let Python look for garbage seldom. It saves a third of a second of CPU.

    numba imports SciPy, where it is installed, to know whether kernels may multiply matrices. None of ours does. For
    the rest of this process such a kernel could not be compiled: a library must not call this, a command may.
    """
    if "numba" in sys.modules or "scipy" in sys.modules:
        return
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    sys.modules["scipy"] = None  # type: ignore[assignment]  # Python's way to say that an import shall fail
    try:
        import numba.np.arraymath  # noqa: F401 - it asks for SciPy when it is loaded
    finally:
        del sys.modules["scipy"]
