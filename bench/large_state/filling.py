"""Fills a state with whole table files: postings, entries and host memories, as the default scheme indexes pages.

Most pages are synthetic, part by part: their keys, entries and hosts are random and unrelated. The pages that are
copied later (the `old` pages of a load) are indexed completely, at entry numbers spread over the state.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rocksdict import IngestExternalFileOptions, SstFileWriter

from bench.speed.index_load import (
    COMMON_HASHES,
    COMMON_WORDS,
    HOST_PAGES,
    MINIMA,
    PRINTS,
    TEMPLATE_PRINTS,
    WITH_COMMON_HASH,
    WORDS,
    CandidateLoad,
)
from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.format.entries import encode_entries
from spotsieve.state.format.host_memory import encode_memories
from spotsieve.state.format.meta import encode_source
from spotsieve.state.index import (
    ITEM_COUNT_BITS,
    NOBODY,
    WORD_COUNT_BITS,
    Buckets,
    HostMemories,
    HostUpdate,
    IndexUpdate,
)
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import Tuning, column_families
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import OwnText, Signatures
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    DIGEST_TAG,
    KEY_BITS,
    MINIMA_TAG,
    PRINT_TAG,
    TITLE_TAG,
    tagged,
)
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.states.local_states import families_of

KEYS = ((TITLE_TAG, 1, KEY_BITS), (PRINT_TAG, 4, KEY_BITS), (MINIMA_TAG, MINIMA, 40), (DIGEST_TAG, 1, KEY_BITS))
"""Tag, keys per page and random bits of a key, in the order of the keys. A test compares this table with the scheme."""
KEYS_A_FILE, ENTRIES_A_FILE, HOSTS_A_FILE = 1_400_000, 100_000, 20_000
OWN_ITEMS, OWN_WORDS = 176, 30
"""Block fingerprints of a host with HOST_PAGES pages, besides its template text: the capacity of its memory."""


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
    """Fill a new state with so many pages; the first `old` ones of the load have the numbers of old_numbers()."""
    with disk_state(directory, "{}", "bench", IndexSettings()) as state:
        families = families_of(state)
        families["sources"][bytes(8)] = encode_source("pages")
        choice = IngestExternalFileOptions()
        choice.set_move_files(True)
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
            jobs, running = _jobs(directory, pages, load, old, tuning), set[Future[tuple[str, str]]]()
            while running or (running := {workers.submit(write_file, job) for job in islice(jobs, 4)}):
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {workers.submit(write_file, job) for job in islice(jobs, len(done))}
                for kind, path in (future.result() for future in done):
                    families[kind].ingest_external_file([path], choice)
        state._progress = state.progress._replace(entry_count=pages)
        state.file(None, 1, 0)


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
    """Write one table file -> (its column family, its path). Runs in a separate process."""
    names, values = {"buckets": _buckets, "entries": _entries, "hosts": _hosts}[job.kind](job)
    writer = SstFileWriter(column_families(IndexSettings(), job.tuning)[job.kind])
    writer.open(job.path)
    for name, value in zip(names, values, strict=True):
        writer[name] = value
    writer.finish()
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
    """The entries of these pages. Their first block fingerprints are their own, the last ones belong to the host."""
    count = len(signatures)
    own = PRINTS - TEMPLATE_PRINTS
    prints = signatures.prints.reshape(count, PRINTS)[:, :own].reshape(-1)
    texts = OwnText(
        signatures.site,
        np.full(count, 255 * TEMPLATE_PRINTS // PRINTS, np.uint8),
        np.full(count, PRINTS, np.uint16),
        prints,
        np.arange(count + 1) * own,
        signatures.titles,
        signatures.titles_bounds,
    )
    none, no_words = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    no_buckets = Buckets(np.zeros(1, np.int64), no_words, no_words)
    learned = HostUpdate(texts, _memories(no_words, 1), (), ())
    index_update = IndexUpdate(signatures, np.arange(count), 0, no_words, no_buckets, len(none), learned=learned)
    return encode_entries(index_update, np.zeros(count, np.uint32))


def _hosts(job: Job) -> tuple[list[bytes], Sequence[bytes]]:
    """Memories of hosts, each with its template text and with block fingerprints of its own pages."""
    hosts = job.pages // HOST_PAGES
    first, last = (1 + hosts * edge // job.parts for edge in (job.part, job.part + 1))
    memories = _memories(np.arange(first, last, dtype=np.uint64), job.pages)
    return encode_keys(memories.hosts), [value for value in encode_memories(memories) if value is not None]


def _memories(hosts: NDArray[np.uint64], pages: int) -> HostMemories:
    """Memories of hosts with HOST_PAGES pages each. hosts: uint64[h], ascending"""
    count = len(hosts)
    dice = np.random.default_rng(count)
    # Ascending hashes make the fingerprints of a place distinct. The host's own fingerprints fill the last places.
    own = PRINTS - TEMPLATE_PRINTS
    each = OWN_ITEMS // own
    width = 2**21 // each
    hashes = np.arange(each) * width + dice.integers(0, width, (count, own, each))
    items = (np.arange(own)[:, None] << 21 | hashes).reshape(count, own * each) << ITEM_COUNT_BITS | 1
    template = np.arange(own, PRINTS) << 21 | (hosts.astype(np.int64)[:, None] % 2**21)
    items = np.concatenate([items, template << ITEM_COUNT_BITS | 15], axis=1)
    plain = WORDS - COMMON_WORDS
    each = OWN_WORDS // plain
    width = 2**12 // each
    some = np.arange(each) * width + dice.integers(0, width, (count, plain, each))
    words = (np.arange(plain)[:, None] << 12 | some).reshape(count, plain * each) << WORD_COUNT_BITS | 1
    common = np.arange(plain, WORDS) << 12 | (hosts.astype(np.int64)[:, None] % 2**12)
    words = np.concatenate([words, common << WORD_COUNT_BITS | HOST_PAGES], axis=1)
    return HostMemories(
        hosts,
        np.full(count, HOST_PAGES, np.uint32),
        np.full(count, pages - 1, np.uint64),
        np.full(count, NOBODY, np.int64),
        items.reshape(-1).astype(np.uint32),
        np.arange(count + 1) * items.shape[1],
        words.reshape(-1).astype(np.uint32),
        np.arange(count + 1) * words.shape[1],
    )
