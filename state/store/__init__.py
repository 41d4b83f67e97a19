"""Where a state lives: in RocksDB or in memory, behind one contract."""
