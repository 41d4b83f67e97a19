"""Chooses the CPU that kernels are compiled for: one that nearly all servers are, so that compiled kernels travel.

numba compiles for the very CPU it runs on, and keeps what it compiled under that name. So an image or a wheel with
kernels would serve only machines like the one that built it, and a cluster of two sorts would compile at every start.
x86-64-v3 (AVX2, BMI2, FMA; Intel since 2013, AMD since 2015) costs the kernels nothing that can be measured
(`python -m bench.speed kernel`, in turns with NUMBA_CPU_NAME).
"""

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
