"""Takes and restores snapshots of a state, and requests checkpoints from the owner of a state."""
