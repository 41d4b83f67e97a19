"""Owns the portable form of a state: JSON Lines that other programs can read, and that a state is made of again.

    export  = header LF, (source LF)*, (entry LF)*, (bucket LF)*, trailer LF
    header  = {"spotsieve_state": 1, "format", "log", "log_position", "pages_applied", "last_record", "entries",
               "first_entry", "watermark_ms", "marks", "sweep", "settings", "settings_digest"}
    source  = {"source": number, "text"}
    entry   = {"entry": number, "source", "partition", "offset", "event_time_ms", "url", "label", "host",
               "feature_count", "template", "sketch", "features"?} | {"entry": number, "forgotten": true}
    bucket  = {"bucket": key, "entries": [number*], "inline": [word*]}
    trailer = {"end": true, "sources", "entries", "buckets", "postings", "xxh3_128"}

state/FORMATS.md says what each field means. Words of 64 bits that are no numbers (keys, hosts, sketches, checksums) are
16 hex digits. xxh3_128 is that of every line before the trailer with its line feed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from spotsieve.state.format import layouts as formats
from spotsieve.state.horizon import NO_TIME, Clock, Mark
from spotsieve.state.index import Buckets
from spotsieve.state.still.reading import StillState
from spotsieve.state.sweep import Sweep
from spotsieve.stream.fingerprints.tables import KEY_BITS
from spotsieve.stream.settings.verdicts import settings_digest

VERSION = 1
BATCH = 4096
Told = Callable[[str, int, int], None]
Fields = dict[str, Any]
T = TypeVar("T")


def export_lines(state: StillState, told: Told = lambda *_: None) -> Iterator[bytes]:
    """A state as text: some thousands of lines at a time, without the last line feed. Raises CorruptRecord."""
    hashed, counts = xxhash.xxh3_128(), dict.fromkeys(("sources", "entries", "buckets", "postings"), 0)

    def block(lines: Sequence[bytes]) -> bytes:
        joined = b"\n".join(lines)
        hashed.update(joined)
        hashed.update(b"\n")
        return joined

    yield block([dumped(header_of(state))])
    for sources in batched(enumerate(state.sources)):
        yield block([dumped({"source": number, "text": text}) for number, text in sources])
        counts["sources"] += len(sources)
    of = state.progress.entry_count - state.clock.floor
    for entries in batched(state.items("entries")):
        yield block([dumped(entry_fields(key, value)) for key, value in entries])
        counts["entries"] += len(entries)
        told("entries written", counts["entries"], of)
    of = state.estimated_keys("buckets")
    for items in batched(state.items("buckets")):
        keys = formats.keys_of([key for key, _ in items])
        buckets = formats.decode_buckets(keys, [value for _, value in items])
        yield block(bucket_lines(keys, buckets))
        counts["buckets"] += len(keys)
        counts["postings"] += len(buckets.numbers)
        told("buckets written", counts["buckets"], max(of, counts["buckets"]))
    yield dumped({"end": True, **counts, "xxh3_128": hashed.hexdigest()})


def header_of(state: StillState) -> Fields:
    """What a state is bound to, and how far it had come."""
    (state_format, settings, log), progress, clock = state.identity, state.progress, state.clock
    return {
        "spotsieve_state": VERSION, "format": state_format, "log": log, "log_position": progress.position,
        "pages_applied": progress.pages_applied, "last_record": hexed(progress.last_record),
        "entries": progress.entry_count, "first_entry": clock.floor,
        "watermark_ms": None if clock.watermark_ms == NO_TIME else clock.watermark_ms,
        "marks": [list(mark) for mark in clock.marks],
        "sweep": [hexed(progress.sweep.next_key), progress.sweep.floor],
        "settings": settings, "settings_digest": settings_digest(settings).hex(),
    }  # fmt: skip


def progress_of(header: Fields) -> tuple[formats.Progress, Clock]:
    """The two meta values of a header. Raises KeyError, TypeError, ValueError where a field is missing or no such."""
    next_key, floor = header["sweep"]
    watermark_ms = NO_TIME if header["watermark_ms"] is None else header["watermark_ms"]
    progress = formats.Progress(
        header["log_position"], header["entries"], int(header["last_record"], 16), header["pages_applied"],
        watermark_ms, Sweep(int(next_key, 16), floor),
    )  # fmt: skip
    return progress, Clock(watermark_ms, tuple(Mark(*mark) for mark in header["marks"]))


def entry_fields(key: bytes, value: bytes) -> Fields:
    """An entry's line. Text that is not UTF-8 is kept by lone surrogates, as Python has them. Raises CorruptRecord."""
    number = int.from_bytes(key, "big")
    if value == formats.FORGOTTEN:
        return {"entry": number, "forgotten": True}
    parts = formats.unpack_entry(key, value)
    texts = {name: getattr(parts, name).decode("utf-8", "surrogateescape") for name in ("url", "label")}
    words = {"host": hexed(parts.host), "sketch": [hexed(word) for word in parts.sketch]}
    if parts.features:
        words["features"] = [hexed(word) for word in parts.features]
    named = {name: value for name, value in parts._asdict().items() if name != "features"}
    return {"entry": number, **named, **texts, **words}


def entry_value(fields: Fields) -> tuple[int, bytes]:
    """(entry number, value) of an entry's line. Raises KeyError, TypeError, ValueError, struct.error."""
    fields = dict(fields)
    number = fields.pop("entry")
    if fields == {"forgotten": True}:
        return number, formats.FORGOTTEN
    for name in ("url", "label"):
        fields[name] = fields[name].encode("utf-8", "surrogateescape")
    for name in ("sketch", "features"):
        fields[name] = tuple(int(word, 16) for word in fields.get(name, ()))
    fields["host"] = int(fields["host"], 16)
    return number, formats.pack_entry(formats.EntryParts(**fields))


def bucket_lines(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """keys: uint64[u] -> a line each; inline words only where they are stored."""
    bounds, numbers, inlines = buckets.bounds.tolist(), buckets.numbers.tolist(), buckets.inlines.tolist()
    lines = []
    for place, key in enumerate(keys.tolist()):
        part = slice(bounds[place], bounds[place + 1])
        kept = part if key >> KEY_BITS not in formats.INLINE_BYTES else slice(0, 0)
        lines.append(
            dumped({"bucket": hexed(key), "entries": numbers[part], "inline": [hexed(word) for word in inlines[kept]]})
        )
    return lines


def bucket_values(lines: Sequence[Fields]) -> tuple[list[bytes], list[bytes], Buckets]:
    """Keys, values and contents of buckets. Raises KeyError, TypeError, ValueError, OverflowError."""
    keys, numbers, inlines, bounds = list[int](), list[int](), list[int](), [0]
    for fields in lines:
        key, entries, words = int(fields["bucket"], 16), fields["entries"], [int(word, 16) for word in fields["inline"]]
        bare = key >> KEY_BITS in formats.INLINE_BYTES
        if not entries or len(fields) != 3 or len(words) != (0 if bare else len(entries)):
            raise ValueError
        keys.append(key)
        numbers += entries
        inlines += words if not bare else [0] * len(entries)
        bounds.append(len(numbers))
    names = np.array(keys, np.uint64)
    buckets = Buckets(np.array(bounds), np.array(numbers, np.uint64), np.array(inlines, np.uint64))
    return formats.number_keys(names), formats.encode_buckets(names, buckets), buckets


def batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Some thousands at a time."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def dumped(fields: Fields) -> bytes:
    """JSON on one line; orjson takes no lone surrogates."""
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError:
        return json.dumps(fields, separators=(",", ":")).encode()


def loaded(line: bytes) -> Any:
    """What dumped() was given. Raises ValueError."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


def hexed(word: int) -> str:
    """16 digits."""
    return f"{word:016x}"
