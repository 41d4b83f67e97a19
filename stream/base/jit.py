"""Decorators for kernels: numba's options of this package, and a cache on disk that notices every edit.

A compiled kernel contains all functions that it calls and all constants that it names, from any module. But numba
invalidates a cached kernel only if the file of the kernel itself changes: after an update of the HTML scanner, a worker
would keep the old scanner. Therefore the kernels of this package have their own cache class. Its stamp is a digest of
all source files that can become part of a kernel, and a kernel with another stamp is compiled again.

Other numba functions in the process keep numba's cache. numba still chooses the folder: NUMBA_CACHE_DIR, else
__pycache__ next to the source, else the user's cache folder if that is read-only, or the locators of
NUMBA_CACHE_LOCATOR_CLASSES.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _Cache

KERNEL_FOLDERS = (
    "state",
    "stream/base",
    "stream/judge",
    "stream/research/models",
    "stream/sharding",
    "stream/sign",
)
"""The folders with kernels and with all modules that these import; a test compares this list with the tree.

Edits elsewhere, such as in the command line, keep all compiled kernels.
"""

part = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorates a function that only kernels call: it needs neither wrappers for Python nor a cache."""

inlined = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, _nrt=False)
"""Decorates a part of the judge's kernels that takes tuples of arrays and allocates no arrays.

LLVM inlines it: a call would pass every field of every array on the stack. It counts no references (_nrt), as numba
would for each field that is read. Both costs together made the merge of postings three times as slow.
"""


def kernel(function: Callable[..., Any]) -> Any:
    """Decorate a function that Python calls: numba compiles it at the first call and caches it on disk."""
    compiled: Any = njit(nogil=True)(function)
    if compiled is not function:  # With NUMBA_DISABLE_JIT both are the same.
        compiled._cache = _KernelCache(function)  # numba's own `cache=True` sets this attribute too.
    return compiled


@cache
def source_digest() -> bytes:
    """The SHA-256 of the Python files in KERNEL_FOLDERS, names and contents."""
    digest = hashlib.sha256()
    package = files(__name__.partition(".")[0])
    for folder in KERNEL_FOLDERS:
        for name, source in _python_files(package / folder, folder):
            digest.update(f"{name} {len(source)}\n".encode())
            digest.update(source)
    return digest.digest()


def _python_files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """The path and bytes of each Python file below a folder, sorted by name."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.read_bytes()
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _python_files(entry, f"{path}/{entry.name}")


class _StampedImplementation(CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped.
    """The cache files of a kernel, in the folder of numba's locator, with the stamp of this package."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.locator.get_source_stamp = source_digest


class _StampedCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, with the stamp of this package."""

    _impl_class = _StampedImplementation


class _KernelCache(_Cache):  # type: ignore[misc]
    """The cache of one kernel, opened at its first use, so that importing a kernel reads no source files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _opened(self) -> _StampedCache:
        return _StampedCache(self._function)

    @property
    def cache_path(self) -> Any:
        return self._opened.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel for these types, None if it must be compiled.

        An index names the classes of arguments, and numba unpickles it before it compares stamps. A class that was
        moved or renamed since is an import error there, although the index is only out of date.
        """
        try:
            return self._opened.load_overload(sig, target_context)
        except (AttributeError, ImportError):
            self._opened.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        self._opened.save_overload(sig, data)

    def enable(self) -> None:
        self._opened.enable()

    def disable(self) -> None:
        self._opened.disable()

    def flush(self) -> None:
        self._opened.flush()
