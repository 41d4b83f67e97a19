"""Features of a page: main text, shingles, spots, block fingerprints and language."""
