"""Reads the metrics of workers over HTTP: one worker a URL, all of them at the same time."""

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
MOST_BYTES = 16 * 2**20
"""A worker with 1,000 partitions answers with part of a megabyte. More is no worker's."""
MOST_AT_ONCE = 32
PORT = 9464
OURS = "spotsieve_ready"
"""The metric by which an answer is known to be a worker's."""


class NoAnswer(SpotsieveError):
    """Stop: a worker that was named does not answer, or what answers is none."""

    exit_code = EXIT_NOT_FOUND


@dataclass(frozen=True, slots=True)
class Scrape:
    """The metrics of a worker: by name of a sample each set of labels with its value.

    at: seconds of a clock that only goes on
    """

    url: str
    at: float
    samples: dict[str, list[tuple[dict[str, str], float]]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name whose labels include the given ones; 0 where there are none."""
        return sum(value for found, value in self.samples.get(name, ()) if labels.items() <= found.items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """By value of a label the sum of the samples."""
        sums: dict[str, float] = {}
        for labels, value in self.samples.get(name, ()):
            key = labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums


def metrics_url(given: str) -> str:
    """Where the metrics of a worker are, for an address as people write it: host, host:port, or a URL.

    Raises SettingError.
    """
    text = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingError(
            "URL",
            "must be the address of a worker's metrics",
            given,
            "give it as HOST:PORT or http://HOST:PORT/metrics",
        )
    port = port or (443 if parts.scheme == "https" else PORT)
    address = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{address}:{port}{parts.path if parts.path.strip('/') else '/metrics'}"


def scrape(url: str) -> Scrape:
    """Read the metrics of a worker. Raises NoAnswer."""
    try:
        body = _read(url)
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(url, "must answer with the metrics of a worker", _why(error), _NEXT) from None
    if len(body) > MOST_BYTES:
        raise NoAnswer(url, f"must answer with at most {MOST_BYTES} bytes", "more", _NEXT)
    at = time.monotonic()
    try:
        samples = _samples(text_string_to_metric_families(body.decode("utf-8", "replace")))
    except (ValueError, KeyError, IndexError):
        samples = {}
    if OURS not in samples:
        raise NoAnswer(url, "must answer with the metrics of a worker", f"an answer without {OURS}", _NEXT)
    return Scrape(url, at, samples)


def scrape_all(urls: Sequence[str]) -> list[Scrape | NoAnswer]:
    """Read all at the same time; -> in the order of the URLs each worker's metrics, or why there are none."""

    def one(url: str) -> Scrape | NoAnswer:
        try:
            return scrape(url)
        except NoAnswer as error:
            return error

    with ThreadPoolExecutor(min(len(urls), MOST_AT_ONCE), thread_name_prefix="scrape") as pool:
        return list(pool.map(one, urls))


# Straight to the worker, whatever http_proxy says: it is in this network.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_NEXT = "start it, or name its metrics.host and metrics.port: spotsieve top HOST:PORT"


def _read(url: str) -> bytes:
    """The body of the answer, or as much as is too much of it. Raises OSError and HTTPException."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    body = bytearray()
    with _OPENER.open(url, timeout=TIMEOUT_SECONDS) as answer:
        while len(body) <= MOST_BYTES and (part := answer.read1(2**16)):
            body += part
            if time.monotonic() > deadline:
                raise TimeoutError
    return bytes(body)


def _why(error: Exception) -> str:
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
