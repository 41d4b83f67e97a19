"""Says which shard a key, a page of a host and the verdict of a page belong to.

A key belongs to the shard that its mixed bits name. A key that a scheme with a memory of hosts mixed with the host of
its page belongs to the shard of that host, so that the shard that remembers a host also finds its pages. An entry
belongs to the shard that its number names, and to that of its host.

Says how many shards answer, and how many are to take over: what every reader of `verdicts` makes of its records.

A resize is asked for, and then switched or cancelled. Only the resolver decides it, between two rounds. So the number
of shards is a part of the log of rounds: all who read it know at the same round who answers. What is filed depends on
the log and the outcomes alone. So the shards to come fill themselves while the others answer, and no verdict changes.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import distinct
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Signatures, page_ids_of
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS, PRINT_TAG, TITLE_TAG

MOST_SHARDS = 1024
# Odd, and so are shares of equal size: SplitMix64's (Steele, Lea, Flood 2014).
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
    """The shard of each word, a key or the hash of a host: uint64[m] -> int64[m]."""
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
    """The shard that judges each page, that of its host: int64[n]. A page that comes again goes where it went first."""
    owner, words = shards_of(signatures.host, shards), _words_of_ids(signatures)
    if len(distinct(words)) < len(words):
        first = dict[PageId, int]()
        for page, page_id in enumerate(page_ids_of(signatures)):
            owner[page] = owner[first.setdefault(page_id, page)]
    return owner


def shards_of_pages(signatures: Signatures, shards: int) -> NDArray[np.int64]:
    """The shard that remembers the verdict of each page, by its id: int64[n]."""
    return shards_of(_words_of_ids(signatures), shards)


def _words_of_ids(signatures: Signatures) -> NDArray[np.uint64]:
    """A word for the id of each page, equal where the ids are: uint64[n]."""
    source = np.array([xxhash.xxh3_64_intdigest(one.encode()) for one in signatures.sources], np.uint64)
    words = signatures.partition.astype(np.uint64) * _FIRST + signatures.offset.astype(np.uint64)
    return words ^ source[signatures.source] if len(source) else words


def shards_of_entries(numbers: NDArray[np.int64], shards: int) -> NDArray[np.int64]:
    """The shard that holds each entry for all others, with a memory of hosts: int64[e]."""
    held: NDArray[np.int64] = _entries_kernel(numbers, shards)
    return held


def are_own(keys: NDArray[np.uint64], share: Share, of_hosts: bool) -> NDArray[np.bool_]:
    """Which keys belong to the shard: bool[m]. of_hosts: keys may be mixed with hosts; those of others' are left out"""
    own: NDArray[np.bool_] = _own_kernel(keys, share.number, share.shards, of_hosts)
    return own


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
        of_host = of_hosts and tag in (PRINT_TAG, TITLE_TAG)
        own[row] = of_host or _shard_of(keys[row], shards) == number
    return own


class ResizeEvent(IntEnum):
    """What the resolver says of a resize."""

    ASKED = 0
    SWITCHED = 1
    CANCELLED = 2


class Resize(NamedTuple):
    """A word of the resolver on a resize.

    shards: those that are to take over, or have  answered: asks before this offset of the first partition of `matches`
    are dealt with
    """

    change: ResizeEvent
    shards: int
    answered: int


class FillProgress(NamedTuple):
    """How far a shard has come that fills itself. ready: it is behind by a few rounds at most

    next_told: the offset in `verdicts` that it reads next
    """

    ready: bool
    next_told: int


class ClusterSize(NamedTuple):
    """The shards of a cluster. shards: those that answer, 0: nothing was told yet  asked: to take over, 0: none

    answered: as of Resize
    """

    shards: int = 0
    asked: int = 0
    answered: int = 0

    @property
    def most(self) -> int:
        """So many partitions of `matches` are written to."""
        return max(self.shards, self.asked)

    def over(self, end: int) -> "ClusterSize":
        """The same over a first partition of `matches` that ends here. One that ends before its asks was made anew."""
        return self if self.answered <= end else self._replace(answered=0)

    def told(self, shards: int, resize: Resize | None = None) -> "ClusterSize":
        """The shards behind a record of `verdicts`.

        shards: what the record names  resize: where it is a word on a resize
        """
        if resize is None:
            return self._replace(shards=shards)
        return ClusterSize(shards, resize.shards if resize.change == ResizeEvent.ASKED else 0, resize.answered)

    def answer(self, wanted: int, offset: int) -> Resize | None:
        """What the resolver says to an ask; None where it was answered before, or nothing comes of it.

        wanted: so many shards; 0: cancel  offset: of the ask in the first partition of `matches`
        """
        if offset < self.answered:
            return None
        if not wanted:
            return Resize(ResizeEvent.CANCELLED, self.asked, offset + 1) if self.asked else None
        if self.asked or wanted == self.shards:
            return None
        return Resize(ResizeEvent.ASKED, wanted, offset + 1)

    def pending(self) -> Resize | None:
        """What is said with every round until a resize is over, so that the end of `verdicts` tells it."""
        return Resize(ResizeEvent.ASKED, self.asked, self.answered) if self.asked else None

    def switch(self) -> Resize:
        """What is said when the shards that were asked for take over."""
        return Resize(ResizeEvent.SWITCHED, self.asked, self.answered)
