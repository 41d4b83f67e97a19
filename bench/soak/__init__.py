"""The soak test: many pages of mixed sizes through services whose workers are killed again and again."""
