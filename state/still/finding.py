"""Owns finding filed pages by address or id: one walk over the entries, and one over the buckets that hold them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from spotsieve.state.forgetting import ForgottenPage
from spotsieve.state.format import layouts as formats
from spotsieve.state.still.reading import StillState
from spotsieve.stream.schemes.identity import host_of
from spotsieve.stream.signature import Entry

BATCH = 4096
MOST_SIMILAR = 5
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pages are looked for.

    urls: addresses as they were sent, cut as the log cuts them  ids: pages' own names, or source/partition/offset
    prefixes: beginnings of addresses  hosts: as spotsieve.stream.schemes.identity.host_of has them
    """

    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()

    def all(self) -> set[tuple[str, str]]:
        """(kind, text) of each."""
        kinds = {"url": self.urls, "id": self.ids, "url prefix": self.prefixes, "host": self.hosts}
        return {(kind, text) for kind, texts in kinds.items() for text in texts}


@dataclass(slots=True)
class Found:
    """What was found.

    pages: entry number -> the entry  missing: (kind, text) of what was looked for and is not there
    similar: addresses that have a missing one in them, or are as good as one, the first few
    """

    pages: dict[int, Entry] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)
    similar: dict[str, list[str]] = field(default_factory=dict)


def find_entries(state: StillState, wanted: Wanted, told: Told = lambda *_: None) -> Found:
    """Every filed page that is wanted. told(what, done, of): progress. Raises CorruptRecord."""
    found, met = Found(), set[tuple[str, str]]()
    cores = {url: core for url in wanted.urls if (core := _core(url))}
    count = state.progress.entry_count
    for key, value in state.items("entries"):
        number = int.from_bytes(key, "big")
        if number % BATCH == 0:
            told("entries looked at", number, count)
        if value == formats.FORGOTTEN:
            continue
        entry = formats.decode_entry(key, value, state.sources)
        reasons = list(_reasons(entry, wanted))
        met.update(reasons)
        if reasons:
            found.pages[number] = entry
            continue
        for url, core in cores.items():
            similar = found.similar.setdefault(url, [])
            if core in entry.url and len(similar) < MOST_SIMILAR:
                similar.append(entry.url)
    found.missing = sorted(wanted.all() - met)
    return found


def file_places(state: StillState, entries: dict[int, Entry], told: Told = lambda *_: None) -> list[ForgottenPage]:
    """The entries, by number, each with the keys of all buckets that hold it. Raises CorruptRecord."""
    keys = {number: list[int]() for number in entries}
    numbers = np.array(sorted(entries), np.uint64)
    done, of = 0, state.estimated_keys("buckets")
    for names, values in _batches(state.items("buckets")):
        bucket_keys = formats.keys_of(names)
        buckets = formats.decode_buckets(bucket_keys, values)
        hits = np.flatnonzero(np.isin(buckets.numbers, numbers))
        places = np.searchsorted(buckets.bounds, hits, side="right") - 1
        for number, key in zip(buckets.numbers[hits].tolist(), bucket_keys[places].tolist(), strict=True):
            keys[number].append(key)
        done += len(names)
        told("buckets looked at", done, max(done, of))
    return [
        ForgottenPage(number, entry.source, entry.partition, entry.offset, tuple(keys[number]))
        for number, entry in sorted(entries.items())
    ]


def _reasons(entry: Entry, wanted: Wanted) -> Iterator[tuple[str, str]]:
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
    """What is left of an address where people differ: without scheme, "www.", query, fragment and final slash."""
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
