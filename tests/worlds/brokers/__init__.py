"""Real brokers, and what stands between them and a service."""
