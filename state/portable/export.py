"""Exports a state as JSON Lines for other programs, and encodes and decodes each line.

    export  = header LF, (source LF)*, (entry LF)*, (bucket LF)*, (memory LF)*, (attempt LF)*, (common LF)*,
              trailer LF
    header  = {"spotsieve_state": 3, "format", "log", "log_position", "pages_applied", "last_record", "entries",
               "first_entry", "watermark_ms", "marks", "sweep", "host_sweep", "settings", "settings_digest"}
    source  = {"source": number, "text"}
    entry   = {"entry": number, "source", "partition", "offset", "event_time_ms", "url", "label", "host",
               "feature_count", "sketch", "features"?, "own"?, "rank"?} | {"entry": number, "forgotten": true}
    own     = {"site", "main", "whole", "every", "limit", "sample": [hash*], "blocks": [block*], "titles": [word*]}
    bucket  = {"bucket": key, "entries": [number*], "inline": [word*]}
    memory  = {"memory": host, "urls", "texts", "last", "item_hand", "word_hand", "item_floor", "word_floor",
               "items": [slot*], "words": [slot*]}
    slot    = [identity, error, urls, texts]
    attempt = {"attempt": offset, "source", "partition", "original", "score", "reason", "found_by"}
    common  = {"common": window, "slots": [slot of common text*]}
    trailer = {"end": true, "sources", "entries", "buckets", "memories", "attempts", "windows", "postings", "xxh3_128"}

state/FORMATS.md describes each field. 64-bit words that are no numbers (keys, hosts, blocks, checksums) are 16
hex digits. xxh3_128 covers every line before the trailer, with its line feed.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from math import nan
from typing import Any, TypeVar

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from spotsieve.state.format.buckets import INLINE_BYTES, decode_buckets, decode_keys, encode_buckets, encode_keys
from spotsieve.state.format.common_text import windows_in_use
from spotsieve.state.format.entries import FORGOTTEN, EntryParts, pack_entry, unpack_entry
from spotsieve.state.format.entry_bytes import OwnParts
from spotsieve.state.format.host_memory import (
    BITMAP,
    ERROR_SHIFT,
    IDENTITY_BITS,
    IDENTITY_SHIFT,
    URLS_SHIFT,
    decode_memories,
    encode_memories,
)
from spotsieve.state.format.meta import (
    StateProgress,
    decode_pending_verdict,
    encode_pending_verdict,
    log_identity_fields,
    page_of_key,
    pending_verdict_key,
)
from spotsieve.state.horizon import NO_TIME, Clock, StepMark
from spotsieve.state.index import COMMON_WINDOW, NOBODY, Buckets, HostMemories, PendingVerdict
from spotsieve.state.removal import Sweep
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.base.terminal import escape_json
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS

VERSION = 3
COUNTED = ("sources", "entries", "buckets", "memories", "attempts", "windows", "postings")
"""The counts in the trailer."""
Fields = dict[str, Any]
_NUMBERS = ("last", "item_hand", "word_hand", "item_floor", "word_floor")
"""The columns of memories that are numbers, in the order of HostMemories."""
_SLOT_FIELDS = (
    (IDENTITY_SHIFT, 2**IDENTITY_BITS - 1),
    (ERROR_SHIFT, 2 ** (IDENTITY_SHIFT - ERROR_SHIFT) - 1),
    (URLS_SHIFT, BITMAP),
    (0, BITMAP),
)
"""The fields of an item or word: lowest bit, and greatest value."""


def header_of(state: State) -> Fields:
    """Return the header: identity, progress and marks of the state."""
    (state_format, settings, log, _, log_identity), progress, clock = state.identity, state.progress, state.clock
    return {
        "spotsieve_state": VERSION,
        "format": state_format,
        "log": log,
        **log_identity_fields(log_identity),
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
        words["own"] = parts.own._asdict() | {"blocks": [hexed(block) for block in parts.own.blocks]}
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
        blocks = tuple(int(block, 16) for block in fields["own"]["blocks"])
        fields["own"] = OwnParts(**fields["own"] | {"blocks": blocks})
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
    items, words = _slots(memories.items, memories.item_bounds), _slots(memories.words, memories.word_bounds)
    columns = {name: getattr(memories, name).tolist() for name in ("urls", "texts", *_NUMBERS)}
    return [
        dumped(
            {
                "memory": keys[row].hex(),
                **{name: hexed(columns[name][row]) for name in ("urls", "texts")},
                **{name: columns[name][row] for name in _NUMBERS},
                "items": items[row],
                "words": words[row],
            }
        )
        for row in range(len(keys))
    ]


def memory_values(lines: Sequence[Fields]) -> tuple[list[bytes], list[bytes]]:
    """Read lines of memories -> keys and values. Raises KeyError, TypeError, ValueError, OverflowError."""
    if any(len(fields) != 10 for fields in lines):
        raise ValueError
    hosts, urls, texts = (
        np.array([int(fields[name], 16) for fields in lines], np.uint64) for name in ("memory", "urls", "texts")
    )
    last, item_hand, word_hand, item_floor, word_floor = ([fields[name] for fields in lines] for name in _NUMBERS)
    memories = HostMemories(
        hosts,
        urls,
        texts,
        np.array(last, np.uint64),
        np.array(item_hand, np.uint16),
        np.array(word_hand, np.uint16),
        np.array(item_floor, np.uint8),
        np.array(word_floor, np.uint8),
        *_packed([fields["items"] for fields in lines]),
        *_packed([fields["words"] for fields in lines]),
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


def common_text_line(window: int, slots: NDArray[np.uint64]) -> bytes:
    """Write a window of the table of common text. slots: uint64[COMMON_WINDOW]"""
    return dumped({"common": window, "slots": [hexed(slot) for slot in slots.tolist()]})


def common_text_slots(fields: Fields) -> tuple[int, NDArray[np.uint64]]:
    """Read a window -> its number and slots. Raises KeyError, TypeError, ValueError, OverflowError."""
    slots = np.array([int(slot, 16) for slot in fields["slots"]], np.uint64)
    if len(fields) != 2 or len(slots) != COMMON_WINDOW or not slots.any():
        raise ValueError
    return fields["common"], slots


def _slots(column: NDArray[np.uint64], bounds: NDArray[np.int64]) -> list[list[list[int]]]:
    """Split the items or words of each host: uint64[n] -> for each host, lists of identity, error, urls and texts."""
    fields = (column >> np.uint64(shift) & np.uint64(mask) for shift, mask in _SLOT_FIELDS)
    slots = np.stack(list(fields), axis=1).tolist()
    return [slots[first:end] for first, end in pairwise(bounds.tolist())]


def _packed(rows: Sequence[Sequence[Sequence[int]]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Join the items or words of all hosts -> a column and its bounds. Raises ValueError, TypeError, OverflowError."""
    words = list[int]()
    for slot in (slot for row in rows for slot in row):
        if any(not 0 <= field <= mask for field, (_, mask) in zip(slot, _SLOT_FIELDS, strict=True)):
            raise ValueError
        words.append(sum(field << shift for field, (shift, _) in zip(slot, _SLOT_FIELDS, strict=True)))
    return np.array(words, np.uint64), bounds_of(list(map(len, rows)))


def dumped(fields: Fields) -> bytes:
    """Write JSON on one line, safe for a terminal. orjson rejects lone surrogates, json accepts them."""
    try:
        return escape_json(orjson.dumps(fields))
    except orjson.JSONEncodeError:
        return escape_json(json.dumps(fields, separators=(",", ":")).encode())


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
    for windows in _batched(zip(*windows_in_use(state.common_text()), strict=True)):
        yield block([common_text_line(int(window), slots) for window, slots in windows])
        counts["windows"] += len(windows)
    yield dumped({"end": True, **counts, "xxh3_128": hashed.hexdigest()})


def _batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of BATCH."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
