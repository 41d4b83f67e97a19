"""Compiles kernels: numba's decorators as this package uses them, and a cache on disk that notices every edit.

numba compiles into a kernel all functions that it calls and all constants that it names, from whatever module they
come. But numba drops a cached kernel only when the file of the kernel itself changes: after an update of
text/html/scan.py a worker would keep the old scanner. So the kernels of this package have a cache class of their own.
Its stamp is a digest of all source files that a kernel can be made of, and a kernel with another stamp is compiled
again.

Only our kernels use this class; other numba functions in the process keep numba's cache. numba still chooses the
folder: NUMBA_CACHE_DIR, else __pycache__ beside the source, else the user's cache folder where that is read-only, or
the locators that NUMBA_CACHE_LOCATOR_CLASSES names.
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
"""The folders with kernels and with all modules that these import; a test compares this with the tree.

An edit elsewhere, such as in the command line, compiles no kernel again.
"""

part = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorates a function that only kernels call. Python never calls it, so it needs no wrappers, nor a cache."""

inlined = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, _nrt=False)
"""Decorates a part of the judge's kernels: it takes tuples of arrays and makes no arrays.

LLVM copies it into its callers; a call would pass every field of every array on the stack. Nor does it count
references (_nrt), as numba does for each field that is read: together that made the merge of postings three times as
slow.
"""


def kernel(function: Callable[..., Any]) -> Any:
    """Decorate a function that Python calls: numba compiles it at its first call and keeps it on disk."""
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
    """Path and bytes of each Python file below a folder, in the order of the names."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.read_bytes()
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _python_files(entry, f"{path}/{entry.name}")


class _StampedImplementation(CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped.
    """Files of a kernel in the folder that numba's locator chooses, with our stamp in place of the locator's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.locator.get_source_stamp = source_digest


class _StampedCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, with our stamp."""

    _impl_class = _StampedImplementation


class _KernelCache(_Cache):  # type: ignore[misc]
    """The cache of one kernel. It is opened when numba first uses it, so importing a kernel reads no source files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _opened(self) -> _StampedCache:
        return _StampedCache(self._function)

    @property
    def cache_path(self) -> Any:
        return self._opened.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._opened.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._opened.save_overload(sig, data)

    def enable(self) -> None:
        self._opened.enable()

    def disable(self) -> None:
        self._opened.disable()

    def flush(self) -> None:
        self._opened.flush()
