"""Measurements that papers report, made again with our schemes; they write docs/papers.md."""
