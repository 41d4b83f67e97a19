"""Assigns keys, hosts, entries and verdicts to shards, and tracks the number of shards while it changes.

A key belongs to the shard that its mixed bits name. A key that a scheme with a memory of hosts mixed with the host of
its page belongs to the shard of that host, so that the shard with the memory of a host also finds its pages. An entry
belongs to the shard that its number names, and to the shard of its host.

A resize is requested, and then switched or cancelled. Only the resolver decides this, between two rounds, and publishes
it in `verdicts`. So the number of shards is part of the log of rounds: all readers know at the same round which shards
respond. The indexed pages depend only on the log and the outcomes. So the new shards fill themselves while the old ones
respond, and no verdict changes.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.state.format.meta import MAX_SHARDS
from spotsieve.stream.base.arrays import distinct
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Signatures, page_ids_of
from spotsieve.stream.sign.fingerprints.permuted_tables import BLOCK_TAG, KEY_BITS, TITLE_TAG

MOST_SHARDS = MAX_SHARDS
# Both are odd, and give shares of equal size: SplitMix64's constants (Steele, Lea, Flood 2014).
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _REST = np.uint64(32), np.uint64(29)


class Share(NamedTuple):
    """One of the shards. number: 0..shards - 1"""

    number: int
    shards: int


@inlined
def _shard_of(word, shards):
    # word: uint64  shards: int64  ->  int64
    mixed = (word ^ word >> _HALF) * _FIRST
    mixed = (mixed ^ mixed >> _REST) * _SECOND
    return np.int64((mixed >> _HALF) % np.uint64(shards))


def shards_of(words: NDArray[np.uint64], shards: int) -> NDArray[np.int64]:
    """The shard of each word, which is a key or the hash of a host: uint64[m] -> int64[m]."""
    found: NDArray[np.int64] = _shards_kernel(words, shards)
    return found


@kernel
def _shards_kernel(words, shards):
    # words: uint64[m]  shards: int64  ->  int64[m]
    found = np.empty(len(words), np.int64)
    for row in range(len(words)):
        found[row] = _shard_of(words[row], shards)
    return found


def shards_of_hosts(signatures: Signatures, shards: int) -> NDArray[np.int64]:
    """The shard that judges each page, by its host: int64[n].

    A page that is submitted again goes to the shard of its first submission.
    """
    owner, words = shards_of(signatures.host, shards), _words_of_signatures(signatures)
    if len(distinct(words)) < len(words):
        first = dict[PageId, int]()
        for page, page_id in enumerate(page_ids_of(signatures)):
            owner[page] = owner[first.setdefault(page_id, page)]
    return owner


def shards_of_pages(signatures: Signatures, shards: int) -> NDArray[np.int64]:
    """The shard that records the verdict of each page, by the id of the page: int64[n]."""
    return shards_of(_words_of_signatures(signatures), shards)


def shards_of_page_ids(pages: Sequence[PageId], shards: int) -> NDArray[np.int64]:
    """The shard that records the verdict of each of n pages, by its id: int64[n]."""
    numbers = dict[str, int]()
    source = np.array([numbers.setdefault(text, len(numbers)) for text, _, _ in pages], np.int64)
    partition, offset = (np.array([page_id[place] for page_id in pages], np.int64) for place in (1, 2))
    return shards_of(_words_of_ids(list(numbers), source, partition, offset), shards)


def _words_of_signatures(signatures: Signatures) -> NDArray[np.uint64]:
    return _words_of_ids(signatures.sources, signatures.source, signatures.partition, signatures.offset)


def _words_of_ids(
    sources: Sequence[str], source: NDArray[Any], partition: NDArray[Any], offset: NDArray[Any]
) -> NDArray[np.uint64]:
    """One word for the id of each page, equal for equal ids: uint64[n].

    source: int[n], places in sources  partition, offset: int[n]
    """
    hashed = np.array([xxhash.xxh3_64_intdigest(one.encode()) for one in sources], np.uint64)
    words = partition.astype(np.uint64) * _FIRST + offset.astype(np.uint64)
    return words ^ hashed[source] if len(hashed) else words


def shards_of_entries(numbers: NDArray[np.int64], shards: int) -> NDArray[np.int64]:
    """The shard that holds each entry for all shards, with a memory of hosts: int64[e]."""
    holders: NDArray[np.int64] = _entries_kernel(numbers, shards)
    return holders


def are_own(keys: NDArray[np.uint64], share: Share, of_hosts: bool) -> NDArray[np.bool_]:
    """Which keys belong to the shard: bool[m].

    of_hosts: keys may be mixed with hosts; keys of hosts of other shards are left out already
    """
    own: NDArray[np.bool_] = _own_kernel(keys, share.number, share.shards, of_hosts)
    return own


def are_of_hosts(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which keys have the tag of keys that are mixed with the host of a page: bool[m]."""
    tag = keys >> np.uint64(KEY_BITS)
    found: NDArray[np.bool_] = (tag == BLOCK_TAG) | (tag == TITLE_TAG)
    return found


@kernel
def _entries_kernel(numbers, shards):
    # numbers: int64[e]  shards: int64  ->  int64[e]
    found, of = np.empty(len(numbers), np.int64), np.uint64(shards)
    for row in range(len(numbers)):
        found[row] = np.uint64(numbers[row]) % of
    return found


@kernel
def _own_kernel(keys, number, shards, of_hosts):
    # keys: uint64[m]  of_hosts: bool  ->  bool[m]
    own = np.empty(len(keys), np.bool_)
    for row in range(len(keys)):
        tag = keys[row] >> np.uint64(KEY_BITS)
        of_host = of_hosts and tag in (BLOCK_TAG, TITLE_TAG)
        own[row] = of_host or _shard_of(keys[row], shards) == number
    return own


class ResizeEvent(IntEnum):
    """Events of a resize, which the resolver publishes."""

    REQUESTED = 0
    SWITCHED = 1
    CANCELLED = 2
    REFUSED = 3


class Resize(NamedTuple):
    """A published event of a resize.

    shards: requested number of shards, which will take over or have taken over; after a refusal the number of the
    pending resize, 0 without one
    processed: all requests before this offset of the first partition of `matches` are processed
    """

    change: ResizeEvent
    shards: int
    processed: int


class FillProgress(NamedTuple):
    """Progress of a shard that fills itself.

    ready: it is at most a few rounds behind  next_offset: the offset in `verdicts` that it reads next
    """

    ready: bool
    next_offset: int


class ClusterSize(NamedTuple):
    """The number of shards of a cluster.

    shards: number of responding shards; 0 if none is published yet
    requested: requested number of shards; 0 without a pending resize
    processed: all requests before this offset of the first partition of `matches` are processed
    """

    shards: int = 0
    requested: int = 0
    processed: int = 0

    @property
    def most(self) -> int:
        """Number of partitions of `matches` that are in use."""
        return max(self.shards, self.requested)

    def needs(self, shards: int) -> bool:
        """Whether this number of shards responds or is requested, or no number is published yet."""
        return not self.shards or shards in (self.shards, self.requested)

    def over(self, end: int) -> "ClusterSize":
        """The same for a first partition of `matches` that ends at this offset.

        A partition that ends before its processed requests was recreated.
        """
        return self if self.processed <= end else self._replace(processed=0)

    def after(self, shards: int, resize: Resize | None = None) -> "ClusterSize":
        """The shards after a record of `verdicts`.

        shards: number of shards in the record  resize: the event of the record, if it is one of a resize
        """
        if resize is None:
            return self._replace(shards=shards)
        is_pending = resize.change in (ResizeEvent.REQUESTED, ResizeEvent.REFUSED)
        return ClusterSize(shards, resize.shards if is_pending else 0, resize.processed)

    def respond(self, wanted: int, offset: int, seen: int) -> Resize | None:
        """The event that responds to a request; None if the request was processed before.

        A refusal is an event, too: otherwise the next resolver would read the request again, and could accept it.

        wanted: requested number of shards, 0 to cancel  offset: of the request in the first partition of `matches`
        seen: number of shards when the request was made
        """
        if offset < self.processed:
            return None
        if not wanted and self.requested:
            return Resize(ResizeEvent.CANCELLED, self.requested, offset + 1)
        if not wanted or self.requested or self.shards in (wanted, 0) or seen != self.shards:
            return Resize(ResizeEvent.REFUSED, self.requested, offset + 1)
        return Resize(ResizeEvent.REQUESTED, wanted, offset + 1)

    def pending(self) -> Resize | None:
        """The pending resize, repeated with every round, so that readers find it at the end of `verdicts`; None
        without one.
        """
        return Resize(ResizeEvent.REQUESTED, self.requested, self.processed) if self.requested else None

    def switch(self) -> Resize:
        """The event that the requested shards take over."""
        return Resize(ResizeEvent.SWITCHED, self.requested, self.processed)
