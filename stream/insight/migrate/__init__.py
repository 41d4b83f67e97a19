"""Moves a log into a new one with other settings, record by record, and reports the verdicts that differ."""
