"""Says which shard a key, a page of a host and the verdict of a page belong to.

A key belongs to the shard that its mixed bits name. A key that a scheme with a memory of hosts mixed with the host of
its page belongs to the shard of that host, so that the shard that remembers a host also finds its pages. An entry
belongs to the shard that its number names, and to that of its host.
"""

from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.distinct import distinct
from spotsieve.stream.fingerprints.tables import KEY_BITS, PRINT_TAG, TITLE_TAG
from spotsieve.stream.jit import inlined, kernel
from spotsieve.stream.page import PageId
from spotsieve.stream.signature import Signatures, page_ids_of

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
