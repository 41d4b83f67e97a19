"""Writes the order of pages down: the records of the log, and the log in a file."""
