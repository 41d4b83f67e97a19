"""Measures speed for docs/speed.md: `make bench`, or `python -m bench.speed kernel|index|pipeline|...`."""
