"""Measurements that papers report, made again with our schemes; `python -m tests.measure.papers` writes docs/papers.md."""
