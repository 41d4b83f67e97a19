"""Fixed-size identities folded from features."""
