"""Makes a command start sooner: it loads numba without what our kernels have no use for."""

import atexit
import gc
import sys

_COLLECT_AFTER = 500_000
"""Objects that are made before Python looks for garbage (Python: 700). Loading makes 400,000, and all of them stay."""
_UNUSED = ("scipy", "cffi")
"""What numba imports where it is installed: SciPy to multiply matrices, cffi to call functions of C libraries."""


def quick_start() -> None:
    """Load numba without what no kernel of ours uses, and let Python look for garbage seldom.

    At the end Python looks through all that is left, though the process gives it back at once: that alone took .4 s
    of CPU. It is told to pass over it.

    For the rest of this process a kernel that multiplies matrices, or calls a C library through cffi, could not be
    compiled: a library must not call this, a command may.
    """
    hidden = [name for name in _UNUSED if name not in sys.modules]
    if "numba" in sys.modules or "scipy" not in hidden:
        return
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say that an import shall fail
    try:
        # These ask for SciPy and for cffi when they are loaded.
        import numba.core.typing.cffi_utils
        import numba.np.arraymath  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]
