"""Measures flooding: CPU a page where every probe leads to full buckets, beside ordinary pages.

    shared     every page has the same host, title, heaviest blocks and MinHash values, and the same candidates
    crossed    the keys are few enough that all are full at half the run, and each kind of key groups the pages in
               another way. No two pages of a bucket share another one, so a page has the most candidates, and no read
               of an entry serves two pages of a micro-batch. All are of one host: others have other keys
    chain      the same against `chain`, whose every key decides: fingerprints in turn of many groups; those of one
               group agree on four blocks of five, or three, and lie more than k bits from each other

No page of a flood is a copy of another by its digest, text or distance: a page that is dropped is cheap.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.command import say
from bench.speed.index import Load, measure
from bench.speed.index_load import (
    BLOCKS,
    FEATURES,
    MINIMA,
    WORDS,
    CandidateLoad,
    FingerprintLoad,
    distinctive_text,
    signatures_of,
)
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import ChainSettings, SpotsieveSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

CAP = IndexSettings().bucket_cap
KEY_PLACES = [0, 1, 2, 4]
"""The places of the SOME_KEYS heaviest blocks, under which a page of FEATURES is indexed; block 3 is no main text."""
CHAIN_BLOCK_BITS = 12
"""Bits of the narrowest of five blocks."""


class Flood:
    """Pages of the default scheme that share every candidate key with others, but nothing decisive."""

    def __init__(self, count: int, groups: int, random: np.random.Generator) -> None:
        """groups: buckets for each kind of key; with one group, all pages share all buckets."""
        in_turn = np.arange(count) % groups
        group = np.stack(
            [
                random.permutation(groups)[(in_turn + shift * (np.arange(count) // groups)) % groups]
                for shift in range(MINIMA + len(KEY_PLACES) + 1)
            ]
        )
        self._minima = np.sort(
            np.arange(1, MINIMA + 1).astype(np.uint64)[:, None] << np.uint64(40) | group[:MINIMA].astype(np.uint64),
            axis=0,
        ).T
        self._hashes = random.integers(0, 2**21, (count, BLOCKS), np.uint32)
        self._hashes[:, KEY_PLACES] = group[MINIMA:-1].T
        self._words = np.repeat(group[-1][:, None], WORDS, axis=1).astype(np.uint32) * np.arange(1, 2 * WORDS, 2) % 4096
        self._host = np.full(count, 7, np.uint64)
        self._digest = random.integers(0, 2**64, (count, 2), np.uint64)
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self._host)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1."""
        part, count = slice(first, last), last - first
        columns = {
            "host": self._host[part],
            "features": self._minima[part].reshape(-1),
            "features_bounds": np.arange(count + 1) * MINIMA,
            **distinctive_text(self._host[part], self._hashes[part], self._words[part].astype(np.uint16)),
        }
        return signatures_of(self._letters, first, self._digest[part], np.zeros(count, np.uint64), columns, FEATURES)


class ChainFlood:
    """Fingerprints: those of one group agree on all blocks except the first, or the first two."""

    def __init__(self, count: int, groups: int, random: np.random.Generator) -> None:
        words = _far_words(CHAIN_BLOCK_BITS)
        place = np.arange(count) // groups
        first = words[place % len(words)]
        second = words[place // len(words) % len(words)] << np.uint64(CHAIN_BLOCK_BITS + 1)
        base = random.integers(0, 2 ** (64 - 26), groups, np.uint64) << np.uint64(26)
        self._fingerprint = base[np.arange(count) % groups] | first | second
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self._fingerprint)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1."""
        digest = np.zeros((last - first, 2), np.uint64)
        return signatures_of(self._letters, first, digest, self._fingerprint[first:last], {})


@cache
def _far_words(bits: int) -> NDArray[np.uint64]:
    """Words of `bits` bits, each more than 3 bits from the others: the lexicographic code."""
    words: list[int] = []
    for word in range(2**bits):
        if all((word ^ other).bit_count() > 3 for other in words):
            words.append(word)
    return np.array(words, np.uint64)


def measure_floods(pages: int, progress: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """CPU per page of ordinary pages and of each flood, in states of these sizes; `of_ordinary` is the ratio."""
    default, chain = SpotsieveScheme(SpotsieveSettings()), ChainScheme(ChainSettings())
    groups = max(1, pages // (2 * CAP))
    random = np.random.default_rng(pages)
    runs: dict[str, tuple[Scheme, Callable[[], Load]]] = {
        "ordinary": (default, lambda: CandidateLoad(pages, random)),
        "shared": (default, lambda: Flood(pages, 1, random)),
        "crossed": (default, lambda: Flood(pages, max(1, pages // (2 * default.settings.minima_cap)), random)),
        "chain ordinary": (chain, lambda: FingerprintLoad(pages, random)),
        "chain": (chain, lambda: ChainFlood(pages, groups, random)),
    }
    figures: dict[str, dict[str, float]] = {}
    for name, (scheme, load) in runs.items():
        compile_kernels(scheme)
        progress(f"{name}, {pages:,} pages")
        found = measure(scheme, load(), CAP, progress)
        usual = figures.get("chain ordinary" if name.startswith("chain") else "ordinary", found)
        figures[name] = {**found, "of_ordinary": found["cpu_us_per_page_mean"] / usual["cpu_us_per_page_mean"]}
    return figures


def main() -> None:
    """`python -m bench.speed.flooding [pages]` prints every flood and ordinary pages as JSON."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    figures = measure_floods(pages, say)
    print(json.dumps({"cores": os.cpu_count(), "pages": pages, **figures}, indent=1))


if __name__ == "__main__":
    main()
