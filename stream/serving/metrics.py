"""Owns the metrics of `spotsieve serve`: requests, pages, batches, what waits, and how old the state's view is."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class ServeMetrics:
    """The metrics, with a registry of their own. path is one of the routes, or `other`: strangers make no labels."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "spotsieve_serve_requests", "Requests, by route and status.", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "spotsieve_serve_request_seconds",
            "From the head of a request to its answer.",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.pages = Counter(
            "spotsieve_serve_pages", "Pages judged, by act and verdict.", ("act", "verdict"), registry=self.registry
        )
        self.batch_pages = Histogram(
            "spotsieve_serve_batch_pages",
            "Pages that were judged together.",
            buckets=PAGES,
            registry=self.registry,
        )
        self.refreshes = Counter(
            "spotsieve_serve_refreshes",
            "Times that the state was opened anew, by outcome.",
            ("outcome",),
            registry=self.registry,
        )

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(name, about, registry=self.registry).set_function(value)
