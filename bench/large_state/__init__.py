"""Measures a state that exceeds the memory that it may use, for docs/measured/large-state.md: `make large`."""
