"""Evaluates schemes over labelled sets, side by side, and reports the figures in tables, plots and pages."""

ALL = "all"
"""The value of --scheme for all schemes."""
THRESHOLD = "threshold"
"""The value of --sweep for the threshold of each scheme, over the values that the scheme's settings declare."""
