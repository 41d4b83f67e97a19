"""Sets up the memory of a process that runs for weeks: what the C library keeps, and when Python looks for garbage."""

import ctypes
import gc

COLLECT_AFTER = 50_000
"""Objects that are made before Python looks for garbage. A page on its way has some ten; Python's own 700 would have it
look after each seventy."""
KEPT_BYTES = 256 * 2**20
"""Free memory that is not given back to the system. Pages on their way take up to half of it (worker.py)."""
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
