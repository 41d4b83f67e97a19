"""Takes snapshots of a state and restores them; asks the owner of a state for checkpoints."""
