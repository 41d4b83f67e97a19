"""Kafka as the service needs it: clients, topics, what its errors mean, and how long to wait for it."""
