"""Probes of every scheme, built from kinds of keys, and the base classes of schemes by how they search.

A scheme states which keys of a kind each page has, and the properties that all keys of the kind share; build_probes
does the rest. Most schemes search in one of two ways: by candidate keys and a comparison of sketches or features
(CandidateSearch, candidate_probes), or by keys that all decide (DecisiveSearch).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import CandidateColumns, Signatures, has_keys, is_judged
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
# SplitMix64's factors (Steele, Lea, Flood 2014). They are odd, so multiplying modulo 2^56 is invertible.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Keys(NamedTuple):
    """The keys of one kind of n pages.

    keys: uint64[k]  first, counts: int64[n], page i has keys[first[i]:first[i] + counts[i]]
    inline: uint64[n], inline bits of all these keys of a page
    limit: number of bits in which a passing posting may differ from inline
    decisive: whether a passing posting is a match at once  cap: limit on the pages indexed under a key
    """

    keys: NDArray[np.uint64]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: int = 0
    decisive: bool = False
    cap: int = UNCAPPED


class _Columns(NamedTuple):
    """Columns of Probes that the kernel fills."""

    keys: NDArray[np.uint64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]


def build_probes(*kinds: Keys) -> Probes:
    """Probes of n pages from their keys of each kind. The keys of a page are in the order of the kinds."""
    pages = len(kinds[0].counts)
    bounds = np.zeros(pages + 1, np.int64)
    for kind in kinds:
        bounds[1:] += kind.counts
    np.cumsum(bounds, out=bounds)
    total, at = int(bounds[-1]), bounds[:-1].copy()
    columns = _Columns(
        np.empty(total, np.uint64),
        np.empty(total, np.uint64),
        np.empty(total, np.uint8),
        np.empty(total, np.bool_),
        np.empty(total, np.int64),
    )
    for kind in kinds:
        _place(kind, at, columns)
    return Probes(columns.keys, bounds, columns.inline, columns.limit, columns.decisive, columns.cap)


def digest_keys(tag: int, digests: NDArray[np.uint64], which: NDArray[np.bool_]) -> Keys:
    """One decisive key per page. digests: uint64[n, 2]  which: bool[n], the pages that have one

    120 of a digest's 128 bits decide: 56 in the key, 64 in the posting.
    """
    keys = tagged(tag, digests[:, 0])
    return same_number(keys[:, None], which, np.ascontiguousarray(digests[:, 1]))._replace(decisive=True)


def table_keys(design: TableDesign, fingerprints: NDArray[np.uint64], which: NDArray[np.bool_]) -> Keys:
    """One key per table and page. fingerprints: uint64[n]  which: bool[n], the pages that have a fingerprint"""
    keys = same_number(design.keys(fingerprints), which, np.ascontiguousarray(fingerprints))
    return keys._replace(limit=design.max_distance_bits)


def same_number(keys: NDArray[np.uint64], which: NDArray[np.bool_], inline: NDArray[np.uint64] | None = None) -> Keys:
    """The same number of keys per page. keys: uint64[n, s]  which: bool[n], the pages that have them

    inline: uint64[n], inline bits of all keys of a page; None for 0
    """
    pages, each = keys.shape
    first = np.arange(pages, dtype=np.int64) * each
    none = np.zeros(pages, np.uint64) if inline is None else inline
    return Keys(np.ascontiguousarray(keys).reshape(-1), first, which * np.int64(each), none)


def listed(keys: NDArray[np.uint64], bounds: NDArray[np.int64]) -> Keys:
    """Any number of keys per page, without inline bits.

    keys: uint64[k], page i has keys[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    """
    count = sizes_of(bounds)
    return Keys(keys, bounds[:-1], count, np.zeros(len(count), np.uint64))


@kernel
def mixed_with_host(bits: NDArray[np.uint64], host: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix key bits with hosts, invertibly for each host: uint64[m], below 2^56 -> uint64[m], below 2^56.

    bits: uint64[m]  host: uint64[m]; in a kernel also scalars
    """
    mixed = (bits ^ (host & KEY_MASK)) * _FIRST & KEY_MASK
    mixed ^= mixed >> _HALF
    mixed = (mixed ^ (host >> _REST)) * _SECOND & KEY_MASK
    return mixed ^ (mixed >> _HALF)


@kernel
def _place(kind, at, columns):
    # kind: Keys  ->  columns: _Columns, written from slot at[page] on for each page  at: int64[n], advanced
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
    """Base of schemes with a decisive digest and candidate keys, which compare pages of one host like any others."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    host_thresholds = None

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """1 for every match, because only equal digests decide."""
        return np.ones(len(distance))


def candidate_probes(
    signatures: Signatures, keys: NDArray[np.uint64], inline: NDArray[np.uint64] | None = None, limit: int = 0
) -> Probes:
    """Probes of n pages: the digest of each page, and the candidate keys of those that are judged.

    A page is always indexed under its body's digest, which decides. So it finds itself when it comes again, however
    many candidates precede it, and a page without a sketch is compared by the digest only.

    keys: uint64[n, s], different within a row; rows of other pages are unused
    inline: uint64[n], inline bits of all keys of a page; None for 0
    limit: number of bits in which a passing posting may differ from inline
    """
    status = signatures.status
    candidates = same_number(keys, is_judged(status), inline)._replace(limit=limit)
    return build_probes(digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)), candidates)


def placed_keys(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys that include the column of each value: uint64[n, s], below 2^48, s at most 256 -> uint64[n, s]."""
    place = np.arange(values.shape[1]).astype(np.uint64)
    keys: NDArray[np.uint64] = np.uint64(MINIMA_TAG << KEY_BITS) | place << np.uint64(48) | values
    return keys


class DecisiveSearch:
    """Base of schemes whose keys all decide, so that there are no candidates."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    host_thresholds = None

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept nothing, because there are no candidates."""
        count = min(len(pages), len(others))
        return Confirmations(np.zeros(count, np.bool_), np.zeros(count))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """No criteria, because keys alone decide."""
        del pages, others
        return ()
