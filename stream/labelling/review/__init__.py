"""Draws pairs of pages that people judge by eye, and writes them as one HTML page."""
