"""Loads numba as commands do, before anything else loads it."""

from spotsieve.stream.base.startup import quick_start

quick_start()
