"""Builds models of term statistics from a sample of pages, and measures sampling ratios of shingles."""
