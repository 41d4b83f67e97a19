"""A service keeps the memory that it freed, and does not look through what stays for garbage."""

import ctypes
import subprocess
import sys

import pytest

TAKE_AND_FREE = """
import resource
for _ in range(40):
    batch = [bytes(100_000) for _ in range(60)]
    del batch
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""
COLLECTING = """
import gc
from spotsieve.stream.base.startup import COLLECT_AFTER, freeze_loaded_objects
freeze_loaded_objects()
loaded = gc.get_freeze_count()
print(loaded, gc.get_threshold()[0] == COLLECT_AFTER)
"""


def printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc's mallopt is not here")
def test_memory_that_was_freed_is_taken_again_without_page_faults() -> None:
    keep = "from spotsieve.stream.base.startup import keep_freed_memory as keep\n"
    (given_back,) = printed(keep + TAKE_AND_FREE)
    (kept,) = printed(keep + "keep()" + TAKE_AND_FREE)
    # 60 blocks of 100 KB are 1,465 pages of 4 KB. By itself glibc gives them back after each of 40 rounds.
    assert int(kept) < int(given_back) / 3, f"{kept} page faults, and {given_back} by default"


def test_what_is_loaded_is_left_out_of_the_search_for_garbage() -> None:
    loaded, seldom = printed(COLLECTING)
    assert int(loaded) > 1_000
    assert seldom == "True"
