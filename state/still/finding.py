"""Finds filed pages by address or id: one walk over the entries, then one over the buckets that hold them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from spotsieve.state.format.buckets import decode_buckets, decode_keys
from spotsieve.state.format.entries import FORGOTTEN, decode_entry
from spotsieve.state.log.pages_body import cut_url
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.urls import host_of

BATCH = 4096
MOST_SIMILAR = 5


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which pages to look for.

    urls: addresses as they were sent, cut as the log cuts them  ids: own names of pages, or source/partition/offset
    prefixes: beginnings of addresses  hosts: as spotsieve.stream.base.urls.host_of gives them
    """

    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()

    def all(self) -> set[tuple[str, str]]:
        """Return the (kind, text) of each."""
        kinds = {"url": self.urls, "id": self.ids, "url prefix": self.prefixes, "host": self.hosts}
        return {(kind, text) for kind, texts in kinds.items() for text in texts}


def page_query(urls: Sequence[str], ids: Sequence[str], prefixes: Sequence[str], hosts: Sequence[str]) -> PageQuery:
    """Turn what a person names into what entries hold. Raises SettingError for a name that is no host."""
    names = [host_of(f"//{host}") for host in hosts]
    for name, given in zip(names, hosts, strict=True):
        if not name or any(mark in given for mark in "/?#@"):
            raise SettingError("--host", "must be the name of a host", given, "such as example.org")
    cut = frozenset(cut_url(url.encode("utf-8", "replace")).decode() for url in urls)
    return PageQuery(cut, frozenset(ids), tuple(dict.fromkeys(prefixes)), frozenset(names))


@dataclass(slots=True)
class QueryResult:
    """What was found.

    pages: entries by number  of_hosts: those whose host was named, so all pages of these hosts are here
    missing: (kind, text) of what is not there
    similar: for each missing address the first few that contain it, apart from scheme, "www.", query and fragment
    """

    pages: dict[int, Entry] = field(default_factory=dict)
    of_hosts: set[int] = field(default_factory=set)
    missing: list[tuple[str, str]] = field(default_factory=list)
    similar: dict[str, list[str]] = field(default_factory=dict)


def find_entries(state: State, wanted: PageQuery, on_progress: OnProgress = ignore_progress) -> QueryResult:
    """Find every wanted page. Raises CorruptRecord."""
    found, met = QueryResult(), set[tuple[str, str]]()
    cores = {url: core for url in wanted.urls if (core := _core(url))}
    count = state.progress.entry_count
    for key, value in state.scan("entries"):
        number = int.from_bytes(key, "big")
        if number % BATCH == 0:
            on_progress("entries looked at", number, count)
        if value == FORGOTTEN:
            continue
        entry = decode_entry(key, value, state.sources)
        reasons = list(_reasons(entry, wanted))
        met.update(reasons)
        if reasons:
            found.pages[number] = entry
            if any(kind == "host" for kind, _ in reasons):
                found.of_hosts.add(number)
            continue
        for url, core in cores.items():
            similar = found.similar.setdefault(url, [])
            if core in entry.url and len(similar) < MOST_SIMILAR:
                similar.append(entry.url)
    found.missing = sorted(wanted.all() - met)
    return found


def file_places(state: State, found: QueryResult, on_progress: OnProgress = ignore_progress) -> list[ForgottenPage]:
    """Find the buckets that hold the pages found; what is returned can be forgotten. Raises CorruptRecord."""
    entries = found.pages
    keys = {number: list[int]() for number in entries}
    numbers = np.array(sorted(entries), np.uint64)
    done, of = 0, state.backend.estimated_keys("buckets")
    for names, values in _batches(state.scan("buckets")):
        bucket_keys = decode_keys(names)
        buckets = decode_buckets(bucket_keys, values)
        hits = np.flatnonzero(np.isin(buckets.numbers, numbers))
        places = np.searchsorted(buckets.bounds, hits, side="right") - 1
        for number, key in zip(buckets.numbers[hits].tolist(), bucket_keys[places].tolist(), strict=True):
            keys[number].append(key)
        done += len(names)
        on_progress("buckets looked at", done, max(done, of))
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
    """Cut from an address what people write in different ways: scheme, "www.", query, fragment, final slash."""
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
