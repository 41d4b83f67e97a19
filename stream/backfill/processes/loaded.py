"""Loads the kernels of the default scheme when it is imported, and sets up the memory that readers begin with.

Another scheme's kernels are read from numba's cache with the first page; what numba itself loads is there by then.
"""

from spotsieve.stream.kernels import STORY
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.registry import scheme_in_scope
from spotsieve.stream.service.allocator import keep_freed_memory, pass_over_what_stays
from spotsieve.stream.settings.model import Settings

keep_freed_memory()
scheme_in_scope(Settings()).sign([Page("loaded", 0, 0, "https://loaded.example/", STORY.encode(), True, 0)])
pass_over_what_stays()
