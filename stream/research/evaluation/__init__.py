"""Evaluates schemes over labelled sets, side by side, and draws and reports the figures."""

ALL = "all"
"""Stands for the names of all schemes."""
THRESHOLD = "threshold"
"""Stands for a setting and its values: the threshold of each scheme, over the values that its settings name."""
