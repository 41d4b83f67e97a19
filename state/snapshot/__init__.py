"""Snapshots of a state: asked for, taken, and brought back."""
