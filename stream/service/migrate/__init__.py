"""Migrates the log topic of a running service into another one, and switches its workers over."""
