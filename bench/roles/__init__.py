"""Kills, freezes and empties workers, shards and resolvers under load, and times the takeover by a standby resolver."""
