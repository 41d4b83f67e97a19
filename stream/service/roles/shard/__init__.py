"""The role shard: responds to rounds of the resolver, indexes their outcomes, and fills its state when it is new."""
