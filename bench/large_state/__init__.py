"""`make large` measures a state that exceeds the memory of its process: docs/measured/large-state.md."""
