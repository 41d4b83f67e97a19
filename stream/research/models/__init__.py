"""Term statistics of a sample of pages, counted and frozen for the schemes that need them."""
