"""Owns walking a whole state at rest: every value of every family, by the grammar of FORMATS.md, and what it refers to.

The walk reads a copy made of hard links, opened as the service opens it, so that nothing of the state is changed; the
state's lock is held meanwhile.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format import layouts as formats
from spotsieve.state.identity import check_log_range
from spotsieve.state.index import Buckets
from spotsieve.state.store.rocks import IDENTITY, MARKS, PROGRESS
from spotsieve.state.sweep import Sweep
from spotsieve.state.verify.families import Family, open_families
from spotsieve.state.verify.log import examine_log
from spotsieve.stream.errors import SpotsieveError
from spotsieve.stream.fingerprints.tables import HOST_TAG, MAX_TABLES
from spotsieve.stream.settings.verdicts import settings_digest

BATCH = 4096
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong. place: store and key in hex, or file and offset  rule: what must hold there."""

    place: str
    rule: str


@dataclass(slots=True)
class Findings:
    """What a walk found: the first damaged places and how many there are, and how much was looked at."""

    shown: int
    damages: list[Damage] = field(default_factory=list)
    damaged: int = 0
    notices: list[str] = field(default_factory=list)
    log: str = ""
    log_position: int = 0
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, place: str, rule: str) -> None:
        """Count a damage; the first ones are kept."""
        self.damaged += 1
        if len(self.damages) < self.shown:
            self.damages.append(Damage(place, rule))

    def add_error(self, error: SpotsieveError) -> None:
        """Count a damage that reading has found."""
        self.add(error.name, error.rule)


def verify(directory: Path, shown: int = 20, told: Told = lambda *_: None) -> Findings:
    """Walk the state, and the local log where one lies beside it; damage is counted and the walk goes on.

    shown: how many damages are kept in words  told(what, done, of): progress, called now and then
    Raises StateError where there is no state, or a running process owns it.
    """
    found = Findings(shown)
    with ExitStack() as closing:
        families = open_families(directory, closing, found.add)
        meta = None if families is None else _verify_meta(families["default"], found)
        if families is not None:
            _Walk(families, found, told, meta).run()
        _verify_log(directory, found, meta, told)
    return found


@dataclass(frozen=True, slots=True)
class _Meta:
    """progress, and of the clock the floor: entries floor..progress.entry_count - 1 live."""

    progress: formats.Progress
    floor: int
    settings: str
    log: str


def _verify_meta(family: Family, found: Findings) -> _Meta | None:
    """The two meta values; None where one is damaged: what is counted then has nothing to be compared with."""
    values: dict[bytes, Any] = dict(family.items(lambda *_: None))
    for key in values.keys() - {IDENTITY, MARKS, PROGRESS}:
        found.add(f"meta[{key.hex()}]", "must be one of identity, marks and progress")
    for key in {IDENTITY, PROGRESS} - values.keys():
        found.add(f"meta[{key.hex()}]", f"({key.decode()}) is missing or cannot be read")
    if not values.keys() >= {IDENTITY, PROGRESS}:
        return None
    try:
        stored_format, settings, log = formats.decode_identity(values[IDENTITY])
        progress = formats.decode_progress(values[PROGRESS])
        clock = formats.decode_clock(progress, values.get(MARKS))
        json.loads(settings)
    except SpotsieveError as error:
        found.add_error(error)
        return None
    except (ValueError, KeyError, TypeError):
        found.add(f"meta[{IDENTITY.hex()}]", "must hold format, log and settings")
        return None
    if stored_format != formats.STATE_FORMAT:
        found.add(f"meta[{IDENTITY.hex()}]", f"must have state format {formats.STATE_FORMAT}, has {stored_format}")
    entries = progress.entry_count
    if entries and not progress.position and not progress.pages_applied:
        found.add(f"meta[{PROGRESS.hex()}]", f"must be beyond record 0 of the log, as there are {entries} entries")
    found.log, found.log_position = log, progress.position
    return _Meta(progress, clock.floor, settings, log)


class _Walk:
    """One walk over sources, entries and buckets, in this order: each is referred to by the next."""

    def __init__(self, families: dict[str, Family], found: Findings, told: Told, meta: _Meta | None) -> None:
        self._families = families
        self._found = found
        self._told = told
        self._count = meta.progress.entry_count if meta else families["entries"].last_number() + 1
        # Without the meta values the first entry tells what lives, and nothing how far was swept.
        self._floor = meta.floor if meta else max(families["entries"].first_number(), 0)
        self._sweep = meta.progress.sweep if meta else Sweep()
        self._sources = 0
        self._words: int | None = None
        self._present = np.zeros(self._count - self._floor, np.bool_)
        self._filed = np.zeros(self._count - self._floor, np.bool_)
        self._forgotten = np.zeros(self._count - self._floor, np.bool_)
        self._unread = False

    def run(self) -> None:
        """Look at everything."""
        for number, (key, value) in enumerate(self._items("sources")):
            self._source(number, key, value)
        for keys, values in self._batches("entries"):
            self._entry_batch(keys, values)
        self._found.checked["entries"] = int(np.count_nonzero(self._present))
        if not self._unread:
            for number in (np.flatnonzero(~self._present) + self._floor).tolist():
                rule = f"is missing: by the meta values entries {self._floor} to {self._count - 1} live"
                self._found.add(f"entries[{number:016x}]", rule)
        if self._forgotten.any():
            self._found.checked["forgotten entries"] = int(np.count_nonzero(self._forgotten))
        for keys, values in self._batches("buckets"):
            self._bucket_batch(keys, values)
        if not self._unread:
            # A page that is in no bucket at all is not filed, so an entry that none refers to has lost its buckets.
            lost = self._present & ~self._filed & ~self._forgotten
            for number in (np.flatnonzero(lost) + self._floor).tolist():
                self._found.add(f"entries[{number:016x}]", "must be in a bucket, but none refers to it")

    def _items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """The items that can be read; what cannot is one damage for each stretch of keys."""

        def skipped(start: bytes, end: bytes | None, why: str) -> None:
            self._unread = True
            until = "the end" if end is None else f"before {end.hex()}"
            self._found.add(f"{name}[{start.hex()}]", f"cannot be read from here to {until} ({why})")

        return self._families[name].items(skipped)

    def _batches(self, name: str) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Items whose keys have their length, some thousands at once."""
        keys, values = list[bytes](), list[bytes]()
        done, of = 0, self._families[name].estimated_keys()
        for key, value in self._items(name):
            if len(key) != 8:
                self._found.add(f"{name}[{key.hex()}]", "must have a key of 8 bytes")
                continue
            keys.append(key)
            values.append(value)
            if len(keys) == BATCH:
                done += BATCH
                yield keys, values
                self._told(name, done, max(of, done))
                keys, values = [], []
        if keys:
            yield keys, values

    def _source(self, number: int, key: bytes, value: bytes) -> None:
        self._sources += 1
        self._found.checked["sources"] += 1
        if key != number.to_bytes(8, "big"):
            self._found.add(f"sources[{key.hex()}]", f"must have the number {number}")
        try:
            formats.decode_source(key, value)
        except SpotsieveError as error:
            self._found.add_error(error)

    def _entry_batch(self, keys: list[bytes], values: list[bytes]) -> None:
        numbers = formats.keys_of(keys)
        beyond = (numbers >= self._count) | (numbers < self._floor)
        for place in np.flatnonzero(beyond).tolist():
            self._found.add(
                f"entries[{keys[place].hex()}]",
                f"must be one of {self._floor} to {self._count - 1}, which live by the meta values",
            )
        places = (numbers[~beyond] - np.uint64(self._floor)).astype(np.int64)
        self._present[places] = True
        forgotten = np.array([value == formats.FORGOTTEN for value in values])
        self._forgotten[places[forgotten[~beyond]]] = True
        if self._words is None:
            # Every entry has the sketch that most of the first ones have.
            widths = Counter(value[1] for value in values if len(value) > 1 and value[0] == formats.ENTRY_VERSION)
            self._words = widths.most_common(1)[0][0] if widths else None
        for key, value in zip(keys, values, strict=True):
            rule = formats.entry_fault(value, self._words or 0, self._sources)
            if rule is not None:
                self._found.add(f"entries[{key.hex()}]", rule)

    def _bucket_batch(self, keys: list[bytes], values: list[bytes]) -> None:
        self._found.checked["buckets"] += len(keys)
        tags = np.frombuffer(b"".join(keys), np.uint8)[::8]
        for place in np.flatnonzero((tags >= MAX_TABLES) & (tags < HOST_TAG)).tolist():
            self._found.add(f"buckets[{keys[place].hex()}]", f"must have a tag that is in use, has {tags[place]}")
        names = formats.keys_of(keys)
        try:
            self._postings(names, values)
        except SpotsieveError:
            for place, value in enumerate(values):
                try:
                    self._postings(names[place : place + 1], [value])
                except SpotsieveError as error:
                    self._found.add_error(error)

    def _postings(self, names: NDArray[np.uint64], values: list[bytes]) -> None:
        buckets = formats.decode_buckets(names, list(values))
        self._found.checked["postings"] += len(buckets.numbers)
        dead, known = buckets.numbers < self._floor, buckets.numbers < self._count
        known &= ~dead
        numbers = (buckets.numbers[known] - np.uint64(self._floor)).astype(np.int64)
        self._filed[numbers] = True
        lost = ~known & ~dead
        # Where a stretch of entries could not be read, that was told, once.
        if not self._unread:
            lost[known] = ~self._present[numbers] | self._forgotten[numbers]
        swept = names < self._sweep.next_key if self._sweep.next_key else np.ones(len(names), np.bool_)
        left = (buckets.numbers < self._sweep.floor) & np.repeat(swept, np.diff(buckets.bounds))
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


def _verify_log(directory: Path, found: Findings, meta: _Meta | None, told: Told) -> None:
    """The local log, where there is one: every record, and whether it reaches as far as the state has applied it."""
    digest = settings_digest(meta.settings) if meta else None
    end = examine_log(directory, digest, found.add, found.notices.append, told)
    if end is None:
        return
    found.checked["log records"] = end
    if meta is not None:
        try:
            check_log_range(meta.log, meta.progress.position, 0, end, meta.progress.pages_applied)
        except SpotsieveError as error:
            found.add_error(error)
