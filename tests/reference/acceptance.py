"""Brute force over signatures: which pages are copies by each scheme that claims to find all, and data to try it on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.signature import Signatures, Status
from tests.reference.signatures import make_signatures

Accepts = Callable[[Signatures, int, NDArray[np.int64]], NDArray[np.bool_]]


class Claim(NamedTuple):
    """accepts: (signatures, a page, m earlier novel pages) -> bool[m]: which of them the page is a copy of

    make: how many pages, seed -> signatures, of which many are close to earlier ones  pages: how many are tried
    """

    accepts: Accepts
    make: Callable[[int, int], Signatures]
    pages: int


def originals_of(signatures: Signatures, accepts: Accepts) -> NDArray[np.int64]:
    """The earliest novel page before each page that it is a copy of, or -1: int64[n]. Empty pages match nothing."""
    novel, count = np.empty(len(signatures), np.int64), 0
    originals = np.full(len(signatures), -1)
    for row in range(len(signatures)):
        if signatures.status[row] == Status.EMPTY:
            continue
        accepted = np.flatnonzero(accepts(signatures, row, novel[:count]))
        if len(accepted):
            originals[row] = novel[accepted[0]]
        else:
            novel[count] = row
            count += 1
    return originals


def same_digest(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By the 120 bits of the digest that key and posting hold, of pages without a fingerprint."""
    digest, mask = signatures.digest, np.uint64(2**56 - 1)
    equal = ((digest[others, 0] ^ digest[row, 0]) & mask == 0) & (digest[others, 1] == digest[row, 1])
    same: NDArray[np.bool_] = equal & (signatures.status[others] != Status.FINGERPRINTED)
    return same


def within(k: int) -> Accepts:
    """Fingerprints that differ in at most k bits; pages without one by their digest."""

    def accepts(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        if signatures.status[row] != Status.FINGERPRINTED:
            return same_digest(signatures, row, others)
        differing = np.bitwise_count(signatures.fingerprint[others] ^ signatures.fingerprint[row])
        near: NDArray[np.bool_] = (differing <= k) & (signatures.status[others] == Status.FINGERPRINTED)
        return near

    return accepts


def fingerprints(farthest: int) -> Callable[[int, int], Signatures]:
    """Six pages in ten lie 0..farthest bits from an earlier one."""

    def make(count: int, seed: int) -> Signatures:
        random, signed = np.random.default_rng(seed), make_signatures(count, seed)
        fingerprint = random.integers(0, 2**64, count, np.uint64)
        for row in np.flatnonzero(random.random(count) < 0.6)[1:]:
            changed = random.choice(64, random.integers(0, farthest + 1), replace=False)
            fingerprint[row] = fingerprint[random.integers(0, row)] ^ np.bitwise_or.reduce(
                np.uint64(1) << changed.astype(np.uint64), initial=np.uint64(0)
            )
        return replace(signed, fingerprint=np.where(signed.status == Status.FINGERPRINTED, fingerprint, np.uint64(0)))

    return make


CLAIMS: Mapping[str, Claim] = {
    "chain": Claim(within(3), fingerprints(5), 20_000),
    "subhash": Claim(within(3), fingerprints(5), 20_000),
}
"""Under the schemes' defaults."""
WITHOUT_CLAIM = {"spotsieve"}
"""Its smallest hashes find most copies and promise none."""
