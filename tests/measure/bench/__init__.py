"""Measures speed for docs/speed.md: `make bench`, or `python -m tests.measure.bench kernel|index|pipeline|...`."""
