"""A shard: it answers the rounds that the resolver names, files their outcomes, and fills itself where it is new."""
