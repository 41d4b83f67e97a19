"""Encodes and decodes the lines of an export. An export is a state as JSON Lines, which other programs can read.

    export  = header LF, (source LF)*, (entry LF)*, (bucket LF)*, trailer LF
    header  = {"spotsieve_state": 1, "format", "log", "log_position", "pages_applied", "last_record", "entries",
               "first_entry", "watermark_ms", "marks", "sweep", "settings", "settings_digest"}
    source  = {"source": number, "text"}
    entry   = {"entry": number, "source", "partition", "offset", "event_time_ms", "url", "label", "host",
               "feature_count", "template", "sketch", "features"?} | {"entry": number, "forgotten": true}
    bucket  = {"bucket": key, "entries": [number*], "inline": [word*]}
    trailer = {"end": true, "sources", "entries", "buckets", "postings", "xxh3_128"}

state/FORMATS.md says what each field means. 64-bit words that are no numbers (keys, hosts, sketches, checksums) are 16
hex digits. xxh3_128 covers every line before the trailer with its line feed.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from spotsieve.state.format.buckets import INLINE_BYTES, encode_buckets
from spotsieve.state.format.entries import FORGOTTEN, EntryParts, pack_entry, unpack_entry
from spotsieve.state.format.keys import encode_keys
from spotsieve.state.format.meta import Progress
from spotsieve.state.horizon import NO_TIME, Clock, Mark
from spotsieve.state.index import Buckets
from spotsieve.state.still.reading import StillState
from spotsieve.state.sweep import Sweep
from spotsieve.stream.fingerprints.tables import KEY_BITS
from spotsieve.stream.settings.verdicts import settings_digest

VERSION = 1
Fields = dict[str, Any]


def header_of(state: StillState) -> Fields:
    """Return the header: what the state belongs to, and how far it had come."""
    (state_format, settings, log), progress, clock = state.identity, state.progress, state.clock
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
        "settings": settings,
        "settings_digest": settings_digest(settings).hex(),
    }


def progress_of(header: Fields) -> tuple[Progress, Clock]:
    """Read the meta values of a header. Raises KeyError, TypeError, ValueError if a field is missing or wrong."""
    next_key, floor = header["sweep"]
    watermark_ms = NO_TIME if header["watermark_ms"] is None else header["watermark_ms"]
    progress = Progress(
        position=header["log_position"],
        entry_count=header["entries"],
        last_record=int(header["last_record"], 16),
        pages_applied=header["pages_applied"],
        watermark_ms=watermark_ms,
        sweep=Sweep(int(next_key, 16), floor),
    )
    return progress, Clock(watermark_ms, tuple(Mark(*mark) for mark in header["marks"]))


def entry_fields(key: bytes, value: bytes) -> Fields:
    """Return the line of an entry. Bytes that are no UTF-8 become lone surrogates. Raises CorruptRecord."""
    number = int.from_bytes(key, "big")
    if value == FORGOTTEN:
        return {"entry": number, "forgotten": True}
    parts = unpack_entry(key, value)
    texts = {name: getattr(parts, name).decode("utf-8", "surrogateescape") for name in ("url", "label")}
    words = {"host": hexed(parts.host), "sketch": [hexed(word) for word in parts.sketch]}
    if parts.features:
        words["features"] = [hexed(word) for word in parts.features]
    named = {name: value for name, value in parts._asdict().items() if name != "features"}
    return {"entry": number, **named, **texts, **words}


def entry_value(fields: Fields) -> tuple[int, bytes]:
    """Read the line of an entry -> (entry number, value). Raises KeyError, TypeError, ValueError, struct.error."""
    fields = dict(fields)
    number = fields.pop("entry")
    if fields == {"forgotten": True}:
        return number, FORGOTTEN
    for name in ("url", "label"):
        fields[name] = fields[name].encode("utf-8", "surrogateescape")
    for name in ("sketch", "features"):
        fields[name] = tuple(int(word, 16) for word in fields.get(name, ()))
    fields["host"] = int(fields["host"], 16)
    return number, pack_entry(EntryParts(**fields))


def bucket_lines(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """Write buckets -> one line for each of keys: uint64[u]. Inline words are given only where they are stored."""
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


def dumped(fields: Fields) -> bytes:
    """Write JSON on one line. orjson takes no lone surrogates, json does."""
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
