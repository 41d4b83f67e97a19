"""Imports a state from an export.

The state is written into a new folder, family by family. The meta values come last, after the trailer has confirmed the
rest. Then the folder is moved into place.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import xxhash
from rocksdict import Rdict, WriteBatch, WriteOptions

from spotsieve.state.directory import made_beside, put_in_place, sync_directory
from spotsieve.state.format.buckets import decode_buckets, decode_keys
from spotsieve.state.format.common_text import BASE_KEY, encode_base
from spotsieve.state.format.entries import entry_fault
from spotsieve.state.format.host_memory import decode_memories
from spotsieve.state.format.meta import (
    IDENTITY,
    LAST_OUTCOME,
    MARKS,
    PROGRESS,
    STATE_FORMAT,
    Identity,
    StateProgress,
    StoredRules,
    decode_clock,
    decode_pending_verdict,
    decode_progress,
    encode_identity,
    encode_marks,
    encode_outcome_ref,
    encode_progress,
    encode_source,
    log_identity_of,
    rules_of_settings,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.index import COMMON_SLOTS, COMMON_WINDOW, OutcomeRef, no_common_text
from spotsieve.state.portable.export import (
    COUNTED,
    VERSION,
    Fields,
    bucket_values,
    common_text_slots,
    entry_value,
    loaded,
    memory_values,
    pending_verdict_value,
    progress_of,
)
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import CorruptRecord, InputError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import settings_digest


class NewState:
    """A new database in a folder. Use it as a context manager, which raises StateError if the disk fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closing = ExitStack()
        # No write-ahead log: after a crash the import or merge starts again. complete() flushes everything.
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever the stub says

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            closing.enter_context(rocks_errors(self._path, "write"))
            self._database = Rdict(str(self._path), database_options(), column_families(None))
            closing.callback(self._database.close)
            self._families = {name: self._database.get_column_family(name) for name in column_families(None)}
            for family in self._families.values():
                closing.callback(family.close)
            self._handles = {name: self._database.get_column_family_handle(name) for name in self._families}
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *raised: object) -> bool | None:
        return self._closing.__exit__(*raised)  # type: ignore[arg-type]  # the three arguments of __exit__

    def put(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write keys and values of a family, in any order."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handles[family])
        for key, value in items:
            batch[key] = value
        self._database.write(batch, self._unlogged)

    def complete(
        self, identity: Identity, progress: StateProgress, clock: Clock, last_outcome: OutcomeRef | None = None
    ) -> None:
        """Write the meta values, and flush all families. last_outcome: only for the state of a shard"""
        batch = WriteBatch(raw_mode=True)
        batch[IDENTITY] = encode_identity(identity)
        if last_outcome is not None:
            batch[LAST_OUTCOME] = encode_outcome_ref(last_outcome)
        if clock.marks:
            batch[MARKS] = encode_marks(clock.marks)
        batch[PROGRESS] = encode_progress(progress)
        self._database.write(batch, self._unlogged)
        for family in (self._database, *self._families.values()):
            family.flush()


BATCH = 4096
PARTIAL = ".import-partial"
_SECTIONS = ("source", "entry", "bucket", "memory", "attempt", "common", "end")
"""The last of these names in a line is its section: an entry has a source too."""
_AGAIN = "export the state again (spotsieve state export), and copy the file whole"


def import_state(
    lines: Iterator[bytes], name: str, directory: Path, on_progress: OnProgress = ignore_progress
) -> Fields:
    """Import the lines of an export into a state directory. Return its header and the counts of its trailer.

    name: name of the file, for messages
    Raises StateError if the directory has a state or there is no room, InputError if the export is cut, damaged or of
    another version. Then no state is left.
    """
    with made_beside(directory, PARTIAL) as partial:
        with NewState(partial) as state:
            facts = Importer(lines, name, on_progress).run(state)
        sync_directory(partial)
        put_in_place(partial, directory)
    return facts


def _section_of(fields: Fields) -> int:
    return max((place for place, name in enumerate(_SECTIONS) if name in fields), default=-1)


class Importer:
    """Reads one export into a new state."""

    def __init__(self, lines: Iterator[bytes], name: str, on_progress: OnProgress) -> None:
        self._lines = lines
        self._name = name
        self._on_progress = on_progress
        self._line = 0
        self._hashed = xxhash.xxh3_128()
        self._counts = dict.fromkeys(COUNTED, 0)
        self._last_bucket = self._last_memory = self._last_verdict = b""
        self._common, self._last_window = no_common_text(), -1
        self._rules = StoredRules()

    def run(self, state: NewState) -> Fields:
        """Write everything. The meta values come last, after the trailer has confirmed the rest."""
        header = self._header()
        counts = self._write_sections(header, state)
        if counts["windows"]:
            state.put("common", [(BASE_KEY, encode_base(self._common))])
        log_identity = log_identity_of(header)
        identity = Identity(STATE_FORMAT, header["settings"], header["log"], log_identity=log_identity)
        state.complete(identity, *progress_of(header))
        return {**header, **counts}

    def _header(self) -> Fields:
        line = self._next()
        header = self._parsed(line)
        if "spotsieve_state" not in header:
            raise self._wrong('must begin with the header of an export, {"spotsieve_state": 3, ...}')
        if (header["spotsieve_state"], header.get("format")) != (VERSION, STATE_FORMAT):
            raise InputError(
                self._name,
                f"must be an export of version {VERSION} of a state of format {STATE_FORMAT}",
                f"version {header['spotsieve_state']}, format {header.get('format')}",
                "use the release that wrote it",
            )
        with self._reading():
            progress, clock = progress_of(header)
            log_identity_of(header)
            self._rules = rules_of_settings(header["settings"])
            decode_clock(progress, encode_marks(clock.marks) if clock.marks else None)
            decode_progress(encode_progress(progress))
            whole = clock.floor == header["first_entry"]
            if (
                not whole
                or type(header["log"]) is not str
                or settings_digest(header["settings"]).hex() != header["settings_digest"]
            ):
                raise ValueError
        self._hash(line)
        return header

    def _write_sections(self, header: Fields, state: NewState) -> Fields:
        section, batch = 0, list[Fields]()
        while True:
            line = self._next()
            fields = self._parsed(line)
            place = section if section and _SECTIONS[section] in fields else _section_of(fields)
            if place < section:
                raise self._wrong(f"must be one of {', '.join(_SECTIONS)}, in this order")
            if batch and (place != section or len(batch) == BATCH):
                self._write(_SECTIONS[section], batch, header, state)
                batch = []
            section = place
            if _SECTIONS[place] == "end":
                return self._trailer(fields, header)
            batch.append(fields)
            self._hash(line)

    def _trailer(self, fields: Fields, header: Fields) -> Fields:
        counted = {**self._counts, "xxh3_128": self._hashed.hexdigest()}
        if fields != {"end": True, **counted}:
            raise self._wrong(f"must have the counts and the checksum of the lines before it, {counted}")
        wanted = header["entries"] - header["first_entry"]
        if self._counts["entries"] != wanted:
            raise self._wrong(f"must come after {wanted} entries, by the header")
        if next(self._lines, None) is not None:
            self._line += 1
            raise self._wrong("must not exist: the export has ended")
        return counted

    def _write(self, section: str, lines: list[Fields], header: Fields, state: NewState) -> None:
        """Write a batch of lines of one section."""
        with self._reading():
            name, family, read = {
                "source": ("sources", "sources", self._sources),
                "entry": ("entries", "entries", self._entries),
                "bucket": ("buckets", "buckets", self._buckets),
                "memory": ("memories", "hosts", self._memories),
                "attempt": ("attempts", "attempts", self._pending_verdicts),
                "common": ("windows", "common", self._windows),
            }[section]
            items = read(lines, header)
        state.put(family, items)
        self._counts[name] += len(lines)
        self._on_progress(
            f"{name} read", self._counts[name], max(self._counts[name], header["entries"] * (name == "entries"))
        )

    def _sources(self, lines: list[Fields], _: Fields) -> list[tuple[bytes, bytes]]:
        items = []
        for number, fields in enumerate(lines, self._counts["sources"]):
            if fields != {"source": number, "text": fields["text"]}:
                raise ValueError
            items.append((number.to_bytes(8, "big"), encode_source(fields["text"])))
        return items

    def _entries(self, lines: list[Fields], header: Fields) -> list[tuple[bytes, bytes]]:
        items = []
        for number, fields in enumerate(lines, header["first_entry"] + self._counts["entries"]):
            named, value = entry_value(fields)
            if named != number or entry_fault(value, self._counts["sources"], self._rules.shape):
                raise ValueError
            items.append((number.to_bytes(8, "big"), value))
        return items

    def _buckets(self, lines: list[Fields], header: Fields) -> list[tuple[bytes, bytes]]:
        keys, values, buckets = bucket_values(lines)
        if sorted({self._last_bucket, *keys}) != [self._last_bucket, *keys] or (
            int(buckets.numbers.max()) >= header["entries"]
            or int(sizes_of(buckets.bounds).max()) > self._rules.bucket_cap
        ):
            raise ValueError
        # Decoding checks that postings ascend and fit.
        if not np.array_equal(decode_buckets(decode_keys(keys), values).numbers, buckets.numbers):
            raise ValueError
        self._last_bucket = keys[-1]
        self._counts["postings"] += len(buckets.numbers)
        return list(zip(keys, values, strict=True))

    def _memories(self, lines: list[Fields], header: Fields) -> list[tuple[bytes, bytes]]:
        keys, values = memory_values(lines)
        memories = decode_memories(decode_keys(keys), values)
        ascending = all(one < other for one, other in pairwise([self._last_memory, *keys]))
        if not ascending or int(memories.last.max()) > header["entries"]:
            raise ValueError
        self._last_memory = keys[-1]
        return list(zip(keys, values, strict=True))

    def _pending_verdicts(self, lines: list[Fields], header: Fields) -> list[tuple[bytes, bytes]]:
        items = list[tuple[bytes, bytes]]()
        for fields in lines:
            key, value = pending_verdict_value(fields)
            verdict = decode_pending_verdict(key, value)
            known = fields["source"] < self._counts["sources"] and verdict.original < header["entries"]
            if key <= self._last_verdict or not known:
                raise ValueError
            self._last_verdict = key
            items.append((key, value))
        return items

    def _windows(self, lines: list[Fields], _: Fields) -> list[tuple[bytes, bytes]]:
        """Read windows of common text into the table, which is written at the end."""
        for fields in lines:
            window, slots = common_text_slots(fields)
            if not self._last_window < window < COMMON_SLOTS // COMMON_WINDOW:
                raise ValueError
            self._common.slots[window * COMMON_WINDOW : (window + 1) * COMMON_WINDOW] = slots
            self._last_window = window
        return []

    def _next(self) -> bytes:
        line = next(self._lines, None)
        self._line += 1
        if line is None:
            raise self._wrong("must follow: the export is cut")
        return line

    def _parsed(self, line: bytes) -> Fields:
        try:
            fields: Any = loaded(line)
        except (ValueError, RecursionError):
            raise self._unlike_the_grammar() from None
        if not isinstance(fields, dict):
            raise self._unlike_the_grammar()
        return fields

    def _hash(self, line: bytes) -> None:
        self._hashed.update(line)
        self._hashed.update(b"\n")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, struct.error, CorruptRecord):
            raise self._unlike_the_grammar() from None

    def _unlike_the_grammar(self) -> InputError:
        return self._wrong(f"or one of the {BATCH} before it must match the grammar in state/FORMATS.md")

    def _wrong(self, rule: str) -> InputError:
        return InputError(f"{self._name} line {self._line}", rule, None, _AGAIN)
