"""Exports a state as JSON Lines for other programs, and encodes and decodes each line.

    export  = header LF, (source LF)*, (entry LF)*, (bucket LF)*, (memory LF)*, (attempt LF)*, trailer LF
    header  = {"spotsieve_state": 2, "format", "log", "log_position", "pages_applied", "last_record", "entries",
               "first_entry", "watermark_ms", "marks", "sweep", "host_sweep", "settings", "settings_digest"}
    source  = {"source": number, "text"}
    entry   = {"entry": number, "source", "partition", "offset", "event_time_ms", "url", "label", "host",
               "feature_count", "sketch", "features"?, "own"?, "rank"?} | {"entry": number, "forgotten": true}
    own     = {"site", "share", "listed", "prints": [print*], "titles": [word*]}
    bucket  = {"bucket": key, "entries": [number*], "inline": [word*]}
    memory  = {"memory": host, "pages", "last", "first", "items": [[identity, count]*], "words": [[word, count]*]}
    attempt = {"attempt": offset, "source", "partition", "original", "score", "reason", "found_by"}
    trailer = {"end": true, "sources", "entries", "buckets", "memories", "attempts", "postings", "xxh3_128"}

state/FORMATS.md describes each field. 64-bit words that are no numbers (keys, hosts, sketches, checksums) are 16 hex
digits. xxh3_128 covers every line before the trailer, with its line feed.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import nan
from typing import Any, TypeVar

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from spotsieve.state.format.buckets import INLINE_BYTES, decode_buckets, decode_keys, encode_buckets, encode_keys
from spotsieve.state.format.entries import FORGOTTEN, EntryParts, pack_entry, unpack_entry
from spotsieve.state.format.entry_bytes import OwnParts
from spotsieve.state.format.host_memory import decode_memories, encode_memories
from spotsieve.state.format.meta import (
    StateProgress,
    decode_pending_verdict,
    encode_pending_verdict,
    page_of_key,
    pending_verdict_key,
)
from spotsieve.state.horizon import NO_TIME, Clock, StepMark
from spotsieve.state.index import ITEM_COUNT_BITS, NOBODY, WORD_COUNT_BITS, Buckets, HostMemories, PendingVerdict
from spotsieve.state.removal import Sweep
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS

VERSION = 2
COUNTED = ("sources", "entries", "buckets", "memories", "attempts", "postings")
"""The counts in the trailer."""
Fields = dict[str, Any]


def header_of(state: State) -> Fields:
    """Return the header: identity, progress and marks of the state."""
    (state_format, settings, log, _), progress, clock = state.identity, state.progress, state.clock
    return {
        "spotsieve_state": VERSION,
        "format": state_format,
        "log": log,
        "log_position": progress.position,
        "pages_applied": progress.pages_applied,
        "last_record": hexed(progress.last_record),
        "entries": progress.entry_count,
        "first_entry": clock.floor,
        "watermark_ms": None if clock.watermark_ms == NO_TIME else clock.watermark_ms,
        "marks": [list(mark) for mark in clock.marks],
        "sweep": [hexed(progress.sweep.next_key), progress.sweep.floor],
        "host_sweep": [hexed(progress.host_sweep.next_key), progress.host_sweep.floor],
        "settings": settings,
        "settings_digest": settings_digest(settings).hex(),
    }


def progress_of(header: Fields) -> tuple[StateProgress, Clock]:
    """Read the meta values of a header. Raises KeyError, TypeError, ValueError if a field is missing or wrong."""
    (next_key, floor), (next_host, host_floor) = header["sweep"], header["host_sweep"]
    watermark_ms = NO_TIME if header["watermark_ms"] is None else header["watermark_ms"]
    progress = StateProgress(
        position=header["log_position"],
        entry_count=header["entries"],
        last_record=int(header["last_record"], 16),
        pages_applied=header["pages_applied"],
        watermark_ms=watermark_ms,
        sweep=Sweep(int(next_key, 16), floor),
        host_sweep=Sweep(int(next_host, 16), host_floor),
    )
    return progress, Clock(watermark_ms, tuple(StepMark(*mark) for mark in header["marks"]))


def entry_fields(key: bytes, value: bytes) -> Fields:
    """Return the fields of an entry. Bytes that are not UTF-8 become lone surrogates. Raises CorruptRecord."""
    number = int.from_bytes(key, "big")
    if value == FORGOTTEN:
        return {"entry": number, "forgotten": True}
    parts = unpack_entry(key, value)
    texts = {name: getattr(parts, name).decode("utf-8", "surrogateescape") for name in ("url", "label")}
    words: Fields = {"host": hexed(parts.host), "sketch": [hexed(word) for word in parts.sketch]}
    if parts.features:
        words["features"] = [hexed(word) for word in parts.features]
    if parts.own is not None:
        words["own"] = parts.own._asdict()
    if parts.rank is not None:
        words["rank"] = hexed(parts.rank)
    named = {name: value for name, value in parts._asdict().items() if name not in ("features", "own", "rank")}
    return {"entry": number, **named, **texts, **words}


def entry_value(fields: Fields) -> tuple[int, bytes]:
    """Read the fields of an entry -> (entry number, value). Raises KeyError, TypeError, ValueError, struct.error."""
    fields = dict(fields)
    number = fields.pop("entry")
    if fields == {"forgotten": True}:
        return number, FORGOTTEN
    for name in ("url", "label"):
        fields[name] = fields[name].encode("utf-8", "surrogateescape")
    for name in ("sketch", "features"):
        fields[name] = tuple(int(word, 16) for word in fields.get(name, ()))
    fields["host"] = int(fields["host"], 16)
    if "rank" in fields:
        fields["rank"] = int(fields["rank"], 16)
    if "own" in fields:
        fields["own"] = OwnParts(**fields["own"])
    return number, pack_entry(EntryParts(**fields))


def bucket_lines(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """Write buckets -> one line for each of keys: uint64[u]. Only stored inline words are written."""
    bounds, numbers, inlines = buckets.bounds.tolist(), buckets.numbers.tolist(), buckets.inlines.tolist()
    lines = []
    for place, key in enumerate(keys.tolist()):
        part = slice(bounds[place], bounds[place + 1])
        kept = part if key >> KEY_BITS not in INLINE_BYTES else slice(0, 0)
        lines.append(
            dumped({"bucket": hexed(key), "entries": numbers[part], "inline": [hexed(word) for word in inlines[kept]]})
        )
    return lines


def bucket_values(lines: Sequence[Fields]) -> tuple[list[bytes], list[bytes], Buckets]:
    """Read lines of buckets -> keys, values and contents. Raises KeyError, TypeError, ValueError, OverflowError."""
    keys, numbers, inlines, bounds = list[int](), list[int](), list[int](), [0]
    for fields in lines:
        key, entries, words = int(fields["bucket"], 16), fields["entries"], [int(word, 16) for word in fields["inline"]]
        bare = key >> KEY_BITS in INLINE_BYTES
        if not entries or len(fields) != 3 or len(words) != (0 if bare else len(entries)):
            raise ValueError
        keys.append(key)
        numbers += entries
        inlines += words if not bare else [0] * len(entries)
        bounds.append(len(numbers))
    names = np.array(keys, np.uint64)
    buckets = Buckets(np.array(bounds), np.array(numbers, np.uint64), np.array(inlines, np.uint64))
    return encode_keys(names), encode_buckets(names, buckets), buckets


def memory_lines(keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    """Write memories of hosts -> one line for each. Raises CorruptRecord."""
    memories = decode_memories(decode_keys(keys), values)
    bounds, word_bounds = memories.item_bounds.tolist(), memories.word_bounds.tolist()
    items, words = _counted(memories.items, ITEM_COUNT_BITS), _counted(memories.words, WORD_COUNT_BITS)
    rows = zip(memories.pages.tolist(), memories.last.tolist(), memories.first.tolist(), strict=True)
    return [
        dumped(
            {
                "memory": keys[place].hex(),
                "pages": pages,
                "last": last,
                "first": None if first == NOBODY else first,
                "items": items[bounds[place] : bounds[place + 1]],
                "words": words[word_bounds[place] : word_bounds[place + 1]],
            }
        )
        for place, (pages, last, first) in enumerate(rows)
    ]


def memory_values(lines: Sequence[Fields]) -> tuple[list[bytes], list[bytes]]:
    """Read lines of memories -> keys and values. Raises KeyError, TypeError, ValueError, OverflowError."""
    if any(len(fields) != 6 for fields in lines):
        raise ValueError
    items, item_bounds = _packed([fields["items"] for fields in lines], ITEM_COUNT_BITS)
    words, word_bounds = _packed([fields["words"] for fields in lines], WORD_COUNT_BITS)
    memories = HostMemories(
        np.array([int(fields["memory"], 16) for fields in lines], np.uint64),
        np.array([fields["pages"] for fields in lines], np.uint32),
        np.array([fields["last"] for fields in lines], np.uint64),
        np.array([NOBODY if fields["first"] is None else fields["first"] for fields in lines], np.int64),
        *(items, item_bounds, words, word_bounds),
    )
    values = [value for value in encode_memories(memories) if value is not None]
    if len(values) != len(lines):
        raise ValueError
    return encode_keys(memories.hosts), values


def pending_verdict_line(key: bytes, value: bytes) -> bytes:
    """Write a pending verdict. Raises CorruptRecord."""
    source, partition, offset = page_of_key(key)
    verdict = decode_pending_verdict(key, value)
    fields = {"attempt": offset, "source": source, "partition": partition, **verdict._asdict()}
    return dumped(fields | ({"original": None, "score": None} if verdict.original == NOBODY else {}))


def pending_verdict_value(fields: Fields) -> tuple[bytes, bytes]:
    """Read the fields of a pending verdict -> key and value. Raises KeyError, TypeError, ValueError, struct.error."""
    if len(fields) != 7:
        raise ValueError
    original, score = fields["original"], fields["score"]
    nothing = original is None and score is None
    verdict = PendingVerdict(
        NOBODY if nothing else original, nan if nothing else score, fields["reason"], fields["found_by"]
    )
    key = pending_verdict_key(fields["source"], fields["partition"], fields["attempt"])
    return key, encode_pending_verdict(verdict)


def _counted(column: NDArray[np.uint32], count_bits: int) -> list[list[int]]:
    """Split items or words: uint32[n] -> n pairs (identity or word, count)."""
    counts = column & np.uint32(2**count_bits - 1)
    pairs: list[list[int]] = np.stack([column >> np.uint32(count_bits), counts], axis=1).tolist()
    return pairs


def _packed(rows: Sequence[Sequence[Sequence[int]]], count_bits: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Join pairs, row by row -> a column and its bounds. Raises ValueError, TypeError, OverflowError."""
    words = list[int]()
    for counted, count in (pair for row in rows for pair in row):
        if not 0 <= count < 2**count_bits:
            raise ValueError
        words.append(counted << count_bits | count)
    bounds = bounds_of(list(map(len, rows)))
    return np.array(words, np.uint32), bounds


def dumped(fields: Fields) -> bytes:
    """Write JSON on one line. orjson rejects lone surrogates, json accepts them."""
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError:
        return json.dumps(fields, separators=(",", ":")).encode()


def loaded(line: bytes) -> Any:
    """Read a line of dumped(). Raises ValueError."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


def hexed(word: int) -> str:
    """Write a word as 16 hex digits."""
    return f"{word:016x}"


BATCH = 4096
T = TypeVar("T")


def export_lines(state: State, on_progress: OnProgress = ignore_progress) -> Iterator[bytes]:
    """Yield the lines of an export, BATCH at a time, without the last line feed. Raises CorruptRecord."""
    hashed, counts = xxhash.xxh3_128(), dict.fromkeys(COUNTED, 0)

    def block(lines: Sequence[bytes]) -> bytes:
        joined = b"\n".join(lines)
        hashed.update(joined)
        hashed.update(b"\n")
        return joined

    yield block([dumped(header_of(state))])
    for sources in _batched(enumerate(state.sources)):
        yield block([dumped({"source": number, "text": text}) for number, text in sources])
        counts["sources"] += len(sources)
    total = state.progress.entry_count - state.clock.floor
    for entries in _batched(state.scan("entries")):
        yield block([dumped(entry_fields(key, value)) for key, value in entries])
        counts["entries"] += len(entries)
        on_progress("entries written", counts["entries"], total)
    total = state.backend.estimated_keys("buckets")
    for items in _batched(state.scan("buckets")):
        keys = decode_keys([key for key, _ in items])
        buckets = decode_buckets(keys, [value for _, value in items])
        yield block(bucket_lines(keys, buckets))
        counts["buckets"] += len(keys)
        counts["postings"] += len(buckets.numbers)
        on_progress("buckets written", counts["buckets"], max(total, counts["buckets"]))
    total = state.backend.estimated_keys("hosts")
    for items in _batched(state.scan("hosts")):
        yield block(memory_lines([key for key, _ in items], [value for _, value in items]))
        counts["memories"] += len(items)
        on_progress("memories of hosts written", counts["memories"], max(total, counts["memories"]))
    for items in _batched(state.scan("attempts")):
        yield block([pending_verdict_line(key, value) for key, value in items])
        counts["attempts"] += len(items)
    yield dumped({"end": True, **counts, "xxh3_128": hashed.hexdigest()})


def _batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of BATCH."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
