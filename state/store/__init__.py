"""Stores a state, in RocksDB or in memory, under one contract."""
