"""Owns what the worker waits for: told by /readyz, counted in a metric, and over when it has gone well once."""

from spotsieve.stream.observe.metrics import Metrics


class Waits:
    """What the broker keeps the worker waiting for, by step; a partition's steps are kept apart."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waits: dict[tuple[str, object], str] = {}

    def failed(self, step: str, error: BaseException | str, of: object = None) -> None:
        """A try failed and will be repeated."""
        self._metrics.retries.labels(step).inc()
        where = "" if of is None else f" of partition {of}"
        name = error if isinstance(error, str) else type(error).__name__
        self._waits[step, of] = f"waiting for the broker: {step}{where}: {name}"

    def over(self, step: str, of: object = None) -> None:
        """The step succeeded, or is no longer wanted."""
        self._waits.pop((step, of), None)

    def texts(self) -> list[str]:
        """For a person who asks whether the worker is ready; from any thread."""
        return list(self._waits.values())
