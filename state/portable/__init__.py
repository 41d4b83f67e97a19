"""A state as JSON Lines, which other programs can read, and made of them again."""
