"""The quality measurements: `python -m bench.quality` writes docs/measured/quality.md from the labelled sets."""
