"""The schemes that choose what they compare by frozen term statistics: how many pages of a sample have a term."""
