"""The role resolver: announces rounds, resolves them, and publishes their outcomes in `verdicts`."""
