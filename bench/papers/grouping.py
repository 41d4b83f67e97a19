"""Searches a batch of fingerprints of any length by groups of their bits (Yuan, Long, Zhang, Gui 2012).

k bits are cut into m = r_h + c groups. Two fingerprints that differ in at most r_h bits have at least c equal groups.

    alg.G, grouping (sec. 3.1, after Manku et al. 2007): those that agree on all groups of any choice of c of the m
    alg.H, group merging (sec. 4): one index of y_i = (i - 1) C + A_i; candidates occur under c or more of m values

Candidates are then compared bit by bit, so both find the same: all within r_h and nothing else. Alg.G looks at C(m, c)
choices, 39,711 of them with k = 400 and r = 0.7; alg.H reads the same m lists once.

The index holds, group by group, the list of fingerprints of each value. It is the paper's B+ tree on Y; reading it at
the keys of one group gives the m trees of alg.G. C is 2^48: the key of a longer group is its low 48 bits (the paper has
a string index for k / m > 64), which costs comparisons and loses nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.stream.sign.fingerprints.minhash import VALUE_BITS, cut_groups, group_values
from spotsieve.stream.sign.fingerprints.simhash import count_bits

MOST_FINGERPRINTS = 2**32 - 1
MOST_GROUPS = 2**16
_RADIX_BITS = 16


@dataclass(frozen=True, slots=True)
class GroupIndex:
    """n fingerprints of k bits, indexed by the values of their m = r_h + c groups.

    fingerprints: uint64[n, w], bit b is bit b % 64 of word b // 64  groups: int64[m + 1], group i has bits groups[i]..
    groups[i + 1] - 1  keys: uint64[u], ascending (group << 48 | value)  bounds: int64[u + 1], the fingerprints under
    keys[j] are rows[bounds[j]:bounds[j + 1]], ascending  rows: uint32[m * n]
    """

    fingerprints: NDArray[np.uint64]
    r_h: int
    c: int
    groups: NDArray[np.int64]
    keys: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    rows: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.fingerprints)


class NearPairs(NamedTuple):
    """The result of a search. pairs: int64[p, 2], ascending (query, row)  compared: fingerprints compared bit by bit"""

    pairs: NDArray[np.int64]
    compared: int


def index_groups(fingerprints: NDArray[np.uint64], k: int, r_h: int, c: int = 3) -> GroupIndex:
    """Group n fingerprints of k bits, so that all within r_h of a query can be found.

    fingerprints: uint64[n, w], 64 * w >= k; bits from k on must be 0  c: required equal groups (sec. 4.2: 3)
    Takes 4 * m bytes per fingerprint. Raises TypeError, and ValueError if there would be more groups than bits.
    """
    if fingerprints.dtype != np.uint64 or fingerprints.ndim != 2:
        raise TypeError(f"fingerprints must be uint64[n, w], got {fingerprints.dtype}[{fingerprints.ndim} dimensions]")
    if not 1 <= k <= 64 * fingerprints.shape[1]:
        raise ValueError(
            f"k must be 1..{64 * fingerprints.shape[1]}, the bits of {fingerprints.shape[1]} words, got {k}"
        )
    if r_h < 0 or c < 1 or r_h + c > min(k, MOST_GROUPS):
        raise ValueError(
            f"r_h + c must be 1..{min(k, MOST_GROUPS)} groups of {k} bits, got {r_h} + {c}; lower c or r_h"
        )
    if len(fingerprints) > MOST_FINGERPRINTS:
        raise ValueError(f"fingerprints must be at most {MOST_FINGERPRINTS:,}, got {len(fingerprints):,}; split them")
    count, groups = len(fingerprints), cut_groups(k, r_h + c)
    keys, starts = [], []
    rows = np.empty(count * (len(groups) - 1), np.uint32)
    for group, width in enumerate(np.diff(groups)):
        values = group_values(fingerprints, groups, group)
        order = np.argsort(values.astype(np.uint16) if width <= _RADIX_BITS else values, kind="stable")
        rows[group * count : (group + 1) * count] = order
        distinct, first = np.unique(values[order], return_index=True)
        keys.append(distinct | np.uint64(group << VALUE_BITS))
        starts.append(first + group * count)
    bounds = np.concatenate([*starts, [len(rows)]]).astype(np.int64)
    return GroupIndex(np.ascontiguousarray(fingerprints), r_h, c, groups, np.concatenate(keys), bounds, rows)


def search_by_grouping(index: GroupIndex, queries: NDArray[np.uint64]) -> NearPairs:
    """Alg.G: all rows within r_h of each query. queries: uint64[q, w]"""
    return _grouping(index, queries, np.zeros(len(queries), np.int64))


def search_by_group_merging(index: GroupIndex, queries: NDArray[np.uint64]) -> NearPairs:
    """Alg.H: all rows within r_h of each query. queries: uint64[q, w]"""
    return _group_merging(index, queries, np.zeros(len(queries), np.int64))


def pairs_by_grouping(index: GroupIndex, first: int, last: int) -> NearPairs:
    """Alg.G: all pairs within r_h of a row in first..last - 1 and a later row, each compared once."""
    return _numbered(_grouping(index, index.fingerprints[first:last], np.arange(first + 1, last + 1)), first)


def pairs_by_group_merging(index: GroupIndex, first: int, last: int) -> NearPairs:
    """Alg.H: all pairs within r_h of a row in first..last - 1 and a later row, each compared once."""
    return _numbered(_group_merging(index, index.fingerprints[first:last], np.arange(first + 1, last + 1)), first)


def _grouping(index: GroupIndex, queries: NDArray[np.uint64], begin: NDArray[np.int64]) -> NearPairs:
    lists = _lists(index, queries, begin)
    longest = int((lists[1] - lists[0]).max(initial=0))
    words = (len(index) + 63) // 64
    has = np.zeros((len(index.groups) - 1, words), np.uint64)
    agreeing = np.empty((index.c, longest + 1), np.uint32)
    seen = np.zeros(words, np.uint64)
    found = _intersect(index.fingerprints, queries, *lists, index.rows, index.c, index.r_h, has, seen, agreeing)
    return _sorted(*found)


def _group_merging(index: GroupIndex, queries: NDArray[np.uint64], begin: NDArray[np.int64]) -> NearPairs:
    lists = _lists(index, queries, begin)
    # The counters of 300,000 fingerprints fit into a core's cache as bytes. A byte counts to 255 groups.
    counts = np.zeros(len(index), np.uint8 if len(index.groups) <= 256 else np.uint16)
    met = np.empty(len(index) + 1, np.uint32)
    return _sorted(*_merge(index.fingerprints, queries, *lists, index.rows, index.c, index.r_h, counts, met))


def _lists(
    index: GroupIndex, queries: NDArray[np.uint64], begin: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranges of index.rows with rows >= begin that share a group with a query: first, last: int64[q, m]."""
    if queries.dtype != np.uint64 or queries.shape[1:] != index.fingerprints.shape[1:]:
        words = index.fingerprints.shape[1]
        raise TypeError(f"queries must be uint64[q, {words}], got {queries.dtype}{list(queries.shape)}")
    first = np.zeros((len(queries), len(index.groups) - 1), np.int64)
    last = np.zeros_like(first)
    for group in range(first.shape[1] if len(index) else 0):
        keys = group_values(queries, index.groups, group) | np.uint64(group << VALUE_BITS)
        place = np.searchsorted(index.keys, keys)
        place[place == len(index.keys)] = 0
        found = index.keys[place] == keys
        first[:, group] = np.where(found, index.bounds[place], 0)
        last[:, group] = np.where(found, index.bounds[place + 1], 0)
    if begin.any():
        _skip(index.rows, begin, first, last)
    return first, last


def _sorted(pairs: NDArray[np.int64], compared: int) -> NearPairs:
    return NearPairs(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], compared)


def _numbered(near: NearPairs, first: int) -> NearPairs:
    """Replace the number of each query by its row."""
    near.pairs[:, 0] += first
    return near


@njit(nogil=True, cache=True)
def _skip(rows, begin, first, last):  # type: ignore[no-untyped-def]
    # rows: uint32[]  begin: int64[q]  first, last: int64[q, m]  ->  first, past the rows below begin of each list
    for query in range(len(begin)):
        for group in range(first.shape[1]):
            low, high = first[query, group], last[query, group]
            while low < high:
                middle = (low + high) // 2
                if np.int64(rows[middle]) < begin[query]:
                    low = middle + 1
                else:
                    high = middle
            first[query, group] = low


@njit(nogil=True, cache=True)
def _within(fingerprints, row, queries, query, r_h):  # type: ignore[no-untyped-def]
    # fingerprints: uint64[n, w]  queries: uint64[q, w]  row, query, r_h: uint64  ->  bool
    differing = np.uint64(0)
    for word in range(np.uint64(fingerprints.shape[1])):
        differing += count_bits(fingerprints[row, word] ^ queries[query, word])
        if differing > r_h:
            return False
    return True


@njit(nogil=True, cache=True)
def _merge(fingerprints, queries, first, last, rows, c, r_h, counts, met):  # type: ignore[no-untyped-def]
    # fingerprints: uint64[n, w]  queries: uint64[q, w]  first, last: int64[q, m]  rows: uint32[]
    # counts: unsigned[n], 0  met: uint32[n + 1], written over  ->  pairs: int64[p, 2], compared
    # Indices are unsigned, since numba checks signed ones for counting from the end: a third of the time here.
    pairs, taken, compared, limit = np.empty((64, 2), np.int64), 0, np.int64(0), np.uint64(r_h)
    for query in range(np.uint64(len(queries))):
        counts[:] = 0
        number = np.uint64(0)
        for group in range(np.uint64(first.shape[1])):
            for at in range(np.uint64(first[query, group]), np.uint64(last[query, group])):
                row = rows[at]
                count = counts[row] + np.uint8(1)
                counts[row] = count
                # Branchless, because the branch would be unpredictable: one in twenty occurs for the c-th time.
                met[number] = row
                number += np.uint64(count == c)
        compared += np.int64(number)
        for place in range(number):
            row = met[place]
            if _within(fingerprints, row, queries, query, limit):
                if taken == len(pairs):
                    pairs = np.append(pairs, np.empty_like(pairs), axis=0)
                pairs[taken, 0], pairs[taken, 1] = np.int64(query), np.int64(row)
                taken += 1
    return pairs[:taken], compared


@njit(nogil=True, cache=True)
def _intersect(  # type: ignore[no-untyped-def]
    fingerprints, queries, first, last, rows, c, r_h, has, seen, agreeing
):
    # as _merge; has: uint64[m, n / 64], 0, a bit for each row of a query's list  seen: uint64[n / 64], 0
    # agreeing: uint32[c, longest list + 1], the rows that agree on the groups chosen so far
    # Choices are made group by group, depth first, so that rows that agree on first groups are computed once for all
    # choices that begin with them, and a prefix without such rows is abandoned.
    pairs, taken, compared = np.empty((64, 2), np.int64), 0, 0
    groups = first.shape[1]
    chosen, sizes = np.empty(c, np.int64), np.empty(c, np.uint64)
    one, low, six, limit = np.uint64(1), np.uint64(63), np.uint64(6), np.uint64(r_h)
    for query in range(np.uint64(len(queries))):
        for group in range(np.uint64(groups)):
            for at in range(np.uint64(first[query, group]), np.uint64(last[query, group])):
                has[group, rows[at] >> six] |= one << (rows[at] & low)
        depth = 0
        chosen[0] = -1
        while depth >= 0:
            chosen[depth] += 1
            group = chosen[depth]
            if group > groups - c + depth:
                depth -= 1
                continue
            size = np.uint64(0)
            if depth == 0:
                for at in range(np.uint64(first[query, group]), np.uint64(last[query, group])):
                    agreeing[0, size] = rows[at]
                    size += one
            else:
                for at in range(sizes[depth - 1]):
                    row = agreeing[depth - 1, at]
                    agreeing[depth, size] = row
                    size += (has[group, row >> six] >> (row & low)) & one
            sizes[depth] = size
            if depth < c - 1:
                if size:
                    depth += 1
                    chosen[depth] = group
                continue
            for at in range(size):
                row = agreeing[depth, at]
                if (seen[row >> six] >> (row & low)) & one:
                    continue
                seen[row >> six] |= one << (row & low)
                compared += 1
                if _within(fingerprints, row, queries, query, limit):
                    if taken == len(pairs):
                        pairs = np.append(pairs, np.empty_like(pairs), axis=0)
                    pairs[taken, 0], pairs[taken, 1] = np.int64(query), np.int64(row)
                    taken += 1
        for group in range(np.uint64(groups)):
            for at in range(np.uint64(first[query, group]), np.uint64(last[query, group])):
                has[group, rows[at] >> six] = 0
                seen[rows[at] >> six] = 0
    return pairs[:taken], compared
