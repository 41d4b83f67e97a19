"""Finds indexed pages by URL, id or host: a scan of all entries, then a scan of all buckets for their postings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from spotsieve.state.format.buckets import decode_buckets, decode_keys
from spotsieve.state.format.entries import FORGOTTEN, decode_entry
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.signature import Entry, logged_url, page_of_id
from spotsieve.stream.base.urls import host_of

BATCH = 4096
MOST_SIMILAR = 5


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The pages to find.

    urls: URLs as sent, cut as in the log  ids: labels of pages, cut as in the log, or source/partition/offset
    prefixes: beginnings of URLs  hosts: names returned by host_of()
    """

    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()

    def all(self) -> set[tuple[str, str]]:
        """Return all terms of the query as (kind, text)."""
        kinds = {"url": self.urls, "id": self.ids, "url prefix": self.prefixes, "host": self.hosts}
        return {(kind, text) for kind, texts in kinds.items() for text in texts}


def page_query(urls: Sequence[str], ids: Sequence[str], prefixes: Sequence[str], hosts: Sequence[str]) -> PageQuery:
    """Make a query from command-line arguments. Raises SettingError for an invalid host name."""
    names = [host_of(f"//{host}") for host in hosts]
    for name, host in zip(names, hosts, strict=True):
        if not name or any(mark in host for mark in "/?#@"):
            raise SettingError("--host", "must be the name of a host", host, "such as example.org")
    labels = (text if page_of_id(text) is not None else logged_url(text) for text in ids)
    return PageQuery(
        frozenset(map(logged_url, urls)), frozenset(labels), tuple(dict.fromkeys(prefixes)), frozenset(names)
    )


@dataclass(slots=True)
class QueryResult:
    """The entries that match a query.

    pages: entries by number  of_hosts: numbers of the entries whose host was named: all pages of these hosts
    living: number of entries in the deduplication window that are not forgotten
    missing: (kind, text) of the terms without a match
    similar: for each URL, the first few other URLs that contain it, apart from scheme, "www.", query and fragment
    """

    pages: dict[int, Entry] = field(default_factory=dict)
    of_hosts: set[int] = field(default_factory=set)
    living: int = 0
    missing: list[tuple[str, str]] = field(default_factory=list)
    similar: dict[str, list[str]] = field(default_factory=dict)


def find_entries(state: State, wanted: PageQuery, on_progress: OnProgress = ignore_progress) -> QueryResult:
    """Find every wanted page. Raises CorruptRecord."""
    found, matched = QueryResult(), set[tuple[str, str]]()
    cores = {url: core for url in wanted.urls if (core := _core(url))}
    count = state.progress.entry_count
    for key, value in state.scan("entries"):
        number = int.from_bytes(key, "big")
        if number % BATCH == 0:
            on_progress("entries looked at", number, count)
        if value == FORGOTTEN:
            continue
        found.living += number >= state.clock.floor
        entry = decode_entry(key, value, state.sources)
        reasons = list(_reasons(entry, wanted))
        matched.update(reasons)
        if reasons:
            found.pages[number] = entry
            if any(kind == "host" for kind, _ in reasons):
                found.of_hosts.add(number)
            continue
        for url, core in cores.items():
            similar = found.similar.setdefault(url, [])
            if core in entry.url and len(similar) < MOST_SIMILAR:
                similar.append(entry.url)
    found.missing = sorted(wanted.all() - matched)
    return found


def file_places(state: State, found: QueryResult, on_progress: OnProgress = ignore_progress) -> list[ForgottenPage]:
    """Find the buckets of the found pages. Return the pages as a record to forget names them. Raises CorruptRecord."""
    entries = found.pages
    keys = {number: list[int]() for number in entries}
    numbers = np.array(sorted(entries), np.uint64)
    done, total = 0, state.backend.estimated_keys("buckets")
    for names, values in _batches(state.scan("buckets")):
        bucket_keys = decode_keys(names)
        buckets = decode_buckets(bucket_keys, values)
        hits = np.flatnonzero(np.isin(buckets.numbers, numbers))
        places = np.searchsorted(buckets.bounds, hits, side="right") - 1
        for number, key in zip(buckets.numbers[hits].tolist(), bucket_keys[places].tolist(), strict=True):
            keys[number].append(key)
        done += len(names)
        on_progress("buckets looked at", done, max(done, total))
    all_of_host = found.of_hosts
    return [
        ForgottenPage(number, entry.source, entry.partition, entry.offset, tuple(keys[number]), number in all_of_host)
        for number, entry in sorted(entries.items())
    ]


def _reasons(entry: Entry, wanted: PageQuery) -> Iterator[tuple[str, str]]:
    if entry.url in wanted.urls:
        yield "url", entry.url
    if wanted.ids:
        for text in {entry.label, entry.page_id} & wanted.ids:
            yield "id", text
    if wanted.hosts and (host := host_of(entry.url)) in wanted.hosts:
        yield "host", host
    for prefix in wanted.prefixes:
        if entry.url.startswith(prefix):
            yield "url prefix", prefix


def _core(url: str) -> str:
    """Return a URL without the parts that people write differently: scheme, "www.", query, fragment, final slash."""
    rest = url.partition("//")[2] or url
    for end in "?#":
        rest = rest.partition(end)[0]
    return rest.removeprefix("www.").rstrip("/")


def _batches(items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[list[bytes], Sequence[bytes]]]:
    names, values = list[bytes](), list[bytes]()
    for name, value in items:
        names.append(name)
        values.append(value)
        if len(names) == BATCH:
            yield names, values
            names, values = [], []
    if names:
        yield names, values
