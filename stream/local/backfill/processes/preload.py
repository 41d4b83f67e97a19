"""Load numba with the compiler settings of the commands, before any other module loads it."""

from spotsieve.stream.base.startup import quick_start

quick_start()
