"""Judges pages with a memory of every host: what of a page is its own, and which pages own the same."""
