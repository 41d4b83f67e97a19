"""Scrapes the metrics of workers over HTTP, all workers at the same time."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from spotsieve.stream.base.errors import EXIT_NOT_FOUND, SettingError, SpotsieveError

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 16 * 2**20
"""A worker with 1,000 partitions sends less than a megabyte. A larger response is not from a worker."""
MAX_CONCURRENT = 32
PORT = 9464
WORKER_METRIC = "spotsieve_ready"
"""A response with this metric is from a worker."""


class NoResponse(SpotsieveError):
    """Stop: a worker does not respond, or the response is not from a worker."""

    exit_code = EXIT_NOT_FOUND


@dataclass(frozen=True, slots=True)
class Scrape:
    """The metrics of a worker: (labels, value) pairs, by sample name. at: seconds of a monotonic clock"""

    url: str
    at: float
    samples: dict[str, list[tuple[dict[str, str], float]]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and these labels; 0 without samples."""
        return sum(value for found, value in self.samples.get(name, ()) if labels.items() <= found.items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sums of the samples, by the value of a label."""
        sums: dict[str, float] = {}
        for labels, value in self.samples.get(name, ()):
            key = labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums


def metrics_url(address: str) -> str:
    """The metrics URL of a worker, given as host, host:port or URL. Raises SettingError."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingError(
            "URL",
            "must be the address of a worker's metrics",
            address,
            "write it as HOST:PORT or http://HOST:PORT/metrics",
        )
    port = port or (443 if parts.scheme == "https" else PORT)
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}:{port}{parts.path if parts.path.strip('/') else '/metrics'}"


def scrape(url: str) -> Scrape:
    """Scrape one worker. Raises NoResponse."""
    try:
        body = _read(url)
    except (OSError, http.client.HTTPException) as error:
        raise NoResponse(url, "must respond with the metrics of a worker", _reason(error), _NEXT) from None
    if len(body) > MAX_BYTES:
        raise NoResponse(url, f"must respond with at most {MAX_BYTES} bytes", "more", _NEXT)
    at = time.monotonic()
    try:
        samples = _samples(text_string_to_metric_families(body.decode("utf-8", "replace")))
    except (ValueError, KeyError, IndexError):
        samples = {}
    if WORKER_METRIC not in samples:
        raise NoResponse(url, "must respond with the metrics of a worker", f"no {WORKER_METRIC}", _NEXT)
    return Scrape(url, at, samples)


def scrape_all(urls: Sequence[str]) -> list[Scrape | NoResponse]:
    """Scrape all workers at the same time; -> the metrics or the error of each URL, in order."""

    def one(url: str) -> Scrape | NoResponse:
        try:
            return scrape(url)
        except NoResponse as error:
            return error

    with ThreadPoolExecutor(min(len(urls), MAX_CONCURRENT), thread_name_prefix="scrape") as pool:
        return list(pool.map(one, urls))


# Ignore http_proxy: workers are in this network.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_NEXT = "start the worker, or give its metrics.host and metrics.port: spotsieve top HOST:PORT"


def _read(url: str) -> bytes:
    """The body of the response, truncated after more than MAX_BYTES. Raises OSError and HTTPException."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    body = bytearray()
    with _OPENER.open(url, timeout=TIMEOUT_SECONDS) as response:
        while len(body) <= MAX_BYTES and (part := response.read1(2**16)):
            body += part
            if time.monotonic() > deadline:
                raise TimeoutError
    return bytes(body)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}"
    if isinstance(reason, TimeoutError):
        return f"nothing within {TIMEOUT_SECONDS:.0f} s"
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__


def _samples(families: Iterable[Metric]) -> dict[str, list[tuple[dict[str, str], float]]]:
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples
