"""Scans HTML without a DOM, by the rules of the HTML standard."""
