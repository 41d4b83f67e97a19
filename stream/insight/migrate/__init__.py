"""Moves a log into another one with other settings, record by record, and tells which verdicts differ."""
