"""Owns the speed measurements of README: `make bench`, or `python -m tests.measure.bench kernel|index|pipeline|...`."""
