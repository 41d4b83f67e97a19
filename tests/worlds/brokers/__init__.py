"""Real brokers, and proxies between them and a service."""
