"""Reproduces measurements of papers with our schemes; writes docs/measured/papers.md."""
