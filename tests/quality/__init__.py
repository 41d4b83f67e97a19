"""Owns the quality measurements: `python -m tests.quality` writes docs/quality.md from the labelled sets."""
