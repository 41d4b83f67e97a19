"""Measurements that papers report, made again with our schemes; they write docs/measured/papers.md."""
