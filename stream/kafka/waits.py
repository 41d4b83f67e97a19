"""Keeps what a process waits for: /readyz shows it and a metric counts it, until the step succeeds once."""

from spotsieve.stream.observe.metrics import Metrics


class Waits:
    """The steps that wait for the broker. Each partition has its own."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waits: dict[tuple[str, object], str] = {}

    def failed(self, step: str, error: BaseException | str, of: object = None, waited_for: str = "the broker") -> None:
        """A try has failed and will be repeated."""
        self._metrics.retries.labels(step).inc()
        where = "" if of is None else f" of partition {of}"
        name = error if isinstance(error, str) else type(error).__name__
        self._waits[step, of] = f"waiting for {waited_for}: {step}{where}: {name}"

    def over(self, step: str, of: object = None) -> None:
        """The step has succeeded, or is no longer wanted."""
        self._waits.pop((step, of), None)

    def texts(self) -> list[str]:
        """Lines for a person who asks whether the worker is ready. Any thread may call this."""
        return list(self._waits.values())
