"""Answers questions about verdicts: explain, clusters, replay, migrate, shards and a live view."""
