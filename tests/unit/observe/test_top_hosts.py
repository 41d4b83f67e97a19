"""Hosts become metrics with few label values, whatever addresses a crawl brings."""

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spotsieve.stream.observe.top_hosts import NO_HOST, SHOWN, SHOWN_PAGES, HostMetrics


def shown(registry: CollectorRegistry) -> dict[str, dict[str, float]]:
    """By family the value of each host, as a scrape reads them."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {family.name: {sample.labels["host"]: sample.value for sample in family.samples} for family in families}


def test_a_host_is_shown_with_its_dropped_pages_once_it_has_a_hundred() -> None:
    registry = CollectorRegistry()
    hosts = HostMetrics(registry)
    hosts.count([b"https://www.Shop.example/a"] * 60 + [b"http://shop.example:8080/"] * 39, [True] * 30 + [False] * 69)
    assert shown(registry) == {"spotsieve_host_pages": {}, "spotsieve_host_dropped_pages": {}}
    hosts.count([b"https://shop.example/b"], [True])
    assert shown(registry)["spotsieve_host_pages"] == {"shop.example": 100}
    assert shown(registry)["spotsieve_host_dropped_pages"] == {"shop.example": 31}


def test_a_crawl_of_made_up_hosts_makes_no_series() -> None:
    registry = CollectorRegistry()
    hosts = HostMetrics(registry)
    for start in range(0, 20_000, 500):
        hosts.count([b"https://%d.trap.example/" % number for number in range(start, start + 500)], [True] * 500)
    assert shown(registry)["spotsieve_host_pages"] == {}


def test_those_with_most_dropped_and_with_most_pages_are_shown_and_no_more() -> None:
    registry = CollectorRegistry()
    hosts = HostMetrics(registry)
    for number in range(100):
        pages = SHOWN_PAGES + number
        hosts.count([b"https://%d.example/" % number] * pages, np.arange(pages) < (100 - number))
    found = shown(registry)["spotsieve_host_pages"]
    assert set(found) == {f"{number}.example" for number in [*range(SHOWN), *range(100 - SHOWN, 100)]}


def test_a_hostile_host_is_escaped_or_has_no_name_of_its_own() -> None:
    registry = CollectorRegistry()
    hosts = HostMetrics(registry)
    odd = [
        b"https://a\x1b[2Jb.example/",
        b'https://q"u\\o.example/',
        b"https://" + b"x" * 5000 + b"/",
        b"no address",
        b"",
    ]
    hosts.count(odd * SHOWN_PAGES, [True] * len(odd) * SHOWN_PAGES)
    assert shown(registry)["spotsieve_host_dropped_pages"] == {
        "a\\x1b[2jb.example": SHOWN_PAGES,
        'q"u': SHOWN_PAGES,
        NO_HOST: 3 * SHOWN_PAGES,
    }
