"""Generates the pages of the index benchmark: fingerprints alone, or signatures of the default scheme's shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.signature import Signatures, Status, no_own_text, unused_columns

DUPLICATES = 0.3
URL_BYTES = 60
MINIMA = 8
SKETCH_WORDS = 8
COMMON_HASHES = 1000
"""Hashes that pages share although they are no copies: phrases of templates."""
WITH_COMMON_HASH = 0.1


class FingerprintLoad:
    """Random fingerprints, a share of them copies of an earlier original with 0..3 bits changed."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.fingerprints, _ = _plant(count, random)
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self.fingerprints)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1, which have fingerprints and nothing else to be compared by."""
        digest = np.zeros((last - first, 2), np.uint64)
        return signatures_of(self._letters, first, digest, self.fingerprints[first:last], unused_columns(last - first))


class CandidateLoad:
    """Pages with digests, minima and sketches; a share are copies, a tenth hold a hash that strangers hold too.

    Of the copies a fifth have the original's bytes and two fifths its text; of the others' minima a fifth are new, and
    a sixteenth of the sketch's bits are turned round, in expectation.
    most_back: a copy's original is one of so many before it that are no copies (None: any)
    """

    def __init__(self, count: int, random: np.random.Generator, most_back: int | None = None) -> None:
        self.fingerprints, original = _plant(count, random, most_back)
        copies = np.flatnonzero(original != np.arange(count))
        equal = random.random(len(copies))
        bytes_of, text_of = np.arange(count), np.arange(count)
        bytes_of[copies[equal < 0.2]] = original[copies[equal < 0.2]]
        text_of[copies[equal < 0.4]] = original[copies[equal < 0.4]]
        self.fingerprints[text_of != np.arange(count)] = self.fingerprints[text_of[text_of != np.arange(count)]]
        self.digest = random.integers(0, 2**64, (count, 2), np.uint64)[bytes_of]
        self.text_digest = random.integers(0, 2**64, (count, 2), np.uint64)[text_of]
        minima = random.integers(0, 2**40, (count, MINIMA), np.uint64)
        common = np.flatnonzero(random.random(count) < WITH_COMMON_HASH)
        minima[common, 0] = random.integers(0, COMMON_HASHES, len(common), np.uint64)
        edited = copies[equal >= 0.4]
        kept = random.random((len(edited), MINIMA)) < 0.8
        minima[edited] = np.where(kept, minima[original[edited]], minima[edited])
        minima[copies[equal < 0.4]] = minima[original[copies[equal < 0.4]]]
        self.minima = np.sort(minima, axis=1)
        self.sketch = random.integers(0, 2**64, (count, SKETCH_WORDS), np.uint64)
        noise = random.integers(0, 2**64, (len(edited), SKETCH_WORDS), np.uint64)
        for _ in range(3):
            noise &= random.integers(0, 2**64, (len(edited), SKETCH_WORDS), np.uint64)
        self.sketch[copies] = self.sketch[original[copies]]
        self.sketch[edited] ^= noise
        self.host = random.integers(1, 1 + max(count // 50, 1), count, np.uint64)
        self._letters = random.integers(97, 123, 2**20, np.uint8).tobytes()

    def __len__(self) -> int:
        return len(self.fingerprints)

    def signatures(self, first: int, last: int) -> Signatures:
        """Pages first..last - 1."""
        part, count = slice(first, last), last - first
        columns = {
            "text_digest": self.text_digest[part],
            "host": self.host[part],
            "language": np.zeros(count, np.uint8),
            "features": self.minima[part].reshape(-1),
            "features_bounds": np.arange(count + 1) * MINIMA,
            "sketch": self.sketch[part],
        }
        return signatures_of(self._letters, first, self.digest[part], self.fingerprints[part], columns)


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
) -> Signatures:
    """At offsets first, first + 1, ..., with addresses of URL_BYTES random letters."""
    count = len(fingerprints)
    starts = [(first + row) * 7919 % (len(letters) - URL_BYTES) for row in range(count)]
    return Signatures(
        ("pages",),
        np.zeros(count, np.uint16),
        np.zeros(count, np.int32),
        np.arange(first, first + count),
        np.full(count, 1_700_000_000_000),
        digest,
        fingerprints,
        np.full(count, Status.FINGERPRINTED, np.uint8),
        np.full(count, 300, np.uint32),
        tuple([letters[start : start + URL_BYTES] for start in starts]),
        (b"",) * count,
        **(no_own_text(count) | columns),
    )
