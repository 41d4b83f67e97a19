"""The service around the pure part: Kafka in, Kafka out, commits, metrics and health."""
