"""Prometheus queries of the panels. Every query is restricted to the selected workers in one place."""

import re

from grafana_foundation_sdk.builders import prometheus

SERIES = re.compile(r"\b((?:spotsieve|process)_\w+|ALERTS)(?:\{([^}]*)\})?")
CHOSEN = 'instance=~"$instance"'


def query(expression: str, legend: str = "") -> prometheus.Dataquery:
    """A query, restricted to the selected workers: each of its series is one of ours, or of our alerts."""
    narrowed = SERIES.sub(lambda found: f"{found[1]}{{{', '.join(filter(None, (found[2], CHOSEN)))}}}", expression)
    return prometheus.Dataquery().expr(narrowed).legend_format(legend).range()


def each(name: str, legend: str = "{{instance}}") -> prometheus.Dataquery:
    """A gauge of each worker."""
    return query(name, legend)


def rate(name: str, by: str = "", where: str = "", legend: str = "", *, or_zero: bool = False) -> prometheus.Dataquery:
    """A counter's rate per second, over all workers. or_zero: also while nothing was counted yet"""
    return _summed("rate", name, by, where, legend, or_zero=or_zero)


def gained(name: str, by: str = "", where: str = "", legend: str = "") -> prometheus.Dataquery:
    """A counter's increase between two points of the graph."""
    return _summed("increase", name, by, where, legend)


def quantile(q: float, name: str, by: str = "", legend: str = "") -> prometheus.Dataquery:
    """A quantile of a histogram over all workers."""
    labels = ", ".join(filter(None, ("le", by)))
    buckets = f"sum by ({labels}) (rate({name}_bucket[$__rate_interval]))"
    return query(f"histogram_quantile({q:g}, {buckets})", legend or _legend(by))


def mean(name: str, legend: str) -> prometheus.Dataquery:
    """The mean of a histogram over all workers."""
    return query(f"sum(rate({name}_sum[$__rate_interval])) / sum(rate({name}_count[$__rate_interval]))", legend)


def _summed(
    function: str, name: str, by: str, where: str, legend: str, *, or_zero: bool = False
) -> prometheus.Dataquery:
    total = f"sum by ({by}) " if by else "sum"
    series = f"{name}{{{where}}}" if where else name
    text = f"{total}({function}({series}[$__rate_interval])){' or vector(0)' * or_zero}"
    return query(text, legend or _legend(by))


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", ")) if by else ""
