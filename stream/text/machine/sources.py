"""Ties a cached kernel to all the source files that it was compiled from, and decorates the parts of kernels.

numba drops a cached kernel when the file of its outermost function changes, but not when the file of a function that it
calls does: after an update of text/html/scan.py a worker would go on with the old scanner. But the cache key covers
the values that a cached function closes over. So only outermost functions are cached, and each closes over this digest.
"""

import hashlib
from functools import cache
from importlib.resources import files

from numba import njit

_FOLDERS = (
    "spotsieve.stream.text",
    "spotsieve.stream.text.html",
    "spotsieve.stream.text.machine",
    "spotsieve.stream.features",
    "spotsieve.stream.fingerprints",
)

part = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorates the parts of a cached kernel. Python never calls them, so they need no wrappers for it."""


@cache
def sources_digest(*above: str) -> int:
    """63 bits of the SHA-256 of the kernels' source files, names and contents.

    above: packages whose kernels are made of those of these folders and of their own
    """
    digest = hashlib.sha256()
    for folder in (*_FOLDERS, *above):
        for file in sorted(files(folder).iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".py"):
                source = file.read_bytes()
                digest.update(f"{folder}/{file.name} {len(source)}\n".encode() + source)
    return int.from_bytes(digest.digest()[:8], "little") >> 1
