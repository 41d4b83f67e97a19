"""Builds the probes of every scheme from the kinds of keys that its pages have.

A scheme says which keys of a kind each page has, and what holds for all keys of the kind; the rest is done here.

Holds what the schemes share that look for candidates and compare sketches: their probes, and their score.

A page is also filed under its body's digest, which decides. So it finds itself when it comes again, however many
candidates lie before it; a page without a sketch is compared by the digest alone.

Holds what the schemes share whose keys all decide: they confirm nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import FINGERPRINTED, CandidateColumns, Signatures, has_keys
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    DIGEST_TAG,
    KEY_BITS,
    KEY_MASK,
    MINIMA_TAG,
    TableDesign,
    tagged,
)
from spotsieve.stream.sign.schemes import CANDIDATE_LIMIT, UNCAPPED, Confirmations, Criterion, Probes

_HALF, _REST = np.uint64(KEY_BITS // 2), np.uint64(64 - KEY_BITS)
# Odd, so that multiplying modulo 2^56 loses nothing: SplitMix64's (Steele, Lea, Flood 2014).
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Keys(NamedTuple):
    """The keys of one kind that n pages have.

    keys: uint64[k]  first, counts: int64[n], page i has the `counts[i]` keys from keys[first[i]] on
    inline: uint64[n], of all these keys of a page  limit, decisive, cap: as of Probes, the same for all of them
    """

    keys: NDArray[np.uint64]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: int = 0
    decisive: bool = False
    cap: int = UNCAPPED


class _Columns(NamedTuple):
    """The columns of Probes, as the kernel fills them."""

    keys: NDArray[np.uint64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]


def build_probes(*kinds: Keys) -> Probes:
    """The probes of n pages that have keys of these kinds; a page's keys stand in the order of the kinds."""
    pages = len(kinds[0].counts)
    bounds = np.zeros(pages + 1, np.int64)
    for kind in kinds:
        bounds[1:] += kind.counts
    np.cumsum(bounds, out=bounds)
    some, at = int(bounds[-1]), bounds[:-1].copy()
    columns = _Columns(
        np.empty(some, np.uint64),
        np.empty(some, np.uint64),
        np.empty(some, np.uint8),
        np.empty(some, np.bool_),
        np.empty(some, np.int64),
    )
    for kind in kinds:
        _place(kind, at, columns)
    return Probes(columns.keys, bounds, columns.inline, columns.limit, columns.decisive, columns.cap)


def digest_keys(tag: int, digests: NDArray[np.uint64], which: NDArray[np.bool_]) -> Keys:
    """One decisive key a page: digests: uint64[n, 2]  which: bool[n], the pages that have one.

    Of a digest's 128 bits 120 decide: 56 in the key, 64 in the posting.
    """
    keys = tagged(tag, digests[:, 0])
    return same_number(keys[:, None], which, np.ascontiguousarray(digests[:, 1]))._replace(decisive=True)


def table_keys(design: TableDesign, fingerprints: NDArray[np.uint64], which: NDArray[np.bool_]) -> Keys:
    """A key a table of the pages that have a fingerprint: fingerprints: uint64[n]  which: bool[n]."""
    keys = same_number(design.keys(fingerprints), which, np.ascontiguousarray(fingerprints))
    return keys._replace(limit=design.max_distance_bits)


def same_number(keys: NDArray[np.uint64], which: NDArray[np.bool_], inline: NDArray[np.uint64] | None = None) -> Keys:
    """The same number of keys a page: uint64[n, s]  which: bool[n], the pages that have them.

    inline: uint64[n], as of Keys; None for none
    """
    pages, each = keys.shape
    first = np.arange(pages, dtype=np.int64) * each
    none = np.zeros(pages, np.uint64) if inline is None else inline
    return Keys(np.ascontiguousarray(keys).reshape(-1), first, which * np.int64(each), none)


def listed(keys: NDArray[np.uint64], bounds: NDArray[np.int64]) -> Keys:
    """Any number of keys a page, without inline bits: page i has keys[bounds[i]:bounds[i + 1]].

    keys: uint64[k]  bounds: int64[n + 1]
    """
    count = sizes_of(bounds)
    return Keys(keys, bounds[:-1], count, np.zeros(len(count), np.uint64))


@kernel
def mixed_with_host(bits: NDArray[np.uint64], host: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """bits: uint64[m], below 2^56  host: uint64[m]  ->  uint64[m], below 2^56; of one host no two become one.

    In a kernel: of one and one.
    """
    mixed = (bits ^ (host & KEY_MASK)) * _FIRST & KEY_MASK
    mixed ^= mixed >> _HALF
    mixed = (mixed ^ (host >> _REST)) * _SECOND & KEY_MASK
    return mixed ^ (mixed >> _HALF)


@kernel
def _place(kind, at, columns):
    # kind: Keys  ->  columns: _Columns, of each page from slot at[page] on  at: int64[n], moved past them
    keys, inline, cap = columns.keys, columns.inline, columns.cap
    limit, decisive = columns.limit, columns.decisive
    source, first, counts, own_inline = kind.keys, kind.first, kind.counts, kind.inline
    for page in range(len(at)):
        slot = at[page]
        for key in range(first[page], first[page] + counts[page]):
            keys[slot], inline[slot] = source[key], own_inline[page]
            limit[slot], decisive[slot], cap[slot] = kind.limit, kind.decisive, kind.cap
            slot += 1
        at[page] = slot


class CandidateSearch:
    """Probes of a decisive digest and any number of candidate keys. Pages of one host are compared like any others."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    bars = None

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))


def candidate_probes(
    signatures: Signatures, keys: NDArray[np.uint64], inline: NDArray[np.uint64] | None = None, limit: int = 0
) -> Probes:
    """Probes of n pages: the digest of each, and of those that are FINGERPRINTED their candidate keys.

    keys: uint64[n, s], different within a row; rows of other pages are not used
    inline: uint64[n], of all keys of a page, None for none  limit: as of Probes, of these keys
    """
    status = signatures.status
    candidates = same_number(keys, status == FINGERPRINTED, inline)._replace(limit=limit)
    return build_probes(digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)), candidates)


def placed_keys(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """values: uint64[n, s], below 2^48, s at most 256 -> keys tagged with their place: uint64[n, s]."""
    place = np.arange(values.shape[1]).astype(np.uint64)
    keys: NDArray[np.uint64] = np.uint64(MINIMA_TAG << KEY_BITS) | place << np.uint64(48) | values
    return keys


class DecisiveSearch:
    """Whatever passes is accepted: there are no candidates."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    bars = None

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Every key decides, so there are no candidates; none would be accepted."""
        count = min(len(pages), len(others))
        return Confirmations(np.zeros(count, np.bool_), np.zeros(count))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """None: what a key finds is accepted, and what no key finds is not."""
        del pages, others
        return ()
