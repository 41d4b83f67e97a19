"""Load the kernels of the default scheme on import, and set up the memory that readers start with.

The kernels of another scheme are read from numba's cache with the first page, when numba itself is already loaded.
"""

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.startup import freeze_loaded_objects, keep_freed_memory
from spotsieve.stream.engine.warmup import STORY
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

keep_freed_memory()
scheme_in_scope(Settings()).sign([Page("loaded", 0, 0, "https://loaded.example/", STORY.encode(), True, 0)])
freeze_loaded_objects()
