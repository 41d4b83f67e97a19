"""Owns what a replay compares: the pages of a range, the log's order of them, recorded verdicts beside new ones."""
