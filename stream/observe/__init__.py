"""Observability of a running service: metrics, health port and logs."""
