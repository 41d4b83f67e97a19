"""Owns batch evaluation: schemes over labelled sets, side by side, and how that is drawn and written down."""

ALL = "all"
"""In place of schemes' names: every one that is registered."""
THRESHOLD = "threshold"
"""In place of a setting and its values: of each scheme the threshold, over the values that its settings name."""
