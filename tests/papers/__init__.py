"""Measurements that papers report, made again with our schemes: `python -m tests.papers`, for docs/papers.md."""
