"""The quality measurements: `python -m bench.quality` writes docs/quality.md from the labelled sets."""
