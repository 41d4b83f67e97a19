"""Exports a state as JSON Lines, imports it again, and merges the states of shards."""
