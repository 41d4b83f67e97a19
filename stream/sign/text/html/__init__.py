"""Reads HTML without a DOM, as the HTML standard says."""
