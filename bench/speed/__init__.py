"""Measures speed for docs/measured/speed.md: `make bench`, or `python -m bench.speed kernel|index|pipeline|...`."""
