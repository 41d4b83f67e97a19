"""Counts the pages of the hosts that have most, and how many of them were dropped, in bounded memory."""

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
"""Hosts that are counted at one time: every host with more than a thousandth of all pages is among them."""
SHOWN = 20
"""Hosts with most dropped pages that a scrape sees, and as many with most pages: at most 40 series a metric."""
SHOWN_PAGES = 100
"""A host is shown once so many of its pages were counted: else a crawl of made-up hosts would make a series of each."""
NO_HOST = "(none)"
"""Stands for addresses without a host, and for those whose host is longer than a name may be."""
_ADDRESS_BYTES = 1024
"""A host that is a name stands well before this end of an address; the rest is not looked at."""


@dataclass(frozen=True, slots=True)
class HostCount:
    """What was counted of a host since it was taken up. Both numbers are exact.

    missed: most pages that it may have had before; never more than all pages / capacity
    """

    host: str
    pages: int
    dropped: int
    missed: int


class TopHosts:
    """The Space-Saving summary of Metwally et al. 2005 (Efficient Computation of Frequent and Top-k Elements, sec. 3).

    A host that is not counted takes the place of the one with the least count, and inherits that count as what it may
    have missed. So of n pages every host with more than n / capacity of them is counted, and missed is at most that.
    Departures: a micro-batch adds a host's pages at once, which keeps both bounds; of equal least counts the place that
    is oldest goes; the dropped pages are counted beside. Any thread may call any method.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._counts = np.zeros(capacity, np.int64)
        self._missed = np.zeros(capacity, np.int64)
        self._dropped = np.zeros(capacity, np.int64)
        self._lock = threading.Lock()

    def add(self, hosts: Iterable[str], dropped: Iterable[bool]) -> None:
        """Count the pages of a micro-batch: the host of each, and whether the page was dropped."""
        found: dict[str, list[int]] = {}
        for host, is_dropped in zip(hosts, dropped, strict=True):
            counts = found.setdefault(host, [0, 0])
            counts[0] += 1
            counts[1] += is_dropped
        with self._lock:
            for host, (pages, of_them) in found.items():
                place = self._places.get(host)
                if place is None:
                    place = self._taken_up(host)
                self._counts[place] += pages
                self._dropped[place] += of_them

    def counts(self) -> list[HostCount]:
        """Every host that is counted, in no order."""
        with self._lock:
            used = len(self._names)
            rows = (self._counts[:used].tolist(), self._missed[:used].tolist(), self._dropped[:used].tolist())
            names = list(self._names)
        return [
            HostCount(name, count - missed, dropped, missed)
            for name, count, missed, dropped in zip(names, *rows, strict=True)
        ]

    def _taken_up(self, host: str) -> int:
        """A place for a host: a free one, or that of the host with the least count."""
        place = len(self._names)
        if place < self._capacity:
            self._names.append(host)
        else:
            place = int(self._counts.argmin())
            del self._places[self._names[place]]
            self._names[place] = host
            self._missed[place] = self._counts[place]
            self._dropped[place] = 0
        self._places[host] = place
        return place


class HostMetrics(Collector):
    """The hosts of TopHosts as metrics with few label values: those with most dropped pages, and those with most pages.

    A host that is shown no longer, and comes again, goes on or begins at 0, as a counter may.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hosts = TopHosts()
        registry.register(self)

    def count(self, addresses: Iterable[bytes], dropped: Iterable[bool]) -> None:
        """Count the pages of a micro-batch: the address of each, and whether the page was dropped."""
        self._hosts.add(map(_host_in, addresses), dropped)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """What a scrape sees."""
        pages, dropped = self.describe()
        for one in _shown(self._hosts.counts()):
            pages.add_metric([one.host], one.pages)
            dropped.add_metric([one.host], one.dropped)
        yield pages
        yield dropped

    def describe(self) -> tuple[CounterMetricFamily, CounterMetricFamily]:
        """Both families without a host."""
        return (
            CounterMetricFamily(
                "spotsieve_host_pages", "Pages committed of the hosts with most pages or most dropped.", labels=["host"]
            ),
            CounterMetricFamily(
                "spotsieve_host_dropped_pages", "Of these the pages that were dropped.", labels=["host"]
            ),
        )


def _shown(counts: Iterable[HostCount]) -> list[HostCount]:
    known = [one for one in counts if one.pages >= SHOWN_PAGES]
    most_dropped = sorted(known, key=lambda one: (-one.dropped, one.host))[:SHOWN]
    largest = sorted(known, key=lambda one: (-one.pages, one.host))[:SHOWN]
    return list({one.host: one for one in (*most_dropped, *largest)}.values())


def _host_in(address: bytes) -> str:
    host = host_of(address[:_ADDRESS_BYTES].decode("utf-8", "replace"))
    return escape_control_characters(host) if 0 < len(host) <= MAX_HOST_CHARACTERS else NO_HOST
