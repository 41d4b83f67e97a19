"""Sizes a cluster by figures: CPU of every role, hops on a real broker, and a simulation that these feed."""
