"""Kills, freezes and empties workers, shards and resolvers while pages flow, and times how a resolver is followed."""
