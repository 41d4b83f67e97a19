"""The soak: many pages of mixed sizes through two workers, one of which is killed again and again."""
