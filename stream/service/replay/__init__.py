"""Reads a recorded topic, puts it in the log's order, judges it again, and compares the verdicts."""
