"""Owns what `spotsieve demo` shows: a crawl with known truth, filtered by the real service on a real Kafka."""
