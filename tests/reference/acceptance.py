"""Brute force over signatures: which pages are copies by each scheme that claims to find all, and data to try it on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.signature import Signatures, SignatureStatus
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
        if signatures.status[row] == SignatureStatus.EMPTY:
            continue
        accepted = np.flatnonzero(accepts(signatures, row, novel[:count]))
        if len(accepted):
            originals[row] = novel[accepted[0]]
        else:
            novel[count] = row
            count += 1
    return originals


def equal_digest(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By the 120 bits of the digest that key and posting hold."""
    digest, mask = signatures.digest, np.uint64(2**56 - 1)
    equal: NDArray[np.bool_] = ((digest[others, 0] ^ digest[row, 0]) & mask == 0) & (
        digest[others, 1] == digest[row, 1]
    )
    return equal


def within(k: int) -> Accepts:
    """Fingerprints that differ in at most k bits; pages without one by their digest."""

    def accepts(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        if signatures.status[row] != SignatureStatus.FINGERPRINTED:
            without: NDArray[np.bool_] = signatures.status[others] != SignatureStatus.FINGERPRINTED
            return without & equal_digest(signatures, row, others)
        differing = np.bitwise_count(signatures.fingerprint[others] ^ signatures.fingerprint[row])
        near: NDArray[np.bool_] = (differing <= k) & (signatures.status[others] == SignatureStatus.FINGERPRINTED)
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
        return replace(
            signed, fingerprint=np.where(signed.status == SignatureStatus.FINGERPRINTED, fingerprint, np.uint64(0))
        )

    return make


def exact_or(near: Accepts) -> Accepts:
    """Equal digests, whatever the pages; else what the scheme's comparison of two sketches says."""

    def accepts(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        equal = equal_digest(signatures, row, others)
        if signatures.status[row] != SignatureStatus.FINGERPRINTED:
            return equal
        comparable: NDArray[np.bool_] = signatures.status[others] == SignatureStatus.FINGERPRINTED
        return equal | (comparable & near(signatures, row, others))

    return accepts


def resembling(least_equal: int, h: int) -> Accepts:
    """At least `least_equal` of h MinHash values of 32 bits are equal."""

    def near(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        minima = signatures.sketch.view(np.uint32)[:, :h]
        similar: NDArray[np.bool_] = (minima[others] == minima[row]).sum(axis=1) >= least_equal
        return similar

    return exact_or(near)


def banded(k: int, l: int, tau: float) -> Accepts:  # noqa: E741 - the paper's names
    """One of l bands of k minima is equal, and a share tau of all minima."""

    def near(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        minima = signatures.sketch.view(np.uint32)[:, : k * l]
        equal: NDArray[np.bool_] = minima[others] == minima[row]
        whole = np.count_nonzero(equal.reshape(-1, l, k), axis=2) == k
        similar: NDArray[np.bool_] = np.count_nonzero(equal, axis=1) >= tau * k * l
        meets: NDArray[np.bool_] = np.count_nonzero(whole, axis=1) > 0
        return meets & similar

    return exact_or(near)


def multiset_jaccard(tau: float) -> Accepts:
    """Shared over all features of two pages, at least tau: those of a multiset are numbered, so all are different."""

    def near(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        features, bounds = signatures.features, signatures.features_bounds
        own = features[bounds[row] : bounds[row + 1]]
        if not len(own):
            return np.zeros(len(others), np.bool_)
        place = np.minimum(np.searchsorted(own, features), len(own) - 1)
        counted = np.concatenate([[0], np.cumsum(own[place] == features)])
        shared = (counted[bounds[1:]] - counted[bounds[:-1]])[others]
        similar: NDArray[np.bool_] = shared / (len(own) + np.diff(bounds)[others] - shared) >= tau
        return similar

    return exact_or(near)


def within_sketch(r_h: int) -> Accepts:
    """Sketches that differ in at most r_h bits."""

    def near(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        differing = np.bitwise_count(signatures.sketch[others] ^ signatures.sketch[row])
        similar: NDArray[np.bool_] = differing.sum(axis=1, dtype=np.int64) <= r_h
        return similar

    return exact_or(near)


def conceptual(th1: int, th2: int, th4: float, leading_bits: int) -> Accepts:
    """Fingerprints that agree in more than th2 bits, or in more than th1 with a cosine above th4, and in a run."""

    def near(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        sketch = signatures.sketch
        differing = sketch[others, 0] ^ sketch[row, 0]
        agreed = 64 - np.bitwise_count(differing).astype(np.int64)
        between = np.flatnonzero((agreed > th1) & (agreed <= th2))
        vectors = sketch[np.append(others[between], row), 1:].view(np.int8).astype(np.float64)
        sizes = np.linalg.norm(vectors, axis=1)
        cosine = vectors[:-1] @ vectors[-1] / np.maximum(sizes[:-1] * sizes[-1], 1)
        alike = agreed > th2
        alike[between] = cosine > th4
        met: NDArray[np.bool_] = alike & (longest_run(differing) >= leading_bits)
        return met

    return exact_or(near)


def longest_run(differing: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The longest run of zeros around the circle of 64 bits: uint64[m] -> int64[m]."""
    bits = np.unpackbits(np.ascontiguousarray(differing).view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    longest, run = np.zeros(len(bits), np.int64), np.zeros(len(bits), np.int64)
    for bit in np.concatenate([bits, bits], axis=1).T:
        run = np.where(bit == 0, run + 1, 0)
        longest = np.maximum(longest, run)
    return np.minimum(longest, 64)


def concepts(count: int, seed: int) -> Signatures:
    """Six pages in ten have fingerprint and vector of an earlier one, 0..28 bits and up to ten coordinates changed.

    Vectors have 200 coordinates of a few great ones, as those of pages have.
    """
    random, signed = np.random.default_rng(seed), make_signatures(count, seed)
    fingerprint = random.integers(0, 2**64, count, np.uint64)
    vectors = (random.laplace(0, 8, (count, 200)).clip(-127, 127)).astype(np.int8)
    for row in np.flatnonzero(random.random(count) < 0.6)[1:]:
        earlier = random.integers(0, row)
        changed = random.choice(64, random.integers(0, 29), replace=False).astype(np.uint64)
        fingerprint[row] = fingerprint[earlier] ^ np.bitwise_or.reduce(np.uint64(1) << changed, initial=np.uint64(0))
        vectors[row] = vectors[earlier]
        vectors[row, random.choice(200, random.integers(0, 11), replace=False)] += np.int8(30)
    digest = random.integers(0, 2**64, (count, 2), np.uint64)
    again = random.random(count) < 0.05
    digest[again] = digest[random.integers(0, count, int(again.sum()))]
    return replace(
        signed, sketch=np.concatenate([fingerprint[:, None], vectors.view(np.uint64)], axis=1), digest=digest
    )


def equal_terms(signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By the 120 bits of the text digest that key and posting hold."""
    return equal_digest(replace(signatures, digest=signatures.text_digest), row, others)


def text_digests(count: int, seed: int) -> Signatures:
    """Six pages in ten have the text digest of an earlier one, some with one bit changed."""
    random, signed = np.random.default_rng(seed), make_signatures(count, seed)
    digest, text_digest = random.integers(0, 2**64, (2, count, 2), np.uint64)
    for row in np.flatnonzero(random.random(count) < 0.6)[1:]:
        text_digest[row] = text_digest[random.integers(0, row)]
        text_digest[row, random.integers(0, 2)] ^= np.uint64(1 << 40) * np.uint64(random.random() < 0.2)
    again = random.random(count) < 0.05
    digest[again] = digest[random.integers(0, count, int(again.sum()))]
    return replace(signed, digest=digest, text_digest=text_digest)


def changed_minima(random: np.random.Generator, sketch: NDArray[np.uint64], changes: int) -> NDArray[np.uint64]:
    """A sketch with this many of its minima changed, two in a word."""
    minima = sketch.view(np.uint32).copy()
    minima[random.choice(len(minima), changes, replace=False)] += np.uint32(1)
    return minima.view(np.uint64)


def changed_bits(random: np.random.Generator, sketch: NDArray[np.uint64], changes: int) -> NDArray[np.uint64]:
    """A sketch of 400 bits in 7 words with this many bits changed."""
    changed = sketch.copy()
    for bit in random.choice(400, changes, replace=False).tolist():
        changed[bit // 64] ^= np.uint64(1 << bit % 64)
    return changed


def sketches(
    change: Callable[[np.random.Generator, NDArray[np.uint64], int], NDArray[np.uint64]], words: int, most: int
) -> Callable[[int, int], Signatures]:
    """Six pages in ten have the sketch of an earlier one with 0..most places changed."""

    def make(count: int, seed: int) -> Signatures:
        random, signed = np.random.default_rng(seed), make_signatures(count, seed)
        sketch = random.integers(0, 2**64, (count, words), np.uint64)
        if change is changed_bits:
            sketch[:, -1] &= np.uint64(2**16 - 1)
        for row in np.flatnonzero(random.random(count) < 0.6)[1:]:
            sketch[row] = change(random, sketch[random.integers(0, row)], int(random.integers(0, most + 1)))
        digest = random.integers(0, 2**64, (count, 2), np.uint64)
        again = random.random(count) < 0.05
        digest[again] = digest[random.integers(0, count, int(again.sum()))]
        return replace(signed, sketch=sketch, digest=digest)

    return make


class ResemblingSamples:
    """Equal texts, or samples that resemble each other at the coarser of their ratios, with the bits in reverse.

    Shared shingles of a page and all others are counted over lists of who has each; sizes at every ratio are looked up.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self._of: Signatures | None = None

    def _count(self, signatures: Signatures) -> None:
        features, bounds = signatures.features, signatures.features_bounds
        page = np.repeat(np.arange(len(signatures)), np.diff(bounds))
        order = np.argsort(features, kind="stable")
        self._of, self._sorted, self._has = signatures, features[order], page[order]
        self._sizes = {
            ratio: np.bincount(page[features <= np.uint64(2**64 - 1) // ratio], minlength=len(signatures))
            for ratio in np.unique(signatures.sketch[:, 0])
        }

    def near(self, signatures: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self._of is not signatures:
            self._count(signatures)
        ratios, own = signatures.sketch[:, 0], signatures.sketch[row, 0]
        mine = signatures.features[slice(*signatures.features_bounds[row : row + 2])]
        spans = zip(*(np.searchsorted(self._sorted, mine, side) for side in ("left", "right")), strict=True)
        shared = np.bincount(
            np.concatenate([others[:0], *(self._has[first:last] for first, last in spans)]), minlength=len(signatures)
        )[others]
        either = np.empty(len(others), np.int64)
        for ratio, sizes in self._sizes.items():
            at = np.maximum(ratios[others], own) == ratio
            either[at] = sizes[row] + sizes[others[at]]
        similar: NDArray[np.bool_] = shared / np.maximum(either - shared, 1) >= self.threshold
        return similar | equal_terms(signatures, row, others)


def samples(count: int, seed: int) -> Signatures:
    """Six pages in ten have the shingles of an earlier one, some taken out and some put in, at a ratio of their own."""
    random, signed = np.random.default_rng(seed), text_digests(count, seed)
    common = random.integers(0, 2**64, 20, np.uint64)
    whole: list[NDArray[np.uint64]] = []
    for row in range(count):
        size = int(random.integers(20, 70))
        shingles = random.integers(0, 2**64, size, np.uint64)
        if row and random.random() < 0.6:
            earlier = whole[random.integers(0, row)]
            kept = earlier[random.random(len(earlier)) < random.choice([1, 0.95, 0.85, 0.7])]
            shingles = np.concatenate([kept, shingles[: random.integers(0, max(len(earlier) // 3, 1))]])
        whole.append(np.unique(np.concatenate([shingles, common[random.random(20) < 0.1]])))
    ratios = random.choice(np.array([1, 2, 4, 8], np.uint64), count)
    sampled = [row[row <= np.uint64(2**64 - 1) // n] for row, n in zip(whole, ratios, strict=True)]
    judged = signed.status == SignatureStatus.FINGERPRINTED
    sampled = [row if one else row[:0] for row, one in zip(sampled, judged.tolist(), strict=True)]
    bounds = np.cumsum([0, *map(len, sampled)])
    return replace(
        signed,
        features=np.concatenate(sampled),
        features_bounds=bounds,
        sketch=ratios[:, None],
        text_digest=random.integers(0, 2**64, (count, 2), np.uint64),
    )


FEWEST_SPOTS = 5
"""The default of scheme.min_spots: shorter pages are not compared, and scheme.c counts on it."""


def feature_sets(count: int, seed: int) -> Signatures:
    """Six pages in ten have the features of an earlier one, some of them left out and others put in.

    As of signing, a page of fewer than FEWEST_SPOTS has none.
    """
    random, signed = np.random.default_rng(seed), make_signatures(count, seed)
    sets = [np.unique(random.zipf(1.3, random.integers(5, 60)) % 3_000) for _ in range(count)]
    for row in np.flatnonzero(random.random(count) < 0.6)[1:]:
        earlier = sets[random.integers(0, row)]
        kept = earlier[random.random(len(earlier)) < random.choice([0.5, 0.7, 0.9, 1])]
        sets[row] = np.union1d(kept, random.integers(0, 3_000, random.integers(0, 1 + len(earlier) // 2)))
    enough = np.array([len(one) >= FEWEST_SPOTS for one in sets])
    status = np.where(enough, signed.status, np.maximum(signed.status, SignatureStatus.TOO_FEW_FEATURES)).astype(
        np.uint8
    )
    sets = [one if fits else one[:0] for one, fits in zip(sets, status == SignatureStatus.FINGERPRINTED, strict=True)]
    digest = random.integers(0, 2**64, (count, 2), np.uint64)
    return replace(
        signed,
        status=status,
        fingerprint=np.where(status == SignatureStatus.FINGERPRINTED, signed.fingerprint, np.uint64(0)),
        digest=digest,
        # The rarest first: a spot's rank, and the first of its kind on the page
        features=np.concatenate([np.sort(3_000 - one) for one in sets]).astype(np.uint64) << np.uint64(16),
        features_bounds=np.cumsum([0, *map(len, sets)]),
    )


CLAIMS: Mapping[str, Claim] = {
    "chain": Claim(within(3), fingerprints(5), 20_000),
    "manku": Claim(within(3), fingerprints(5), 20_000),
    "subhash": Claim(within(3), fingerprints(5), 20_000),
    "minhash": Claim(resembling(42, 84), sketches(changed_minima, 42, 60), 5_000),
    "onebit": Claim(within_sketch(20), sketches(changed_bits, 7, 30), 5_000),
    "adaptive-shingles": Claim(exact_or(ResemblingSamples(0.6).near), samples, 5_000),
    "imatch": Claim(exact_or(equal_terms), text_digests, 10_000),
    "imatch-s": Claim(exact_or(equal_terms), text_digests, 10_000),
    "spotsigs": Claim(multiset_jaccard(0.44), feature_sets, 3_000),
    "spotsigs-lsh": Claim(banded(6, 32, 0.44), sketches(changed_minima, 96, 150), 3_000),
    "concept": Claim(conceptual(40, 46, 0.98, 12), concepts, 3_000),
}
"""Under the schemes' defaults. Of spotsigs-lsh it is the pages that share a band which are all found, of concept those
that share a run of bits."""
WITHOUT_CLAIM = {"spotsieve"}
"""Its smallest hashes find most copies and guarantee none."""
