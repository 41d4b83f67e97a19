"""Owns what runs around the filter; only `deploy.localkafka` is installed with the distribution."""
