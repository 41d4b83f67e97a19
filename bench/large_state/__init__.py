"""Measures a state that exceeds the memory that it may use, for docs/large-state.md: `make large`."""
