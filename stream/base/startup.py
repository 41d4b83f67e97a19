"""Set-up of a process: the CPU of compiled kernels, a fast import of numba, the allocator and the garbage collector.

It also checks that a package has the private names which we use: aiokafka (stream/kafka/driver) and uvicorn
(stream/local/serve).

numba compiles for the CPU of this machine, and caches kernels under its name. An image or a wheel with such kernels
would serve only machines like the one that built it, and a cluster with two kinds of machines would compile at every
start. Therefore kernels are compiled for x86-64-v3 (AVX2, BMI2, FMA; Intel since 2013, AMD since 2015), which costs
nothing measurable (`python -m bench.speed kernel`, alternating with NUMBA_CPU_NAME).
"""

import atexit
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from spotsieve.stream.base.errors import SettingError

PORTABLE = "x86-64-v3"
NEEDED = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
"""The features of x86-64-v3 beyond x86-64-v2 (System V ABI for AMD64, sec. 3.1.1), as Linux names them."""
_CPU_NAME, _CPU_FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
_FLAGS_WITHIN = 8192
"""The bytes of /proc/cpuinfo that contain the flags of the first CPU. On a large machine the whole file is slow."""


def choose_cpu(information: Path = Path("/proc/cpuinfo")) -> None:
    """Make numba compile for x86-64-v3 if this machine supports it; otherwise for the CPU of this machine.

    Sets environment variables, which child processes inherit. Does nothing if the user has set them, or if numba is
    loaded already: call this before numba is imported.
    """
    if "numba" not in sys.modules and portable_kernels_fit(information):
        os.environ[_CPU_NAME], os.environ[_CPU_FEATURES] = PORTABLE, ""


def portable_kernels_fit(information: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this machine runs kernels for x86-64-v3, and neither choose_cpu nor the user has told numba a CPU yet.

    It is still true behind choose_cpu if the program imported numba first: numba then compiles for this CPU.
    """
    return _CPU_NAME not in os.environ and _CPU_FEATURES not in os.environ and cpu_flags(information) >= NEEDED


def cpu_flags(information: Path) -> frozenset[str]:
    """The flags of the first CPU, from Linux on x86; empty elsewhere."""
    try:
        with information.open(errors="replace") as file:
            lines = file.read(_FLAGS_WITHIN).splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


_COLLECT_AFTER = 500_000
"""GC threshold of a command (Python: 700). Loading numba creates 400,000 objects, and all of them stay."""
_UNUSED = ("scipy", "cffi")
"""Packages that numba imports if they are installed: SciPy for matrix products, cffi for C libraries."""
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads NumPy's OpenBLAS has. They start with NumPy, and wait busily for 0.1 s of CPU."""


def quick_start() -> None:
    """Import NumPy without threads for matrix products and numba without packages that no kernel of ours uses, and make
    garbage collections rare.

    At exit Python would collect all remaining objects, which took 0.4 s of CPU; the process freezes them instead.

    For commands only, not for the library: afterwards this process cannot compile kernels that multiply matrices or
    call C libraries through cffi.
    """
    hidden = [name for name in _UNUSED if name not in sys.modules]
    if "numba" in sys.modules or "scipy" not in hidden:
        return
    os.environ.setdefault(_BLAS_THREADS, "1")
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to make an import fail
    try:
        # These modules import SciPy and cffi.
        import numba.core.typing.cffi_utils
        import numba.np.arraymath  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


COLLECT_AFTER = 50_000
"""GC threshold of a service. A page in flight has about ten objects: with Python's 700, every seventy pages would cause
a collection."""
KEPT_BYTES = 256 * 2**20
"""Free memory that is not given back to the system. Pages in flight take up to half of it (service/worker.py)."""
MAPPED_BYTES = 32 * 2**20
"""Larger blocks are mapped, and returned at once. This is the largest value that glibc accepts."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt, in malloc.h."""


def keep_freed_memory() -> None:
    """Make the C library use one arena and keep freed memory. Call this before threads are started.

    Batches of pages allocate and free megabytes many times a second. By default glibc returns and requests them again,
    4 KB at a time: 8 page faults for a page of 20 KB, instead of 2.5. It also has an arena per thread, which keeps the
    memory that its thread has freed. Does nothing with other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


def freeze_loaded_objects() -> None:
    """Exclude all loaded objects from garbage collection: a compiler has 400,000, and a collection takes 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


class Expectation(NamedTuple):
    """A private name of a package, as a change to the package or a subclass expects it.

    name: module:path  signature: of a function that is called or overridden, without annotations
    uses: names in the code of a function that is replaced or relied on
    lacks: names that the code must not use
    """

    name: str
    signature: str = ""
    uses: Collection[str] = ()
    lacks: Collection[str] = ()

    def fault(self) -> str | None:
        """The first difference between the installed package and this expectation; None if the package fits.

        Raises ModuleNotFoundError if a whole package is missing.
        """
        import inspect  # Every process imports this module, and few need that one.

        module, _, path = self.name.partition(":")
        package = importlib.import_module(module.partition(".")[0]).__name__
        try:
            found: Any = importlib.import_module(module)
            for part in path.split(".") if path else ():
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith(package):
                raise
            return f"{self.name} does not exist"
        if self.signature and (signature := _signature(found)) != self.signature:
            return f"{self.name} has the signature {signature} and not {self.signature}"
        names = set(_names(inspect.unwrap(found).__code__)) if self.uses or self.lacks else set[str]()
        for name in self.uses:
            if name not in names:
                return f"{self.name} does not use {name}"
        for name in self.lacks:
            if name in names:
                return f"{self.name} uses {name}"
        return None


def first_fault(expected: Iterable[Expectation]) -> str | None:
    """The first difference between installed packages and these expectations; None if all packages fit."""
    return next(filter(None, (one.fault() for one in expected)), None)


def require(package: str, tested: str, expected: Iterable[Expectation], about: str = "") -> None:
    """Check that an installed package has all these names. tested: the releases that have them

    about: what needs the names, for the error
    Raises SettingError, which names the first difference, and ModuleNotFoundError if a whole package is missing.
    """
    fault = first_fault(expected)
    if fault is not None:
        from importlib.metadata import version

        raise SettingError(
            f"the installed {package}",
            f"does not work with Spotsieve: {fault}{about}",
            version(package),
            f"install a release that works: pip install '{package}{tested}'",
        )


def _signature(function: Callable[..., Any]) -> str:
    import inspect

    signature = inspect.signature(function)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals, attributes and methods in a function, and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
