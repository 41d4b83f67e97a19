"""Stores a state over a key-value backend: RocksDB, memory or a read-only checkpoint."""
