"""The pages of the index benchmark: bare fingerprints, signatures shaped like the default scheme's, or real ones."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.speed.real_pages import real_pages
from spotsieve.stream.base.page_text import (
    HASH_SHIFT,
    IDENTITY_SHIFT,
    KEPT,
    OUTSIDE_SHIFT,
    PLACE_SHIFT,
    POSITION_SHIFT,
    SHINGLE,
    WORDS_SHIFT,
)
from spotsieve.stream.base.signature import Signatures, SignatureStatus, join_signatures, unused_columns
from spotsieve.stream.judge.by_host.memory import BLOCK_TO_ITEM
from spotsieve.stream.sign.schemes import Scheme

DUPLICATES = 0.3
URL_BYTES = 60
MINIMA = 8
COMMON_HASHES = 1000
"""Number of MinHash values that unrelated pages share: phrases of templates."""
WITH_COMMON_HASH = 0.1
BLOCKS, TEMPLATE_BLOCKS, WORDS, COMMON_WORDS = 22, 8, 8, 2
"""Blocks of a page, and those of its host. News pages have 8 title words on average."""
HOST_PAGES = 50
SIZES = np.array([18, 18, 18, 15, 15, 15, 12, 12, 12, 9, 9, 9, 6, 6, 12, 12, 9, 9, 6, 6, 3, 3])
"""Words of the blocks; those behind the first BLOCKS - TEMPLATE_BLOCKS are the host's."""
FEATURES = int(SIZES.sum())
"""Tokens of a page: between the medians of ../shared/data/news (427) and catalogue (73)."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LOW_HASH = np.uint64(0xFFF)
"""Bits of a sampled hash by which replicas differ."""


class FingerprintLoad:
    """Random fingerprints; a share of them are copies of an earlier original with 0..3 changed bits."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.fingerprints, _ = _plant(count, random)
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self.fingerprints)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1, with fingerprints and nothing else to compare."""
        digest = np.zeros((last - first, 2), np.uint64)
        return signatures_of(self._letters, first, digest, self.fingerprints[first:last], {})


class CandidateLoad:
    """Pages with digest, MinHash values, blocks, sampled shingles and title; a share are copies, a tenth share a key.

    Of the copies a fifth have the original's bytes and two fifths its text. Of the others' MinHash values a fifth are
    new, and of their blocks a tenth, in expectation. Half of the copies are on their original's host. A third of the
    blocks and a quarter of the title's words are those of all pages of the host.
    most_back: a copy's original is among this many preceding pages that are no copies (None: any)
    old: this many first pages are no copies, and all copies are of them (0: of any earlier page)
    hosts: how many there are (None: one for HOST_PAGES pages)
    """

    def __init__(
        self,
        count: int,
        random: np.random.Generator,
        most_back: int | None = None,
        old: int = 0,
        hosts: int | None = None,
    ) -> None:
        _, original = _plant(count, random, most_back)
        if old:
            copied = np.flatnonzero(original != np.arange(count))
            original[copied] = np.where(copied < old, copied, random.integers(0, old, len(copied)))
        copies = np.flatnonzero(original != np.arange(count))
        equal = random.random(len(copies))
        bytes_of = np.arange(count)
        bytes_of[copies[equal < 0.2]] = original[copies[equal < 0.2]]
        self.digest = random.integers(0, 2**64, (count, 2), np.uint64)[bytes_of]
        minima = random.integers(0, 2**40, (count, MINIMA), np.uint64)
        common = np.flatnonzero(random.random(count) < WITH_COMMON_HASH)
        minima[common, 0] = random.integers(0, COMMON_HASHES, len(common), np.uint64)
        edited = copies[equal >= 0.4]
        kept = random.random((len(edited), MINIMA)) < 0.8
        minima[edited] = np.where(kept, minima[original[edited]], minima[edited])
        minima[copies[equal < 0.4]] = minima[original[copies[equal < 0.4]]]
        self.minima = np.sort(minima, axis=1)
        self.host = random.integers(1, 1 + (hosts or max(count // HOST_PAGES, 1)), count, np.uint64)
        there = copies[random.random(len(copies)) < 0.5]
        self.host[there] = self.host[original[there]]
        self.hashes = random.integers(0, 2**21, (count, BLOCKS), np.uint32)
        self.words = random.integers(0, 2**12, (count, WORDS), np.uint16)
        before, before_words = self.hashes[original[copies]], self.words[original[copies]]
        renewed = (equal >= 0.4)[:, None] & (random.random((len(copies), BLOCKS)) < 0.1)
        self.hashes[copies] = np.where(renewed, self.hashes[copies], before)
        self.words[copies] = before_words
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self.host)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1."""
        part, count = slice(first, last), last - first
        columns = {
            "host": self.host[part],
            "features": self.minima[part].reshape(-1),
            "features_bounds": np.arange(count + 1) * MINIMA,
            **distinctive_text(self.host[part], self.hashes[part], self.words[part]),
        }
        return signatures_of(self._letters, first, self.digest[part], np.zeros(count, np.uint64), columns, FEATURES)


class RealLoad:
    """Signatures of real pages, in replicas that share no key with each other (real_pages.py has the pages).

    A replica has other hosts, digests, MinHash values and blocks. Its sampled shingles differ from those of the others
    in their low bits only, so samples stay the smallest hashes of their text.
    """

    def __init__(self, count: int, scheme: Scheme) -> None:
        self._signed, self._count = scheme.sign(real_pages()), count
        self._letters = np.random.default_rng(1).integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return self._count

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1."""
        size, parts = len(self._signed), []
        for replica in range(first // size, (last - 1) // size + 1):
            before = replica * size
            rows = max(first - before, 0), min(last - before, size)
            parts.append(self._replica(replica, self._signed.part(*rows), before + rows[0]))
        return join_signatures(parts)

    def _replica(self, number: int, signed: Signatures, first: int) -> Signatures:
        mask = np.uint64(number * int(_MIX) % 2**64)
        features = signed.features ^ (mask >> np.uint64(8))
        page = np.repeat(np.arange(len(signed)), np.diff(signed.features_bounds))
        block_mask = mask >> np.uint64(IDENTITY_SHIFT) << np.uint64(IDENTITY_SHIFT)
        has_identity = signed.blocks >> np.uint64(IDENTITY_SHIFT) != 0
        return replace(
            signed,
            offset=np.arange(first, first + len(signed)),
            urls=_random_urls(self._letters, first, len(signed)),
            digest=signed.digest ^ mask,
            text_digest=np.where(signed.text_digest == 0, 0, signed.text_digest ^ mask),
            host=np.where(signed.host == 0, 0, signed.host ^ mask),
            features=features[np.lexsort((features, page))],
            blocks=np.where(has_identity, signed.blocks ^ block_mask, signed.blocks),
            samples=signed.samples ^ ((mask & _LOW_HASH) << np.uint64(HASH_SHIFT)),
        )


def distinctive_text(
    host: NDArray[np.uint64], hashes: NDArray[np.uint32], words: NDArray[np.uint16]
) -> dict[str, NDArray[Any]]:
    """The columns of the own text of n pages. hashes: uint32[n, BLOCKS] < 2^21  words: uint16[n, WORDS] < 2^12

    The last ones of each are replaced by the host's. Each place has identities of its own, so all of a page differ.
    """
    count = len(host)
    hashes, words = hashes.copy(), words.copy()
    hashes[:, -TEMPLATE_BLOCKS:] = (host[:, None] % np.uint64(2**21)).astype(np.uint32)
    words[:, -COMMON_WORDS:] = (host[:, None] % np.uint64(2**12)).astype(np.uint16)
    place = np.arange(BLOCKS, dtype=np.uint64)
    identity = items_of(place, hashes) << np.uint64(BLOCK_TO_ITEM)
    kept = np.where(place % np.uint64(4) == 3, np.uint64(0), KEPT)
    layout = SIZES.astype(np.uint64) << np.uint64(WORDS_SHIFT) | np.uint64(15 << OUTSIDE_SHIFT) | kept
    # The shingles of a block follow from its identity.
    of_block = np.repeat(place.astype(np.int64), SIZES - SHINGLE + 1)
    position = np.arange(len(of_block)) + of_block * (SHINGLE - 1)
    mixed = (identity[:, of_block] << np.uint64(8) | position.astype(np.uint64)) * _MIX
    within = position << POSITION_SHIFT | of_block << PLACE_SHIFT | SHINGLE
    return {
        "site": (host % np.uint64(2**16)).astype(np.uint16),
        "blocks": (identity << np.uint64(IDENTITY_SHIFT) | layout).reshape(-1),
        "blocks_bounds": np.arange(count + 1) * BLOCKS,
        "samples": (mixed >> np.uint64(32) << np.uint64(HASH_SHIFT) | within.astype(np.uint64)).reshape(-1),
        "samples_bounds": np.arange(count + 1) * len(of_block),
        "titles": words_of(np.arange(WORDS, dtype=np.uint64), words).reshape(-1),
        "titles_bounds": np.arange(count + 1) * WORDS,
    }


def items_of(place: NDArray[np.uint64], hashes: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.uint64]:
    """The identities of blocks in the memory of a host. place: on the page  hashes: below 2^21"""
    return (place + np.uint64(1)) << np.uint64(21) | hashes


def words_of(place: NDArray[np.uint64], words: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.uint16]:
    """Title words. place: in the title  words: below 2^12"""
    return (place << np.uint64(12) | words).astype(np.uint16)


def _plant(
    count: int, random: np.random.Generator, most_back: int | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Fingerprints: uint64[count], and which page each is a copy of, with 0..3 bits changed: int64[count]."""
    pages, original = random.integers(0, 2**64, count, np.uint64), np.arange(count)
    is_copy = random.random(count) < DUPLICATES
    is_copy[0] = False
    originals, copies = np.flatnonzero(~is_copy), np.flatnonzero(is_copy)
    earlier = np.searchsorted(originals, copies)
    back = earlier if most_back is None else np.minimum(earlier, most_back)
    original[copies] = originals[earlier - 1 - (random.random(len(copies)) * back).astype(np.int64)]
    pages[copies] = pages[original[copies]]
    for least in range(3):
        changed = copies[random.random(len(copies)) < (3 - least) / 4]
        pages[changed] ^= np.uint64(1) << random.integers(0, 64, len(changed)).astype(np.uint64)
    return pages, original


def signatures_of(
    letters: bytes,
    first: int,
    digest: NDArray[np.uint64],
    fingerprints: NDArray[np.uint64],
    columns: dict[str, NDArray[Any]],
    features: int = 300,
) -> Signatures:
    """Pages at offsets first, first + 1, ..., with URLs of URL_BYTES random letters. columns: the used columns"""
    count = len(fingerprints)
    return Signatures(
        ("pages",),
        np.zeros(count, np.uint16),
        np.zeros(count, np.int32),
        np.arange(first, first + count),
        np.full(count, 1_700_000_000_000),
        digest,
        fingerprints,
        np.full(count, SignatureStatus.FINGERPRINTED, np.uint8),
        np.full(count, features, np.uint32),
        _random_urls(letters, first, count),
        (b"",) * count,
        **unused_columns(count) | columns,
    )


def _random_urls(letters: bytes, first: int, count: int) -> tuple[bytes, ...]:
    """URLs of URL_BYTES random letters, of pages first, first + 1, ..."""
    starts = ((first + row) * 7919 % (len(letters) - URL_BYTES) for row in range(count))
    return tuple(letters[start : start + URL_BYTES] for start in starts)
