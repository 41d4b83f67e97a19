"""Fingerprints, sketches and digests of fixed size from features, and the index keys made of them."""
