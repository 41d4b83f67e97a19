"""Compares a replay with the record: the pages of a range, their order in the log, old and new verdicts."""
