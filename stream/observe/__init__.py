"""What a running service tells: metrics, health and log lines."""
