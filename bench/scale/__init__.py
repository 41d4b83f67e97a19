"""Sizes a cluster: measures the CPU of every role and the hops on a real broker, and simulates clusters from them."""
