"""Explains a verdict: candidates, keys in common, thresholds, and both texts side by side."""
