"""Reads a checkpoint or a snapshot of a state read-only, without owning the state."""
