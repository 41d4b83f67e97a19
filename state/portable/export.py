"""Exports a state as JSON Lines, which other programs can read and from which a state can be made again."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import xxhash

from spotsieve.state.format.buckets import decode_buckets
from spotsieve.state.format.keys import decode_keys
from spotsieve.state.portable.lines import (
    COUNTED,
    attempt_line,
    bucket_lines,
    dumped,
    entry_fields,
    header_of,
    memory_lines,
)
from spotsieve.state.still.reading import StillState
from spotsieve.stream.progress import OnProgress, ignore_progress

BATCH = 4096
T = TypeVar("T")


def export_lines(state: StillState, on_progress: OnProgress = ignore_progress) -> Iterator[bytes]:
    """Give a state as text: some thousands of lines at a time, without the last line feed. Raises CorruptRecord."""
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
    of = state.progress.entry_count - state.clock.floor
    for entries in _batched(state.items("entries")):
        yield block([dumped(entry_fields(key, value)) for key, value in entries])
        counts["entries"] += len(entries)
        on_progress("entries written", counts["entries"], of)
    of = state.estimated_keys("buckets")
    for items in _batched(state.items("buckets")):
        keys = decode_keys([key for key, _ in items])
        buckets = decode_buckets(keys, [value for _, value in items])
        yield block(bucket_lines(keys, buckets))
        counts["buckets"] += len(keys)
        counts["postings"] += len(buckets.numbers)
        on_progress("buckets written", counts["buckets"], max(of, counts["buckets"]))
    of = state.estimated_keys("hosts")
    for items in _batched(state.items("hosts")):
        yield block(memory_lines([key for key, _ in items], [value for _, value in items]))
        counts["memories"] += len(items)
        on_progress("memories of hosts written", counts["memories"], max(of, counts["memories"]))
    for items in _batched(state.items("attempts")):
        yield block([attempt_line(key, value) for key, value in items])
        counts["attempts"] += len(items)
    yield dumped({"end": True, **counts, "xxh3_128": hashed.hexdigest()})


def _batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Give the items some thousands at a time."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
