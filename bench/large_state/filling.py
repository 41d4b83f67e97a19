"""Fills a state with whole table files: postings, entries and host memories, as the default scheme indexes pages.

Most pages are synthetic, part by part: their keys, entries and hosts are random and unrelated. The pages that are
copied later (the `old` pages of a load) are indexed completely, at entry numbers spread over the state.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rocksdict import IngestExternalFileOptions, SstFileWriter

from bench.speed.index_load import (
    BLOCKS,
    COMMON_HASHES,
    COMMON_WORDS,
    HOST_PAGES,
    MINIMA,
    TEMPLATE_BLOCKS,
    WITH_COMMON_HASH,
    WORDS,
    CandidateLoad,
    items_of,
    words_of,
)
from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.format.entries import encode_entries
from spotsieve.state.format.host_memory import BITMAP, IDENTITY_SHIFT, URLS_SHIFT, encode_memories
from spotsieve.state.format.meta import encode_source
from spotsieve.state.index import Buckets, HostMemories, HostUpdate, IndexUpdate, no_windows
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import Tuning, column_families
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.judge.by_host.common_text import NO_COMMON_TEXT
from spotsieve.stream.judge.by_host.distinctive_text import IS_TEMPLATE, empty_entry_texts, texts_of
from spotsieve.stream.judge.by_host.learning import keep_texts, owned_texts
from spotsieve.stream.judge.by_host.memory import COUNT_BITS, WORD_ROOM
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    BLOCK_TAG,
    DIGEST_TAG,
    KEY_BITS,
    MINIMA_TAG,
    TITLE_TAG,
    tagged,
)
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.states.local_states import families_of

KEYS = ((TITLE_TAG, 1, KEY_BITS), (BLOCK_TAG, 4, KEY_BITS), (MINIMA_TAG, MINIMA, 40), (DIGEST_TAG, 1, KEY_BITS))
"""Tag, keys per page and random bits of a key, in the order of the keys. A test compares this table with the scheme."""
KEYS_A_FILE, ENTRIES_A_FILE, HOSTS_A_FILE = 1_400_000, 100_000, 20_000
OWN_WORDS = (WORD_ROOM - COMMON_WORDS) // (WORDS - COMMON_WORDS)
"""Title words of each place that a host remembers, besides the words of all its pages: its memory is full."""


class StatePostings(NamedTuple):
    """Postings sorted by key, then by entry number: uint64[p] each."""

    keys: NDArray[np.uint64]
    numbers: NDArray[np.uint64]
    inlines: NDArray[np.uint64]

    def between(self, low: int, high: int) -> "StatePostings":
        """Postings with keys in [low, high)."""
        first = np.searchsorted(self.keys, np.uint64(low))
        last = np.searchsorted(self.keys, np.uint64(high - 1), "right")
        return StatePostings(*(column[first:last] for column in self))


@dataclass(frozen=True)
class Job:
    """One table file. parts: number of files of this kind  keys: per page  bits: random bits of a key"""

    kind: str
    part: int
    parts: int
    pages: int
    path: str
    tuning: Tuning
    tag: int = 0
    keys: int = 0
    bits: int = 0
    indexed: StatePostings | None = None
    entries: tuple[int, Sequence[bytes]] = (1, ())


def fill(directory: Path, pages: int, load: CandidateLoad, old: int, tuning: Tuning) -> None:
    """Fill a new state with `pages` pages; the first `old` pages of the load have the numbers of old_numbers().

    A fill that was killed continues with the table files that it has written.
    """
    tables = _tables_of(directory)
    tables.mkdir(parents=True, exist_ok=True)
    written = defaultdict[str, list[str]](list)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        jobs, running = _jobs(tables, pages, load, old, tuning), set[Future[tuple[str, str]]]()
        while running or (running := {workers.submit(write_file, job) for job in islice(jobs, 4)}):
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {workers.submit(write_file, job) for job in islice(jobs, len(done))}
            for kind, path in (future.result() for future in done):
                written[kind].append(path)
    shutil.rmtree(directory, ignore_errors=True)
    with disk_state(directory, "{}", "bench", IndexSettings()) as state:
        families = families_of(state)
        families["sources"][bytes(8)] = encode_source("pages")
        choice = IngestExternalFileOptions()
        choice.set_move_files(True)
        for kind, paths in written.items():
            # RocksDB moves the links, so the table files outlive a kill while they are ingested.
            families[kind].ingest_external_file([_linked(path) for path in paths], choice)
        state._progress = state.progress._replace(entry_count=pages)
        state.file(None, 1, 0)
    shutil.rmtree(tables)


def is_filled(directory: Path) -> bool:
    """Whether a fill of this state has ended."""
    return directory.exists() and not _tables_of(directory).exists()


def _tables_of(directory: Path) -> Path:
    """The folder of the table files of a state, while it is filled."""
    return directory.with_name(f"{directory.name}.tables")


def _linked(path: str) -> str:
    """Another name for a table file, which RocksDB removes as soon as the file is its own."""
    link = f"{path}.link"
    Path(link).unlink(missing_ok=True)
    os.link(path, link)
    return link


def old_numbers(pages: int, old: int) -> NDArray[np.uint64]:
    """The entry numbers of the old pages: uint64[old]."""
    return np.arange(old, dtype=np.uint64) * np.uint64(pages // old)


def _jobs(directory: Path, pages: int, load: CandidateLoad, old: int, tuning: Tuning) -> Iterator[Job]:
    """All table files; those of one kind in the order of their keys."""
    numbers = old_numbers(pages, old)
    signatures = replace(load.signatures(0, old), offset=numbers.astype(np.int64))
    indexed, values, step = postings_of(signatures, numbers), entries_of(signatures), pages // old
    for tag, keys, bits in KEYS:
        parts = max(1, pages * keys // KEYS_A_FILE)
        for part in range(parts):
            low, high = _range(tag, bits, part, parts)
            path = str(directory / f"buckets-{tag}-{part}.sst")
            its = indexed.between(low, high)
            yield Job("buckets", part, parts, pages, path, tuning, tag, keys, bits, its)
    parts = max(1, pages // ENTRIES_A_FILE)
    for part in range(parts):
        first, last = (-(-pages * edge // parts // step) for edge in (part, part + 1))
        path = str(directory / f"entries-{part}.sst")
        yield Job("entries", part, parts, pages, path, tuning, entries=(step, values[first:last]))
    parts = max(1, pages // HOST_PAGES // HOSTS_A_FILE)
    for part in range(parts):
        yield Job("hosts", part, parts, pages, str(directory / f"hosts-{part}.sst"), tuning)


def _range(tag: int, bits: int, part: int, parts: int) -> tuple[int, int]:
    """The keys of a part: [low, high)."""
    low, high = ((1 << bits) * edge // parts for edge in (part, part + 1))
    return (tag << KEY_BITS) + low, (tag << KEY_BITS) + high


def write_file(job: Job) -> tuple[str, str]:
    """Write one table file, unless it exists -> (its column family, its path). Runs in a separate process."""
    if Path(job.path).exists():
        return job.kind, job.path
    unfinished = f"{job.path}.unfinished"
    Path(unfinished).unlink(missing_ok=True)
    names, values = {"buckets": _buckets, "entries": _entries, "hosts": _hosts}[job.kind](job)
    writer = SstFileWriter(column_families(IndexSettings(), job.tuning)[job.kind])
    writer.open(unfinished)
    for name, value in zip(names, values, strict=True):
        writer[name] = value
    writer.finish()
    Path(unfinished).rename(job.path)
    return job.kind, job.path


def _buckets(job: Job) -> tuple[list[bytes], Sequence[bytes]]:
    """The postings of random keys, of the common keys among them, and of the old pages."""
    assert job.indexed is not None
    dice = np.random.default_rng((job.tag, job.part))
    low, high = _range(job.tag, job.bits, job.part, job.parts)
    keys = dice.integers(low, high, job.pages * job.keys // job.parts, np.uint64, endpoint=False)
    if job.tag == MINIMA_TAG and not job.part:
        common = np.arange(COMMON_HASHES, dtype=np.uint64)
        count = min(int(job.pages * WITH_COMMON_HASH / COMMON_HASHES) + 1, SpotsieveSettings().minima_cap)
        keys = np.concatenate([keys, np.repeat(tagged(MINIMA_TAG, common), count)])
    numbers = dice.integers(0, job.pages, len(keys), np.uint64)
    inlines = dice.integers(0, 2**64, len(keys), np.uint64) if job.tag == DIGEST_TAG else np.zeros_like(keys)
    made = StatePostings(keys, numbers, inlines)
    together = StatePostings(*map(np.concatenate, zip(made, job.indexed, strict=True)))
    return in_buckets(together, SpotsieveSettings().minima_cap)


def in_buckets(postings: StatePostings, cap: int) -> tuple[list[bytes], list[bytes]]:
    """Encode postings in any order -> names and values. Each key keeps its first `cap` entry numbers."""
    order = np.lexsort((postings.numbers, postings.keys))
    keys, numbers, inlines = (column[order] for column in postings)
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1])
    keys, numbers, inlines = keys[fresh], numbers[fresh], inlines[fresh]
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = keys[1:] != keys[:-1]
    kept = np.arange(len(keys)) - np.flatnonzero(starts)[np.cumsum(starts) - 1] < cap
    first = np.flatnonzero(starts[kept])
    bounds = np.append(first, kept.sum())
    names = keys[kept][first]
    return encode_keys(names), encode_buckets(names, Buckets(bounds, numbers[kept], inlines[kept]))


def postings_of(signatures: Signatures, numbers: NDArray[np.uint64]) -> StatePostings:
    """The postings of these pages under the default scheme, sorted by key."""
    probes = SpotsieveScheme(SpotsieveSettings()).probe(signatures)
    order = np.argsort(probes.keys, kind="stable")
    indexed = np.repeat(numbers, np.diff(probes.bounds))
    return StatePostings(probes.keys[order], indexed[order], probes.inline[order])


def _entries(job: Job) -> tuple[list[bytes], Sequence[bytes]]:
    """Entries first..last - 1, with the old pages in their places."""
    first, last = (job.pages * edge // job.parts for edge in (job.part, job.part + 1))
    hosts = job.pages // HOST_PAGES
    load = CandidateLoad(last - first, np.random.default_rng((1, job.part)), hosts=hosts)
    signatures = load.signatures(0, last - first)
    values = entries_of(replace(signatures, offset=np.arange(first, last)))
    step, indexed = job.entries
    at = -first % step
    values[at : at + step * len(indexed) : step] = indexed
    return encode_keys(np.arange(first, last, dtype=np.uint64)), values


def entries_of(signatures: Signatures) -> list[bytes]:
    """The entries of these pages. The last blocks of each are template text of its host."""
    count = len(signatures)
    pages = texts_of(signatures, np.full(len(signatures.blocks), NO_COMMON_TEXT))
    flags = np.repeat(np.array([0, IS_TEMPLATE], np.uint8), [BLOCKS - TEMPLATE_BLOCKS, TEMPLATE_BLOCKS])
    within = empty_entry_texts(signatures)
    keep_texts(pages, np.tile(flags, count), np.ones(count, np.bool_), within)
    texts = owned_texts(within, np.arange(count))
    no_words = np.zeros(0, np.uint64)
    no_buckets = Buckets(np.zeros(1, np.int64), no_words, no_words)
    learned = HostUpdate(texts, _memories(no_words, 1), (), (), no_windows())
    index_update = IndexUpdate(signatures, np.arange(count), 0, no_words, no_buckets, 0, learned=learned)
    return encode_entries(index_update, np.zeros(count, np.uint32))


def _hosts(job: Job) -> tuple[list[bytes], Sequence[bytes]]:
    """Memories of hosts, each with its template text and with blocks of its own pages."""
    hosts = job.pages // HOST_PAGES
    first, last = (1 + hosts * edge // job.parts for edge in (job.part, job.part + 1))
    memories = _memories(np.arange(first, last, dtype=np.uint64), job.pages)
    return encode_keys(memories.hosts), [value for value in encode_memories(memories) if value is not None]


def _memories(hosts: NDArray[np.uint64], pages: int) -> HostMemories:
    """Memories of hosts with HOST_PAGES pages each. hosts: uint64[h], ascending"""
    count = len(hosts)
    dice = np.random.default_rng(count)
    bits = np.uint64(1) << dice.integers(0, 64, (2, count, HOST_PAGES), np.uint64)
    urls, texts = np.bitwise_or.reduce(bits, axis=2)
    own = np.arange(BLOCKS - TEMPLATE_BLOCKS, dtype=np.uint64)
    items = items_of(own[:, None], _ascending(dice, (count, len(own), HOST_PAGES), 2**21)).reshape(
        count, len(own) * HOST_PAGES
    )
    template = np.arange(len(own), BLOCKS, dtype=np.uint64)
    items = _counted(dice, items, items_of(template, hosts[:, None] % np.uint64(2**21)))
    plain = np.arange(WORDS - COMMON_WORDS, dtype=np.uint64)
    own_words = words_of(plain[:, None], _ascending(dice, (count, len(plain), OWN_WORDS), 2**12)).reshape(
        count, len(plain) * OWN_WORDS
    )
    common = np.arange(len(plain), WORDS, dtype=np.uint64)
    words = _counted(dice, own_words, words_of(common, hosts[:, None] % np.uint64(2**12)))
    return HostMemories(
        hosts,
        urls,
        texts,
        np.full(count, pages - 1, np.uint64),
        np.zeros(count, np.uint16),
        np.zeros(count, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        items.reshape(-1),
        np.arange(count + 1) * items.shape[1],
        words.reshape(-1),
        np.arange(count + 1) * words.shape[1],
    )


def _ascending(dice: np.random.Generator, shape: tuple[int, ...], below: int) -> NDArray[np.uint64]:
    """Random numbers that ascend along the last axis, so that they are distinct."""
    width = below // shape[-1]
    return (np.arange(shape[-1]) * width + dice.integers(0, width, shape)).astype(np.uint64)


def _counted(
    dice: np.random.Generator, once: NDArray[np.unsignedinteger[Any]], always: NDArray[np.unsignedinteger[Any]]
) -> NDArray[np.uint64]:
    """Slots of items on one page each, and of items on all pages: uint64[h, ...]."""
    url, text = np.uint64(1) << dice.integers(0, COUNT_BITS, (2, *once.shape), np.uint64)
    every = np.uint64(BITMAP << URLS_SHIFT | BITMAP)
    return np.concatenate(
        [
            once.astype(np.uint64) << np.uint64(IDENTITY_SHIFT) | url << np.uint64(URLS_SHIFT) | text,
            always.astype(np.uint64) << np.uint64(IDENTITY_SHIFT) | every,
        ],
        axis=1,
    )
