"""Stores a state: one State over a key-value backend, which is RocksDB, memory or a read-only checkpoint."""
