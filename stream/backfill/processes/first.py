"""Loads numba as commands do, before anything else loads it."""

from spotsieve.stream.quick_start import quick_start

quick_start()
