"""Counts pages and dropped pages of the most frequent hosts, in bounded memory."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.urls import MAX_HOST_CHARACTERS, host_of

CAPACITY = 1024
"""Number of hosts counted at a time. Every host with more than a thousandth of all pages is among them."""
SHOWN = 20
"""A scrape exposes this many hosts with most dropped pages and as many with most pages: at most 40 series per
metric."""
SHOWN_PAGES = 100
"""A host is exposed from this number of pages on, so that a crawl of made-up hosts does not create a series for
each."""
NO_HOST = "(none)"
"""Label of URLs without a host, and of URLs whose host is longer than a host name may be."""
_URL_BYTES = 1024
"""Bytes of a URL that are searched for the host. A valid host name ends well before."""


@dataclass(frozen=True, slots=True)
class HostCount:
    """Counts of one host since TopHosts began to count it. pages and dropped are exact.

    missed: upper bound of its pages before that, at most all pages / capacity
    """

    host: str
    pages: int
    dropped: int
    missed: int


class TopHosts:
    """The Space-Saving summary of Metwally et al. 2005 (Efficient Computation of Frequent and Top-k Elements, sec. 3).

    A new host replaces the host with the least count, and inherits that count as its `missed`. So after n pages every
    host with more than n / capacity pages is counted, and missed is at most n / capacity.
    Departures: a micro-batch adds all pages of a host at once, which keeps both bounds; among equal least counts the
    lowest slot is replaced; dropped pages are counted separately. Any thread may call any method.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._slots: dict[str, int] = {}
        self._names: list[str] = []
        self._counts = np.zeros(capacity, np.int64)
        self._missed = np.zeros(capacity, np.int64)
        self._dropped = np.zeros(capacity, np.int64)
        self._lock = threading.Lock()

    def add(self, hosts: Iterable[str], dropped: Iterable[bool]) -> None:
        """Count the pages of a micro-batch. hosts, dropped: one value per page"""
        found: dict[str, list[int]] = {}
        for host, is_dropped in zip(hosts, dropped, strict=True):
            counts = found.setdefault(host, [0, 0])
            counts[0] += 1
            counts[1] += is_dropped
        with self._lock:
            for host, (pages, dropped_pages) in found.items():
                slot = self._slots.get(host)
                if slot is None:
                    slot = self._assign_slot(host)
                self._counts[slot] += pages
                self._dropped[slot] += dropped_pages

    def counts(self) -> list[HostCount]:
        """Counts of all hosts, in no particular order."""
        with self._lock:
            used = len(self._names)
            rows = (self._counts[:used].tolist(), self._missed[:used].tolist(), self._dropped[:used].tolist())
            names = list(self._names)
        return [
            HostCount(name, count - missed, dropped, missed)
            for name, count, missed, dropped in zip(names, *rows, strict=True)
        ]

    def _assign_slot(self, host: str) -> int:
        """Assign a new host a free slot, or the slot of the host with the least count."""
        slot = len(self._names)
        if slot < self._capacity:
            self._names.append(host)
        else:
            slot = int(self._counts.argmin())
            del self._slots[self._names[slot]]
            self._names[slot] = host
            self._missed[slot] = self._counts[slot]
            self._dropped[slot] = 0
        self._slots[host] = slot
        return slot


class HostMetrics(Collector):
    """Prometheus counters of TopHosts for the hosts with most pages and the hosts with most dropped pages.

    A host may vanish from the scrape and come back later: its counter then continues or restarts at 0.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hosts = TopHosts()
        registry.register(self)

    def count(self, urls: Iterable[bytes], dropped: Iterable[bool]) -> None:
        """Count the pages of a micro-batch. urls, dropped: one value per page"""
        self._hosts.add(map(_host_label, urls), dropped)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield both counters with their hosts."""
        pages, dropped = self.describe()
        for one in _shown(self._hosts.counts()):
            pages.add_metric([one.host], one.pages)
            dropped.add_metric([one.host], one.dropped)
        yield pages
        yield dropped

    def describe(self) -> tuple[CounterMetricFamily, CounterMetricFamily]:
        """Both counters without any host."""
        return (
            CounterMetricFamily(
                "spotsieve_host_pages",
                "Committed pages of the hosts with most pages or most dropped pages.",
                labels=["host"],
            ),
            CounterMetricFamily("spotsieve_host_dropped_pages", "Dropped pages of the same hosts.", labels=["host"]),
        )


def _shown(counts: Iterable[HostCount]) -> list[HostCount]:
    frequent = [one for one in counts if one.pages >= SHOWN_PAGES]
    most_dropped = sorted(frequent, key=lambda one: (-one.dropped, one.host))[:SHOWN]
    largest = sorted(frequent, key=lambda one: (-one.pages, one.host))[:SHOWN]
    return list({one.host: one for one in (*most_dropped, *largest)}.values())


def _host_label(url: bytes) -> str:
    host = host_of(url[:_URL_BYTES].decode("utf-8", "replace"))
    return escape_control_characters(host) if 0 < len(host) <= MAX_HOST_CHARACTERS else NO_HOST
