"""Merges the states of all shards into one state with all entries: a union, because each key belongs to one shard.

Each bucket, host memory and pending verdict lies in one part. An entry may lie in several. In a scheme with host
memories, the part of the page's host has the complete entry; other parts have it without its own text, or as a copy
with a URL and host 0. Postings and memories below the floor of the deduplication window are left out, so the sweep has
nothing to do. All parts have the same table of common text.
"""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from spotsieve.state.directory import check_free, made_beside, put_in_place, sync_directory
from spotsieve.state.format.buckets import decode_buckets, decode_keys, encode_buckets
from spotsieve.state.format.common_text import BASE_KEY, encode_base
from spotsieve.state.format.entries import FORGOTTEN, EntryHead, head_of_entry, with_source
from spotsieve.state.format.host_memory import last_learned
from spotsieve.state.format.meta import StateProgress, encode_source, page_of_key, pending_verdict_key
from spotsieve.state.identity import check_parts
from spotsieve.state.portable.importing import NewState
from spotsieve.state.removal import Sweep
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.loaded import SourceNumbers
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.sharding.shares import shards_of

BATCH = 4096
PARTIAL = ".merge-partial"
_LEVEL = (
    "stop the workers, wait until no round is open (spotsieve shards status), and merge then; for snapshots or "
    "stopped shards, start the shards first, which continue to the same outcome"
)
_DAMAGED = "verify the state of each shard (spotsieve state verify), and rebuild a damaged one from an empty directory"


class MergeResult(NamedTuple):
    """The counts of a merged state. shards: number of parts  buckets: with living postings"""

    log: str
    log_position: int
    shards: int
    entries: int
    buckets: int
    hosts: int
    pending_verdicts: int


def merge_states(
    directories: Sequence[Path], target: Path, timeout_s: float = 300.0, on_progress: OnProgress = ignore_progress
) -> MergeResult:
    """Merge the states of all shards, in any order, into the directory target. Return the counts of the merged state.

    directories: state directories or snapshots; a running shard makes a checkpoint and goes on
    Raises StateError if parts are missing, do not belong together or have different positions, or if target holds a
    state; CorruptRecord. Then target has no state.
    """
    check_free(target)
    with ExitStack() as closing:
        states = [
            closing.enter_context(read_only_state(directory, timeout_s, on_progress, hold=False, part=True))
            for directory in directories
        ]
        parts = _in_order(states)
        partial = closing.enter_context(made_beside(target, PARTIAL))
        with NewState(partial) as state:
            merged = _Merge(parts, state, on_progress).run()
        sync_directory(partial)
        put_in_place(partial, target)
    return merged


def _in_order(states: Sequence[State]) -> list[State]:
    """Return the states by shard number. Raises StateError unless all have the same position."""
    check_parts([(str(state.directory), state.identity) for state in states])
    parts = sorted(states, key=lambda state: state.identity.part or (0, 0))
    furthest = max(parts, key=lambda state: (state.progress.position, state.progress.pages_applied))
    for state in parts:
        if _place_of(state) != _place_of(furthest):
            raise StateError(
                f"state {state.directory}",
                f"must stand where {furthest.directory} does, {_position_text(furthest)}, "
                f"and stands {_position_text(state)}",
                None,
                _LEVEL,
            )
    return parts


def _place_of(state: State) -> tuple[object, ...]:
    return *state.progress[:5], state.clock, state.heard


def _position_text(state: State) -> str:
    heard = "no outcome" if state.heard is None else f"outcome {state.heard.offset}"
    return f"at record {state.progress.position}:{state.progress.pages_applied} of the log after {heard}"


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


class _Merge:
    """One merge of parts, ordered by shard number."""

    def __init__(self, parts: Sequence[State], state: NewState, on_progress: OnProgress) -> None:
        self._parts = parts
        self._state = state
        self._on_progress = on_progress
        self._progress, self._clock = parts[0].progress, parts[0].clock
        self._sources = SourceNumbers()

    def run(self) -> MergeResult:
        """Write everything. The meta values come last."""
        entries, buckets = self._write_entries(), self._write_buckets()
        hosts, pending_verdicts = self._write_hosts(), self._write_pending_verdicts()
        self._write_common_text()
        texts = enumerate(self._sources.texts)
        self._state.put("sources", ((number.to_bytes(8, "big"), encode_source(text)) for number, text in texts))
        swept = Sweep(0, self._clock.floor)
        progress = StateProgress(*self._progress[:5], swept, swept)
        identity = self._parts[0].identity._replace(part=None)
        self._state.complete(identity, progress, self._clock)
        return MergeResult(identity.log, progress.position, len(self._parts), entries, buckets, hosts, pending_verdicts)

    def _items(self, family: str) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield (key, number of the part, value) of all parts, by key."""

        def numbered(number: int, part: State) -> Iterator[tuple[bytes, int, bytes]]:
            for key, value in part.scan(family):
                yield key, number, value

        return heapq.merge(*(numbered(number, part) for number, part in enumerate(self._parts)))

    def _write_entries(self) -> int:
        floor, count, expected = self._clock.floor, self._progress.entry_count, self._clock.floor
        grouped = groupby(self._items("entries"), key=lambda item: item[0])
        while batch := [_MergedEntry.of(key, items) for key, items in islice(grouped, BATCH)]:
            of_host = shards_of(np.array([entry.host for entry in batch], np.uint64), len(self._parts)).tolist()
            for entry in batch:
                if int.from_bytes(entry.key, "big") != expected:
                    raise _missing(expected)
                expected += 1
            self._state.put("entries", map(self._entry, batch, of_host))
            self._on_progress("entries merged", expected - floor, count - floor)
        if expected != count:
            raise _missing(expected)
        return count - floor

    def _entry(self, entry: "_MergedEntry", of_host: int) -> tuple[bytes, bytes]:
        """Return key and value of an entry, from a part with the complete entry, with its merged source number."""
        key, heads = entry.key, entry.heads
        if entry.forgotten:
            return key, FORGOTTEN
        if len({self._page_of(number, head) for number, head in heads.items()}) > 1:
            raise CorruptRecord("entries", key, "must be of one page in all shards", _DAMAGED)
        part = next(iter(heads))
        if heads[part].has_own:
            part = of_host
            if part not in heads or heads[part].host != entry.host:
                raise _missing(int.from_bytes(key, "big"))
        return key, with_source(entry.values[part], self._number_of(part, heads[part].source))

    def _page_of(self, number: int, head: EntryHead) -> tuple[str, int, int]:
        return self._text_of(number, head.source), head.partition, head.offset

    def _text_of(self, number: int, source: int) -> str:
        texts = self._parts[number].sources
        if source >= len(texts):
            raise CorruptRecord("sources", source.to_bytes(8, "big"), "is missing although it is named", _DAMAGED)
        return texts[source]

    def _number_of(self, number: int, source: int) -> int:
        """Return the number in the merged state of a source of a part."""
        text = self._text_of(number, source)
        if self._sources.of(text) is None:
            self._sources.add(text)
        return self._sources.of(text) or 0

    def _write_buckets(self) -> int:
        floor, written = self._clock.floor, 0
        for items in self._batches("buckets"):
            keys, values = [key for key, _ in items], [value for _, value in items]
            names = decode_keys(keys)
            buckets = decode_buckets(names, values).living(floor)
            living = np.flatnonzero(sizes_of(buckets.bounds))
            values = encode_buckets(names[living], buckets.take(living))
            self._state.put("buckets", zip([keys[place] for place in living.tolist()], values, strict=True))
            written += len(living)
            self._on_progress("buckets merged", written, max(written, self._estimated("buckets")))
        return written

    def _write_hosts(self) -> int:
        floor, written = self._clock.floor, 0
        for items in self._batches("hosts"):
            last = last_learned([key for key, _ in items], [value for _, value in items])
            living = [items[place] for place in np.flatnonzero(last >= np.uint64(floor)).tolist()]
            self._state.put("hosts", living)
            written += len(living)
            self._on_progress("memories of hosts merged", written, max(written, self._estimated("hosts")))
        return written

    def _write_pending_verdicts(self) -> int:
        written = 0
        for number, part in enumerate(self._parts):
            rest = part.scan("attempts")
            while items := list(islice(rest, BATCH)):
                pages = [page_of_key(key) for key, _ in items]
                keys = [pending_verdict_key(self._number_of(number, source), *place) for source, *place in pages]
                self._state.put("attempts", zip(keys, (value for _, value in items), strict=True))
                written += len(items)
        return written

    def _write_common_text(self) -> None:
        """Write the table of common text, which all parts have."""
        table = self._parts[0].common_text()
        for part in self._parts[1:]:
            if not np.array_equal(part.common_text().slots, table.slots):
                raise CorruptRecord("common", BASE_KEY, "must be the same table in all shards", _DAMAGED)
        if table.slots.any():
            self._state.put("common", [(BASE_KEY, encode_base(table))])

    def _batches(self, family: str) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield keys and values of a family, BATCH at a time. Raises CorruptRecord if two parts have the same key."""
        items, last = self._items(family), b""
        while batch := [(key, value) for key, _, value in islice(items, BATCH)]:
            for key, _ in batch:
                if key == last:
                    raise CorruptRecord(family, key, "must be in the state of only one shard", _DAMAGED)
                last = key
            yield batch

    def _estimated(self, family: str) -> int:
        return sum(part.backend.estimated_keys(family) for part in self._parts)


def _missing(number: int) -> CorruptRecord:
    return CorruptRecord(
        "entries", number.to_bytes(8, "big"), "must be in the state of a shard, and is in none", _DAMAGED
    )
