"""Decorators for kernels: numba's options of this package, and a cache on disk that notices every edit.

A compiled kernel contains all functions that it calls and all constants that it names, from any module. But numba
invalidates a cached kernel only if the file of the kernel itself changes: after an update of the HTML scanner, a worker
would keep the old scanner. Therefore the kernels of this package have their own cache class. The stamp of a kernel is a
digest of its module and of all modules of this package that it imports, directly or through others: everything that can
become part of the kernel. A kernel with another stamp is compiled again.

Other numba functions in the process keep numba's cache. numba still chooses the folder: NUMBA_CACHE_DIR, else
__pycache__ next to the source, else the user's cache folder if that is read-only, or the locators of
NUMBA_CACHE_LOCATOR_CLASSES.

A kernel that is not there is loaded from __pycache__ next to the source, where a wheel installs it. numba itself never
reads a folder that it cannot write to, so every user of a package that root installed would compile it again.
"""

import hashlib
import re
from collections.abc import Callable
from functools import cache, cached_property, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

from llvmlite.binding import parse_bitcode
from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _Cache
from numba.core.codegen import JITCodeLibrary

from spotsieve.stream.base.startup import PORTABLE, Expectation, portable_kernels_fit

_PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^[ \t]*(?:from {_PACKAGE}\.([\w.]+) import (\([^)]*\)|[^\n]*)|import {_PACKAGE}\.([\w.]+))", re.MULTILINE
)

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


def plain_tuples(value: Any) -> Any:
    """A named tuple of arrays, and all named tuples in it, as plain tuples.

    Kernels that one page calls take plain tuples, and make named tuples of them: numba takes 1 us to recognise the type
    of a named tuple of five arrays, and 0.3 us for the same plain tuple.
    """
    return tuple(map(plain_tuples, value)) if isinstance(value, tuple) else value


@cache
def source_digest(module: str) -> bytes:
    """The SHA-256 of the sources of a module of this package and of the modules that it imports: names and contents.

    module: its dotted name
    """
    return hashlib.sha256(b"".join(_read(path).digest for path in sorted(imported_files(module)))).digest()


def imported_files(module: str) -> set[str]:
    """The files of a module and of all modules of this package that it imports: paths relative to the package."""
    found = set[str]()
    waiting = {_file_of(module.removeprefix(f"{_PACKAGE}."))}
    while waiting:
        path = waiting.pop()
        if path is not None and path not in found:
            found.add(path)
            waiting |= _read(path).imports
    return found


@cache
def _root() -> Traversable:
    return files(_PACKAGE)


class _Source(NamedTuple):
    """A source file. digest: SHA-256 of its path and contents  imports: the files that its import statements name"""

    digest: bytes
    imports: frozenset[str | None]


@cache
def _read(path: str) -> _Source:
    source = (_root() / path).read_bytes()
    found = set[str]()
    for parent, names, module in _IMPORT.findall(source.decode()):
        # Importing a module from a package names both.
        found |= {parent or module, *(f"{parent}.{name}" for name in re.findall(r"\w+", names))}
    return _Source(hashlib.sha256(f"{path}\n".encode() + source).digest(), frozenset(map(_file_of, found)))


@cache
def _file_of(module: str) -> str | None:
    """The file of a module, given by its dotted name inside the package; None if there is no such module."""
    path = module.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if (_root() / file).is_file()), None)


class _CachedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The machine code of a cached kernel. Its bitcode is parsed only if the kernel goes into another one.

    numba parses the bitcode of every kernel that it loads, and lists its functions: half the time that loading takes.
    """

    _bitcode = b""
    _shared_module: Any

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(codegen, state)
        library = codegen.create_library(name)
        machine_code, library._bitcode = data
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        return library

    def get_pointer_to_function(self, name: str) -> Any:
        if not self._codegen._engine.is_symbol_defined(name):
            self._parse_bitcode()
        return super().get_pointer_to_function(name)

    def _get_module_for_linking(self) -> Any:
        self._parse_bitcode()
        return super()._get_module_for_linking()

    def _parse_bitcode(self) -> None:
        if self._bitcode and self._shared_module is None:
            self._shared_module = parse_bitcode(self._bitcode)
            self._codegen._engine._load_defined_symbols(self._shared_module)


_LOADING = Expectation(
    "numba.core.codegen:JITCodeLibrary._unserialize",
    uses=(
        *("create_library", "enable_object_caching", "_set_compiled_object", "_finalize_final_module"),
        *("_shared_module", "parse_bitcode", "_engine", "_load_defined_symbols"),
    ),
)
"""How numba loads a library. _CachedLibrary does the same without the last two; with another numba it is not used."""


@cache
def _parses_late() -> bool:
    return _LOADING.fault() is None


class _StampedImplementation(CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped.
    """The cache files of a kernel, in the folder of numba's locator, with the stamp of this package."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.locator.get_source_stamp = partial(source_digest, function.__module__)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The compiled kernel of a cache file. numba calls it with its compiler lock held."""
        if not _parses_late():
            return super().rebuild(target_context, payload)
        codegen, (_, description, *_) = target_context.codegen(), payload
        # The engine runs only functions that it knows by name, and Python calls a kernel by this one.
        codegen._engine._defined_symbols.add(description.llvm_cpython_wrapper_name)
        codegen._library_class = _CachedLibrary
        try:
            return super().rebuild(target_context, payload)
        finally:
            del codegen._library_class


class _StampedCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, with the stamp of this package. It also reads the kernel installed with it."""

    _impl_class = _StampedImplementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        folder = Path(function.__code__.co_filename).parent / "__pycache__"
        stamp = source_digest(function.__module__)
        self._installed = IndexDataCacheFile(str(folder), self._impl.filename_base, stamp)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        # Installed kernels have no checks of bounds, and numba's keys do not tell.
        tried = found is None and self._enabled and not config.BOUNDSCHECK
        return self._load_installed(sig, target_context) if tried else found

    def _load_installed(self, sig: Any, target_context: Any) -> Any:
        """The kernel installed with the package, for the CPU that numba compiles for or for PORTABLE; None without it.

        If a program imports numba before this package, numba compiles for this machine's CPU. An object file for
        PORTABLE can still be linked, and compiling all kernels would take minutes.
        """
        own = self._index_key(sig, target_context.codegen())
        _, (triple, *_), hashes = own
        keys = [own, (sig, (triple, PORTABLE, ""), hashes)] if portable_kernels_fit() else [own]
        try:
            data = next(filter(None, map(self._installed.load, keys)), None)
        except (AttributeError, ImportError, OSError, EOFError, UnpicklingError):
            return None  # It is out of date (see _KernelCache.load_overload), or cannot be read.
        return None if data is None else self._impl.rebuild(target_context, data)


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
            # The index is empty now, so an installed kernel is found, if there is one.
            return self._opened.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._opened.save_overload(sig, data)

    def enable(self) -> None:
        self._opened.enable()

    def disable(self) -> None:
        self._opened.disable()

    def flush(self) -> None:
        self._opened.flush()
