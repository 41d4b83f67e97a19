"""The quality measurements: `python -m tests.measure.quality` writes docs/quality.md from the labelled sets."""
