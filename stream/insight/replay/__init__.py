"""Judges a range of the input topic again, and compares the verdicts with the recorded ones."""
