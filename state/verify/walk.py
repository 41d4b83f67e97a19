"""Verifies a state that no process owns: every value by the grammar of state/FORMATS.md, and all references.

The state of a shard has gaps, and only `spotsieve state merge`, which reads all shards, can tell whether they are
right. The verification reads a copy made of hard links, opened as the service opens it, so the state stays unchanged.
It holds the lock of the state meanwhile.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.buckets import decode_buckets, decode_keys
from spotsieve.state.format.common_text import read_common_text
from spotsieve.state.format.entries import FORGOTTEN, entry_fault, head_of_entry
from spotsieve.state.format.host_memory import decode_memories
from spotsieve.state.format.meta import (
    IDENTITY,
    KEY_BYTES,
    LAST_OUTCOME,
    LOCAL,
    MARKS,
    PROGRESS,
    STATE_FORMAT,
    Identity,
    StatePart,
    StateProgress,
    StoredRules,
    decode_clock,
    decode_identity,
    decode_outcome_ref,
    decode_pending_verdict,
    decode_progress,
    decode_source,
    page_of_key,
    rules_of_settings,
)
from spotsieve.state.identity import check_log_range
from spotsieve.state.index import Buckets
from spotsieve.state.removal import Sweep
from spotsieve.state.verify.families import Family, Findings, open_families
from spotsieve.state.verify.log import LogFacts, examine_log
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.sharding.shares import are_of_hosts, shards_of, shards_of_entries
from spotsieve.stream.sign.fingerprints.permuted_tables import RETIRED_TAG


@dataclass(frozen=True, slots=True)
class MemoryChecker:
    """Checks host memories and pending verdicts.

    entries, sources: numbers of entries and sources  sweep: progress of the sweep over memories
    part: the shard of the state, None for a state with all entries
    """

    found: Findings
    entries: int
    sources: int
    sweep: Sweep
    part: StatePart | None = None

    def check_memories(self, keys: list[bytes], values: list[bytes]) -> None:
        """Check a batch of memories whose keys have the right length."""
        self.found.checked["hosts"] += len(keys)
        try:
            self._memories(keys, values)
        except SpotsieveError:
            for key, value in zip(keys, values, strict=True):
                try:
                    self._memories([key], [value])
                except SpotsieveError as error:
                    self.found.add_error(error)

    def check_pending_verdict(self, key: bytes, value: bytes) -> None:
        """Check a pending verdict."""
        self.found.checked["attempts"] += 1
        if len(key) != KEY_BYTES:
            self.found.add(f"attempts[{key.hex()}]", f"must have a key of {KEY_BYTES} bytes")
            return
        try:
            verdict = decode_pending_verdict(key, value)
        except SpotsieveError as error:
            self.found.add_error(error)
            return
        if page_of_key(key)[0] >= self.sources or verdict.original >= self.entries:
            self.found.add(f"attempts[{key.hex()}]", "must name a source and an entry that existed")

    def _memories(self, keys: list[bytes], values: list[bytes]) -> None:
        hosts = decode_keys(keys)
        memories = decode_memories(hosts, values)
        for place in np.flatnonzero(memories.last > self.entries).tolist():
            self.found.add(f"hosts[{keys[place].hex()}]", f"must have learned at one of {self.entries} entries")
        if self.part is not None:
            for place in np.flatnonzero(shards_of(hosts, self.part.shards) != self.part.number).tolist():
                self.found.add(f"hosts[{keys[place].hex()}]", f"must belong to {self.part}, not to another")
        swept = hosts < self.sweep.next_key if self.sweep.next_key else np.ones(len(hosts), np.bool_)
        for place in np.flatnonzero(swept & (memories.last < self.sweep.floor)).tolist():
            self.found.add(
                f"hosts[{keys[place].hex()}]",
                f"must have learned from entry {self.sweep.floor} on, as the sweep has passed, "
                f"did so at {int(memories.last[place])}",
            )


BATCH = 4096
_MOST_MISSING = 2**28
"""More missing entries at the end are one damage: there is no memory for a table of any number of entries."""


def verify(directory: Path, shown: int = 20, on_progress: OnProgress = ignore_progress) -> Findings:
    """Verify a state, and its local log if it has one. Damage is counted and skipped.

    shown: greatest number of damages in the list
    Raises StateError if there is no state, StateLockedError if a running process owns it.
    """
    found = Findings(shown)
    with ExitStack() as closing:
        families = open_families(directory, closing, found.add)
        meta = None if families is None else _verify_meta(families["default"], found)
        if families is not None:
            _Verifier(families, found, meta, on_progress).run()
        _verify_log(directory, found, meta, on_progress)
    return found


@dataclass(frozen=True, slots=True)
class _Meta:
    """The meta values. floor: entries floor..progress.entry_count - 1 live  rules: by the settings"""

    identity: Identity
    progress: StateProgress
    floor: int
    rules: StoredRules


def _verify_meta(family: Family, found: Findings) -> _Meta | None:
    """Check and return the meta values; None if one is damaged: then counts cannot be compared."""
    values: dict[bytes, Any] = dict(family.items(lambda *_: None))
    for key in values.keys() - {LAST_OUTCOME, IDENTITY, MARKS, PROGRESS}:
        found.add(f"meta[{key.hex()}]", "must be one of heard, identity, marks and progress")
    for key in {IDENTITY, PROGRESS} - values.keys():
        found.add(f"meta[{key.hex()}]", f"({key.decode()}) is missing or cannot be read")
    if not values.keys() >= {IDENTITY, PROGRESS}:
        return None
    try:
        identity = decode_identity(values[IDENTITY])
        part = identity.part
        progress = decode_progress(values[PROGRESS])
        clock = decode_clock(progress, values.get(MARKS))
        rules = rules_of_settings(identity.settings)
        last_outcome = decode_outcome_ref(values[LAST_OUTCOME]) if LAST_OUTCOME in values else None
    except SpotsieveError as error:
        found.add_error(error)
        return None
    except (ValueError, KeyError, TypeError):
        found.add(f"meta[{IDENTITY.hex()}]", "must hold format, log and settings")
        return None
    if last_outcome is not None and part is None:
        found.add(f"meta[{LAST_OUTCOME.hex()}]", "must be only in the state of a shard")
    if last_outcome is None and part is not None and progress.entry_count:
        found.add(f"meta[{LAST_OUTCOME.hex()}]", "must name the last outcome that this shard has indexed")
    found.part = "" if part is None else str(part)
    if identity.state_format != STATE_FORMAT:
        found.add(f"meta[{IDENTITY.hex()}]", f"must have state format {STATE_FORMAT}, has {identity.state_format}")
    entries = progress.entry_count
    if entries and not progress.position and not progress.pages_applied:
        found.add(f"meta[{PROGRESS.hex()}]", f"must be beyond record 0 of the log, as there are {entries} entries")
    found.log, found.log_position = identity.log, progress.position
    return _Meta(identity, progress, clock.floor, rules)


class _Verifier:
    """A scan of sources, entries, buckets, hosts and pending verdicts. Each family refers to the ones before."""

    def __init__(
        self, families: dict[str, Family], found: Findings, meta: _Meta | None, on_progress: OnProgress
    ) -> None:
        self._families = families
        self._found = found
        self._on_progress = on_progress
        last = families["entries"].last_number() + 1
        self._count = meta.progress.entry_count if meta else last
        # Without meta values the first entry gives the floor, and the progress of the sweep is unknown.
        self._floor = meta.floor if meta else max(families["entries"].first_number(), 0)
        end = max(last, self._floor)
        if self._count - end > _MOST_MISSING:
            rule = f"is missing, and all up to {self._count - 1}: they live by the meta values"
            self._found.add(f"entries[{end:016x}]", rule)
            self._count = end
        self._sweep = meta.progress.sweep if meta else Sweep()
        self._host_sweep = meta.progress.host_sweep if meta else Sweep()
        self._sources = 0
        self._rules = meta.rules if meta else StoredRules()
        self._present = np.zeros(self._count - self._floor, np.bool_)
        self._indexed = np.zeros(self._count - self._floor, np.bool_)
        self._forgotten = np.zeros(self._count - self._floor, np.bool_)
        self._named = np.ones(self._count - self._floor, np.bool_)
        self._unread = False
        self._part = meta.identity.part if meta else None
        self._has_own: bool | None = None
        """Whether entries have distinctive texts, as in a scheme with host memories; None before the first entry."""

    def run(self) -> None:
        """Check all families."""
        for number, (key, value) in enumerate(self._items("sources")):
            self._source(number, key, value)
        for keys, values in self._batches("entries"):
            self._entry_batch(keys, values)
        self._found.checked["entries"] = int(np.count_nonzero(self._present))
        self._named = self._named_here()
        if not self._unread and (self._part is None or self._has_own):
            whose = "" if self._part is None else f", and {self._part} must hold this one"
            for number in (np.flatnonzero(self._named & ~self._present) + self._floor).tolist():
                rule = f"is missing: by the meta values entries {self._floor} to {self._count - 1} live{whose}"
                self._found.add(f"entries[{number:016x}]", rule)
        if self._forgotten.any():
            self._found.checked["forgotten entries"] = int(np.count_nonzero(self._forgotten))
        for keys, values in self._batches("buckets"):
            self._bucket_batch(keys, values)
        if self._part is None and not self._unread:
            # A page that fits in no bucket is not indexed. So an entry without a bucket has lost its buckets.
            lost = self._present & ~self._indexed & ~self._forgotten
            for number in (np.flatnonzero(lost) + self._floor).tolist():
                self._found.add(f"entries[{number:016x}]", "must be in a bucket, but none refers to it")
        checker = MemoryChecker(self._found, self._count, self._sources, self._host_sweep, self._part)
        for keys, values in self._batches("hosts"):
            checker.check_memories(keys, values)
        for key, value in self._items("attempts"):
            checker.check_pending_verdict(key, value)
        try:
            read_common_text(self._items("common"))
        except SpotsieveError as error:
            self._found.add_error(error)

    def _named_here(self) -> NDArray[np.bool_]:
        """Return which living entries this part must hold: bool[living]; all of them without distinctive texts."""
        if self._part is None or self._has_own is False:
            return np.ones(self._count - self._floor, np.bool_)
        shard = shards_of_entries(np.arange(self._floor, self._count), self._part.shards)
        return np.asarray(shard == self._part.number)

    def _items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the readable items. Each unreadable stretch of keys is one damage."""

        def skipped(start: bytes, end: bytes | None, why: str) -> None:
            self._unread = True
            until = "the end" if end is None else f"before {end.hex()}"
            self._found.add(f"{name}[{start.hex()}]", f"cannot be read from here to {until} ({why})")

        return self._families[name].items(skipped)

    def _batches(self, name: str) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield the items whose keys have the right length, BATCH at a time."""
        keys, values = list[bytes](), list[bytes]()
        done, total = 0, self._families[name].estimated_keys()
        for key, value in self._items(name):
            if len(key) != 8:
                self._found.add(f"{name}[{key.hex()}]", "must have a key of 8 bytes")
                continue
            keys.append(key)
            values.append(value)
            if len(keys) == BATCH:
                done += BATCH
                yield keys, values
                self._on_progress(name, done, max(total, done))
                keys, values = [], []
        if keys:
            yield keys, values

    def _source(self, number: int, key: bytes, value: bytes) -> None:
        self._sources += 1
        self._found.checked["sources"] += 1
        if key != number.to_bytes(8, "big"):
            self._found.add(f"sources[{key.hex()}]", f"must have the number {number}")
        try:
            decode_source(key, value)
        except SpotsieveError as error:
            self._found.add_error(error)

    def _entry_batch(self, keys: list[bytes], values: list[bytes]) -> None:
        numbers = decode_keys(keys)
        beyond = (numbers >= self._count) | (numbers < self._floor)
        for place in np.flatnonzero(beyond).tolist():
            self._found.add(
                f"entries[{keys[place].hex()}]",
                f"must be one of {self._floor} to {self._count - 1}, which live by the meta values",
            )
        places = (numbers[~beyond] - np.uint64(self._floor)).astype(np.int64)
        self._present[places] = True
        forgotten = np.array([value == FORGOTTEN for value in values])
        self._forgotten[places[forgotten[~beyond]]] = True
        for key, value in zip(keys, values, strict=True):
            rule = entry_fault(value, self._sources, self._rules.shape)
            if rule is not None:
                self._found.add(f"entries[{key.hex()}]", rule)
            elif self._has_own is None and value != FORGOTTEN:
                self._has_own = head_of_entry(key, value).has_own

    def _bucket_batch(self, keys: list[bytes], values: list[bytes]) -> None:
        self._found.checked["buckets"] += len(keys)
        tags = np.frombuffer(b"".join(keys), np.uint8)[::8]
        for place in np.flatnonzero(tags == RETIRED_TAG).tolist():
            self._found.add(f"buckets[{keys[place].hex()}]", f"must have a tag that is in use, has {tags[place]}")
        names = decode_keys(keys)
        if self._part is not None:
            # Fingerprints and titles belong to the shard of their host, which their keys do not name.
            strange = (shards_of(names, self._part.shards) != self._part.number) & ~are_of_hosts(names)
            for place in np.flatnonzero(strange).tolist():
                self._found.add(f"buckets[{keys[place].hex()}]", f"must belong to {self._part}, not to another")
        try:
            self._postings(names, values)
        except SpotsieveError:
            for place, value in enumerate(values):
                try:
                    self._postings(names[place : place + 1], [value])
                except SpotsieveError as error:
                    self._found.add_error(error)

    def _postings(self, names: NDArray[np.uint64], values: list[bytes]) -> None:
        buckets = decode_buckets(names, list(values))
        self._found.checked["postings"] += len(buckets.numbers)
        sizes = sizes_of(buckets.bounds)
        for place in np.flatnonzero(sizes > self._rules.bucket_cap).tolist():
            rule = f"must have at most {self._rules.bucket_cap} postings by the settings, has {sizes[place]}"
            self._found.add(f"buckets[{int(names[place]):016x}]", rule)
        dead, known = buckets.numbers < self._floor, buckets.numbers < self._count
        known &= ~dead
        numbers = (buckets.numbers[known] - np.uint64(self._floor)).astype(np.int64)
        self._indexed[numbers] = True
        lost = ~known & ~dead
        # An unreadable stretch of entries is one damage already.
        if not self._unread:
            # Buckets of a shard name entries of other shards too.
            lost[known] = (~self._present & self._named | self._forgotten)[numbers]
        swept = names < self._sweep.next_key if self._sweep.next_key else np.ones(len(names), np.bool_)
        left = (buckets.numbers < self._sweep.floor) & np.repeat(swept, sizes)
        for place in np.flatnonzero(left).tolist():
            self._found.add(
                f"buckets[{int(names[_bucket_of(buckets, place)]):016x}]",
                f"must hold no entry below {self._sweep.floor}, as the sweep has passed, "
                f"names entries[{int(buckets.numbers[place]):016x}]",
            )
        for place in np.flatnonzero(lost).tolist():
            self._found.add(
                f"buckets[{int(names[_bucket_of(buckets, place)]):016x}]",
                f"must name entries that exist, names entries[{int(buckets.numbers[place]):016x}]",
            )


def _bucket_of(buckets: Buckets, posting: int) -> int:
    return int(np.searchsorted(buckets.bounds, posting, side="right")) - 1


def _verify_log(directory: Path, found: Findings, meta: _Meta | None, on_progress: OnProgress) -> None:
    """Check the local log of a state that follows one: every record, and that it reaches the position of the state."""
    facts, before = LogFacts(None, None), found.damaged
    if meta is not None and meta.identity.log != LOCAL:
        path = directory / LOG_FILE
        if path.exists():
            found.notices.append(f"{path}: is not the log of this state, which is {meta.identity.log!r}")
        return
    if meta is not None:
        facts = LogFacts(settings_digest(meta.identity.settings), meta.identity.log_identity)
    end = examine_log(directory, facts, found, on_progress)
    if end is not None:
        found.checked["log records"] = end
    if meta is not None and (end is not None or meta.identity.part is None):
        try:
            check_log_range(meta.identity.log, meta.progress.position, 0, end or 0, meta.progress.pages_applied)
        except SpotsieveError as error:
            found.add_error(error)
    found.log_damaged = found.damaged - before
