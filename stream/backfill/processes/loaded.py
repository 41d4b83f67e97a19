"""Loads what every reader needs when it is imported: its modules, and the kernels of the default scheme.

Another scheme's kernels are read from numba's cache with the first page; what numba itself loads is there by then.
"""

import spotsieve.stream.backfill.processes.readers  # noqa: F401 - it has all that a reader imports
from spotsieve.stream.kernels import STORY
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.registry import scheme_in_scope
from spotsieve.stream.service.allocator import keep_freed_memory, pass_over_what_stays
from spotsieve.stream.settings.model import Settings

keep_freed_memory()
scheme_in_scope(Settings()).sign([Page("loaded", 0, 0, "https://loaded.example/", STORY.encode(), True, 0)])
pass_over_what_stays()
