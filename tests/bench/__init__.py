"""Owns the speed measurements of README: `make bench`, or `python -m tests.bench kernel|index|pipeline|...`."""
