"""Kafka for the service: clients, topics, error decisions and waits."""
