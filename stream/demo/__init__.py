"""The demo: the real service filters a crawl with known truth on a real Kafka."""
