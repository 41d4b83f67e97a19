"""Reads a state that does not change meanwhile, a checkpoint or a snapshot, without owning it."""
