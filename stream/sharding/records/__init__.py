"""Writes and reads what shards and the resolver tell each other; state/FORMATS.md has every byte."""
