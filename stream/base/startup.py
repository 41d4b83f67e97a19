"""Chooses the CPU that kernels are compiled for: one that nearly all servers are, so that compiled kernels travel.

numba compiles for the very CPU it runs on, and keeps what it compiled under that name. So an image or a wheel with
kernels would serve only machines like the one that built it, and a cluster of two sorts would compile at every start.
x86-64-v3 (AVX2, BMI2, FMA; Intel since 2013, AMD since 2015) costs the kernels nothing that can be measured
(`python -m bench.speed kernel`, in turns with NUMBA_CPU_NAME).

Makes a command start sooner: it loads numba without what our kernels have no use for.

Sets up the memory of a process that runs for weeks: what the C library keeps, and when Python looks for garbage.
"""

import atexit
import ctypes
import gc
import os
import sys
from pathlib import Path

PORTABLE = "x86-64-v3"
NEEDED = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
"""What x86-64-v3 has beyond x86-64-v2 (System V ABI for AMD64, sec. 3.1.1), in the words of Linux."""
_CPU_NAME, _CPU_FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
_FLAGS_WITHIN = 8192
"""Bytes of /proc/cpuinfo that hold the flags of its first CPU; all of a large machine take long to read."""


def choose_cpu(information: Path = Path("/proc/cpuinfo")) -> None:
    """Have numba compile for x86-64-v3 where this machine is one; elsewhere for the CPU it runs on.

    It goes by the environment, which child processes inherit. A value that the user has set stays, and so does all
    where numba is loaded already. Must be called before numba is imported.
    """
    if "numba" in sys.modules or _CPU_NAME in os.environ or _CPU_FEATURES in os.environ:
        return
    if cpu_flags(information) >= NEEDED:
        os.environ[_CPU_NAME], os.environ[_CPU_FEATURES] = PORTABLE, ""


def cpu_flags(information: Path) -> frozenset[str]:
    """What the first CPU can do, as Linux on x86 tells it; nothing where it does not."""
    try:
        with information.open(errors="replace") as file:
            lines = file.read(_FLAGS_WITHIN).splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


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


COLLECT_AFTER = 50_000
"""Objects that are made before Python looks for garbage. A page on its way has some ten; Python's own 700 would have it
look after each seventy."""
KEPT_BYTES = 256 * 2**20
"""Free memory that is not given back to the system. Pages in flight take up to half of it (service/worker.py)."""
MAPPED_BYTES = 32 * 2**20
"""What is larger is mapped, and given back at once. glibc takes no larger number here."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt, in malloc.h."""


def keep_freed_memory() -> None:
    """Have the C library use one arena, and keep what is freed. Call it before threads are started.

    Batches of pages take and free megabytes many times a second. By itself glibc gives them back and asks for them
    again, 4 KB at a time: 8 page faults for a page of 20 KB, and 2.5 so. It also has an arena for each thread, which
    keeps for itself what its thread has freed. Other C libraries and allocators stay as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


def pass_over_what_stays() -> None:
    """Take what is loaded out of the search for garbage: a compiler has 400,000 objects, and looking takes .1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
