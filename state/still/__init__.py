"""A state that lies still, a checkpoint or a snapshot, read without owning it."""
