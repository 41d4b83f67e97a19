"""The key that ties a compiled kernel in numba's cache to every source file it was made of.

numba throws a cached kernel away when the file of its outermost function changes, not when one it calls does: after an
update of stream/text/scan.py a worker would go on with the old scanner. But values that a cached function closes over
are part of its cache key. So only the outermost functions are cached, and each closes over this digest.
"""

import hashlib
from functools import cache
from importlib.resources import files

_FOLDERS = ("stream.text", "stream.features", "stream.fingerprints")


@cache
def sources_digest() -> int:
    """63 bits of the SHA-256 of the kernels' source files, names and contents."""
    digest = hashlib.sha256()
    for folder in _FOLDERS:
        for file in sorted(files(folder).iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".py"):
                source = file.read_bytes()
                digest.update(f"{folder}/{file.name} {len(source)}\n".encode() + source)
    return int.from_bytes(digest.digest()[:8], "little") >> 1
