"""The role resolver: announces rounds, resolves them from the responses of shards, and publishes outcomes in
`verdicts`.
"""
