"""Writes what the states of all shards hold into one state with all entries, or into states of other shards.

The whole is a union, because each key belongs to one shard: each bucket, host memory and pending verdict lies in one
part. An entry may lie in several. In a scheme with host memories, the part of the page's host has the complete entry;
other parts have it without its distinctive text, or as a copy with a URL and host 0. Postings and memories below the
floor of the deduplication window are left out, so the sweep has nothing to do. All parts have the same table of common
text.

A new shard gets the items that it would hold if it had read the log itself (stream/sharding/indexing.py). A
bucket whose key is mixed with a host does not name the host, but its entries do. Two hosts whose keys collide have one
bucket in one state, and may have two in two parts.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_buckets, decode_keys, encode_buckets, encode_keys
from spotsieve.state.format.common_text import BASE_KEY, encode_base
from spotsieve.state.format.entries import FORGOTTEN, EntryHead, head_of_entry, with_source
from spotsieve.state.format.host_memory import last_learned
from spotsieve.state.format.meta import (
    StatePart,
    StateProgress,
    decode_pending_verdict,
    encode_source,
    page_of_key,
    pending_verdict_key,
    rules_of_settings,
)
from spotsieve.state.index import Buckets
from spotsieve.state.portable.importing import NewState
from spotsieve.state.removal import Sweep
from spotsieve.state.store.loaded import SourceNumbers
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sharding.shares import are_of_hosts, shards_of, shards_of_entries, shards_of_page_ids

BATCH = 4096
_DAMAGED = "verify the state of each shard (spotsieve state verify), and rebuild a damaged one from an empty directory"


class StateCounts(NamedTuple):
    """The counts of a new state. shards: number of parts that it was made of  buckets: with living postings"""

    log: str
    log_position: int
    shards: int
    entries: int
    buckets: int
    hosts: int
    pending_verdicts: int


class _MergedEntry(NamedTuple):
    """The values of one entry in all parts. values, heads: by number of the part  host: 0 for a page without one"""

    key: bytes
    values: dict[int, bytes]
    heads: dict[int, EntryHead]
    host: int
    forgotten: bool

    @classmethod
    def of(cls, key: bytes, items: Iterator[tuple[bytes, int, bytes]]) -> Self:
        values = {number: value for _, number, value in items}
        if FORGOTTEN in values.values():
            return cls(key, values, {}, 0, True)
        heads = {number: head_of_entry(key, value) for number, value in values.items()}
        # A copy has host 0. All other values have the host of the page.
        return cls(key, values, heads, max(head.host for head in heads.values()), False)


class _NewShard:
    """One new state. sources: of its entries and pending verdicts  counts: of StateCounts, by name

    posted: bool[living], the entries that its buckets name; None in a scheme with host memories
    """

    def __init__(self, state: NewState, posted: NDArray[np.bool_] | None) -> None:
        self.state, self.posted = state, posted
        self.sources = SourceNumbers()
        self.counts = dict.fromkeys(("entries", "buckets", "hosts", "pending_verdicts"), 0)

    def put(self, family: str, items: Sequence[tuple[bytes, bytes]], counted: str) -> None:
        """Write keys and values of a family."""
        self.state.put(family, items)
        self.counts[counted] += len(items)

    def number_of(self, text: str) -> int:
        """Return the number of a source in this state."""
        if self.sources.of(text) is None:
            self.sources.add(text)
        return self.sources.of(text) or 0


class Redistribution:
    """One pass over parts, ordered by shard number, that writes the new states of some shards of another number."""

    def __init__(
        self, parts: Sequence[State], states: Mapping[int, NewState], shards: int | None, on_progress: OnProgress
    ) -> None:
        """states: of the new shards, by number; the number is 0 for a state with all entries

        shards: number of the new shards; None: one state with all entries
        """
        self._parts, self._is_part, self._shards = parts, shards is not None, shards or 1
        self._on_progress = on_progress
        self._progress, self._clock, self._last_outcome = parts[0].progress, parts[0].clock, parts[0].last_outcome
        self._of_hosts = _has_distinctive_texts(parts)
        living = self._progress.entry_count - self._clock.floor
        self._new = {
            number: _NewShard(state, None if self._of_hosts else np.zeros(living, np.bool_))
            for number, state in states.items()
        }
        # The new shard of the host of each entry: int16[living]. Only a scheme with host memories needs it.
        self._host_shards = np.full(living if self._of_hosts else 0, -1, np.int16)
        self._superseding = self._superseding_pages()

    def run(self) -> list[StateCounts]:
        """Write everything; the meta values come last. Return the counts of each new state."""
        if self._of_hosts:  # The entries say whose their buckets are.
            self._write_entries()
            self._write_buckets()
        else:  # The buckets say whose their entries are.
            self._write_buckets()
            self._write_entries()
        self._write_hosts()
        self._write_pending_verdicts()
        self._write_common_text()
        swept = Sweep(0, self._clock.floor)
        progress = StateProgress(*self._progress[:5], swept, swept)
        identity, found = self._parts[0].identity, list[StateCounts]()
        for number, new in self._new.items():
            texts = enumerate(new.sources.texts)
            new.state.put("sources", ((source.to_bytes(8, "big"), encode_source(text)) for source, text in texts))
            part = StatePart(number, self._shards) if self._is_part else None
            last_outcome = self._last_outcome if self._is_part else None
            new.state.complete(identity._replace(part=part), progress, self._clock, last_outcome)
            found.append(StateCounts(identity.log, progress.position, len(self._parts), **new.counts))
        return found

    def _items(self, family: str) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield (key, number of the part, value) of all parts, by key."""

        def numbered(number: int, part: State) -> Iterator[tuple[bytes, int, bytes]]:
            for key, value in part.scan(family):
                yield key, number, value

        return heapq.merge(*(numbered(number, part) for number, part in enumerate(self._parts)))

    def _superseding_pages(self) -> set[PageId]:
        """The pages with a pending verdict that they supersede another. The shard of the verdict has their entries."""
        found = set[PageId]()
        for number, part in enumerate(self._parts):
            for key, value in part.scan("attempts"):
                if decode_pending_verdict(key, value).reason == Reason.LONGER:
                    found.add(self._page_of(number, *page_of_key(key)))
        return found

    def _write_entries(self) -> None:
        floor, count, expected = self._clock.floor, self._progress.entry_count, self._clock.floor
        grouped = groupby(self._items("entries"), key=lambda item: item[0])
        while batch := [_MergedEntry.of(key, items) for key, items in islice(grouped, BATCH)]:
            hosts = np.array([entry.host for entry in batch], np.uint64)
            of_old, of_new = shards_of(hosts, len(self._parts)).tolist(), shards_of(hosts, self._shards).tolist()
            rows: dict[int, list[tuple[bytes, bytes]]] = {number: [] for number in self._new}
            of_number = shards_of_entries(np.arange(expected, expected + len(batch)), self._shards).tolist()
            for entry, old, *owners in zip(batch, of_old, of_new, of_number, strict=True):
                if int.from_bytes(entry.key, "big") != expected:
                    raise _missing(expected)
                if expected >= count:
                    raise CorruptRecord("entries", entry.key, f"must be below the count of {count} entries", _DAMAGED)
                if self._of_hosts and not entry.forgotten:
                    self._host_shards[expected - floor] = owners[0]
                self._give(entry, expected, old, owners, rows)
                expected += 1
            for number, items in rows.items():
                self._new[number].put("entries", items, "entries")
            self._on_progress("entries written", expected - floor, count - floor)
        if expected != count:
            raise _missing(expected)

    def _give(
        self, entry: _MergedEntry, number: int, old: int, owners: list[int], rows: dict[int, list[tuple[bytes, bytes]]]
    ) -> None:
        """Add an entry to the rows of each new shard that holds it.

        old: the part of its host  owners: the new shards of its host and of its number
        """
        if entry.forgotten:
            if owners[1] in rows:
                rows[owners[1]].append((entry.key, FORGOTTEN))
            return
        page_id, part = self._checked_page(entry), self._complete_part(entry, old)
        for shard, items in rows.items():
            target = self._new[shard]
            if target.posted is not None:
                holds = not self._is_part or bool(target.posted[number - self._clock.floor])
            else:
                holds = shard in owners
                if not holds and page_id in self._superseding:
                    holds = int(shards_of_page_ids([page_id], self._shards)[0]) == shard
            if holds:
                items.append((entry.key, with_source(entry.values[part], target.number_of(page_id[0]))))

    def _checked_page(self, entry: _MergedEntry) -> PageId:
        """Return the page of an entry. Raises CorruptRecord if parts name different pages."""
        found = {self._page_of(number, *head[:3]) for number, head in entry.heads.items()}
        if len(found) > 1:
            raise CorruptRecord("entries", entry.key, "must be of one page in all shards", _DAMAGED)
        return found.pop()

    def _complete_part(self, entry: _MergedEntry, of_host: int) -> int:
        """Return the number of a part with the complete entry. of_host: the part of its host"""
        part = next(iter(entry.heads))
        if entry.heads[part].has_own:
            part = of_host
            if part not in entry.heads or entry.heads[part].host != entry.host:
                raise _missing(int.from_bytes(entry.key, "big"))
        return part

    def _page_of(self, number: int, source: int, partition: int, offset: int) -> PageId:
        """Return the id of a page of a part. source: its number there  Raises CorruptRecord."""
        texts = self._parts[number].sources
        if source >= len(texts):
            raise CorruptRecord("sources", source.to_bytes(8, "big"), "is missing although it is named", _DAMAGED)
        return texts[source], partition, offset

    def _write_buckets(self) -> None:
        floor, done = self._clock.floor, 0
        for keys, values in self._batches("buckets"):
            names = decode_keys(keys)
            names, buckets = self._joined(names, decode_buckets(names, values).living(floor))
            if len(buckets.numbers) and int(buckets.numbers.max()) >= self._progress.entry_count:
                raise CorruptRecord("buckets", keys[0], "and the keys after it must name entries that exist", _DAMAGED)
            places = (buckets.numbers - np.uint64(floor)).astype(np.int64)
            owners = np.repeat(shards_of(names, self._shards), sizes_of(buckets.bounds))
            if self._of_hosts:
                of_host = np.repeat(are_of_hosts(names), sizes_of(buckets.bounds))
                owners[of_host] = self._host_shards[places[of_host]]
            for number, new in self._new.items():
                owned = owners == number
                kept = bounds_of(owned)
                part = Buckets(kept[buckets.bounds], buckets.numbers[owned], buckets.inlines[owned])
                filled = np.flatnonzero(sizes_of(part.bounds))
                part = part.take(filled)
                if len(names) < len(keys):  # Some buckets are joined.
                    part = self._capped(part)
                encoded = encode_buckets(names[filled], part)
                new.put("buckets", list(zip(encode_keys(names[filled]), encoded, strict=True)), "buckets")
                if new.posted is not None:
                    new.posted[places[owned]] = True
            done += len(keys)
            self._on_progress("buckets read", done, max(done, self._estimated("buckets")))

    def _joined(self, names: NDArray[np.uint64], buckets: Buckets) -> tuple[NDArray[np.uint64], Buckets]:
        """Join the buckets of equal keys. Raises CorruptRecord for a key that belongs to one shard.

        names: uint64[u], ascending  Returns different keys, and a bucket of each, with all postings.
        """
        different, row = np.unique(names, return_inverse=True)
        if len(different) == len(names):
            return names, buckets
        repeated = different[np.bincount(row) > 1]
        wrong = repeated[~(are_of_hosts(repeated) & self._of_hosts)]
        if len(wrong):
            raise _repeated("buckets", int(wrong[0]).to_bytes(8, "big"))
        bucket = np.repeat(row, sizes_of(buckets.bounds))
        order = np.lexsort((buckets.numbers, bucket))
        bounds = bounds_of(np.bincount(bucket, minlength=len(different)))
        return different, Buckets(bounds, buckets.numbers[order], buckets.inlines[order])

    def _capped(self, buckets: Buckets) -> Buckets:
        """The same buckets with at most index.bucket_cap postings each, the earliest."""
        cap, sizes = rules_of_settings(self._parts[0].identity.settings).bucket_cap, sizes_of(buckets.bounds)
        kept = np.arange(len(buckets.numbers)) - np.repeat(buckets.bounds[:-1], sizes) < cap
        return Buckets(bounds_of(kept)[buckets.bounds], buckets.numbers[kept], buckets.inlines[kept])

    def _write_hosts(self) -> None:
        floor, done, last_key = self._clock.floor, 0, b""
        for keys, values in self._batches("hosts"):
            for key in keys:
                if key == last_key:
                    raise _repeated("hosts", key)
                last_key = key
            lives = last_learned(keys, values) >= np.uint64(floor)
            shards = shards_of(decode_keys(keys), self._shards)
            for number, new in self._new.items():
                places = np.flatnonzero(lives & (shards == number)).tolist()
                new.put("hosts", [(keys[place], values[place]) for place in places], "hosts")
            done += len(keys)
            self._on_progress("memories of hosts read", done, max(done, self._estimated("hosts")))

    def _write_pending_verdicts(self) -> None:
        for number, part in enumerate(self._parts):
            rest = part.scan("attempts")
            while items := list(islice(rest, BATCH)):
                pages = [self._page_of(number, *page_of_key(key)) for key, _ in items]
                shards = shards_of_page_ids(pages, self._shards).tolist()
                for shard, new in self._new.items():
                    rows = [
                        (pending_verdict_key(new.number_of(text), partition, offset), value)
                        for (text, partition, offset), owner, (_, value) in zip(pages, shards, items, strict=True)
                        if owner == shard
                    ]
                    new.put("attempts", rows, "pending_verdicts")

    def _write_common_text(self) -> None:
        """Write the table of common text, which all parts have."""
        table = self._parts[0].common_text()
        for part in self._parts[1:]:
            if not np.array_equal(part.common_text().slots, table.slots):
                raise CorruptRecord("common", BASE_KEY, "must be the same table in all shards", _DAMAGED)
        if table.slots.any():
            for new in self._new.values():
                new.state.put("common", [(BASE_KEY, encode_base(table))])

    def _batches(self, family: str) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield keys and values of a family, about BATCH at a time. Equal keys of several parts are in one batch."""
        keys, values = list[bytes](), list[bytes]()
        for key, _, value in self._items(family):
            if len(keys) >= BATCH and key != keys[-1]:
                yield keys, values
                keys, values = [], []
            keys.append(key)
            values.append(value)
        if keys:
            yield keys, values

    def _estimated(self, family: str) -> int:
        return sum(part.backend.estimated_keys(family) for part in self._parts)


def _has_distinctive_texts(parts: Sequence[State]) -> bool:
    """Whether entries have distinctive texts, as in a scheme with host memories. All entries of a state are alike."""
    for part in parts:
        for key, value in part.scan("entries"):
            if value != FORGOTTEN:
                return head_of_entry(key, value).has_own
    return False


def _missing(number: int) -> CorruptRecord:
    return CorruptRecord(
        "entries", number.to_bytes(8, "big"), "must be in the state of a shard, and is in none", _DAMAGED
    )


def _repeated(family: str, key: bytes) -> CorruptRecord:
    return CorruptRecord(family, key, "must be in the state of only one shard", _DAMAGED)
