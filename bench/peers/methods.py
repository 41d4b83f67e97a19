"""Methods that compare texts: sketches, and indexes of sketches, from public packages.

A filter drops a page where an index finds an earlier novel page whose sketch is near enough; of several the earliest
counts. A page without any word is novel.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

PERMUTATIONS = 128
SHINGLE_WORDS = 5
SIMHASH_BITS = 3
THRESHOLDS = (0.5, 0.8)
BANDS = {0.5: 32, 0.8: 16}
"""Bands of an index by threshold: with 4 and 8 rows, half of the pairs at 0.42 and 0.71 become candidates."""
_WORD = re.compile(r"\w+")


class Index(Protocol):
    """The look-up structure of a method."""

    def find(self, sketch: Any) -> Iterable[int]:
        """Places of indexed pages that are near enough."""

    def add(self, place: int, sketch: Any) -> None:
        """Index a page."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way of comparing texts. sketch: text -> its sketch, None without words"""

    name: str
    sketch: Callable[[str], Any]
    indexes: dict[str, Callable[[], Index]]


def stream_through(sketches: Iterable[Any], index: Index) -> Iterator[int | None]:
    """The filter's own rule: a page that matches an indexed one is dropped, any other is indexed.

    Yields the place of each page's original, or None.
    """
    for place, sketch in enumerate(sketches):
        found = None if sketch is None else min(index.find(sketch), default=None)
        if found is None and sketch is not None:
            index.add(place, sketch)
        yield found


def shingles(text: str, words: int = SHINGLE_WORDS) -> set[str]:
    """Runs of `words` words; the whole text if it is shorter."""
    found = _WORD.findall(text.lower())
    return {" ".join(found[at : at + words]) for at in range(max(1, len(found) - words + 1))} if found else set()


def minhash() -> Method:
    """MinHash of 5-word shingles, 128 permutations, in an LSH index, checked by the estimated Jaccard (datasketch)."""
    from datasketch import MinHash

    def sketch(text: str) -> Any:
        features = shingles(text)
        if not features:
            return None
        made = MinHash(num_perm=PERMUTATIONS)
        made.update_batch([shingle.encode() for shingle in features])
        return made

    indexes: dict[str, Callable[[], Index]] = {
        f">= {threshold}": partial(_datasketch_index, threshold) for threshold in THRESHOLDS
    }
    return Method("datasketch MinHash", sketch, indexes)


def _datasketch_index(threshold: float) -> Index:
    from datasketch import MinHashLSH

    return _LshIndex(MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS), threshold)


class _LshIndex:
    """Candidates of an LSH index, earliest first, checked by the estimated Jaccard."""

    def __init__(self, lsh: Any, threshold: float) -> None:
        self._lsh = lsh
        self._threshold = threshold
        self._indexed: dict[int, Any] = {}

    def find(self, sketch: Any) -> Iterable[int]:
        candidates = sorted(self._lsh.query(sketch))
        return (place for place in candidates if self._indexed[place].jaccard(sketch) >= self._threshold)

    def add(self, place: int, sketch: Any) -> None:
        self._lsh.insert(place, sketch)
        self._indexed[place] = sketch


def rensa() -> Method:
    """MinHash of 5-word shingles, 128 permutations, in an LSH index, checked by the estimated Jaccard (rensa)."""
    indexes: dict[str, Callable[[], Index]] = {
        f">= {threshold}": partial(_rensa_index, threshold) for threshold in THRESHOLDS
    }
    return Method("rensa", rensa_sketch, indexes)


def rensa_sketch(text: str) -> Any:
    """The MinHash of rensa over a text's 5-word shingles, None without words."""
    from rensa import RMinHash

    features = shingles(text)
    if not features:
        return None
    made = RMinHash(num_perm=PERMUTATIONS, seed=42)
    made.update(sorted(features))
    return made


def _rensa_index(threshold: float) -> Index:
    from rensa import RMinHashLSH

    return _LshIndex(RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=BANDS[threshold]), threshold)


def gaoya() -> Method:
    """MinHash of 5-word shingles, 128 hashes of 32 bits, in an LSH index, all of it in Rust (gaoya).

    The index keeps an empty signature for a text without a shingle, and finds all of them for each other.
    """

    def sketch(text: str) -> str | None:
        return text if len(_WORD.findall(text)) >= SHINGLE_WORDS else None

    indexes: dict[str, Callable[[], Index]] = {
        f">= {threshold}": partial(_GaoyaIndex, threshold) for threshold in THRESHOLDS
    }
    return Method("gaoya", sketch, indexes)


class _GaoyaIndex:
    def __init__(self, threshold: float) -> None:
        from gaoya.minhash import MinHashStringIndex

        bands, words = BANDS[threshold], (SHINGLE_WORDS, SHINGLE_WORDS)
        self._index = MinHashStringIndex(
            32, threshold, bands, PERMUTATIONS // bands, None, "word", True, words, "smallvec"
        )

    def find(self, text: Any) -> Iterable[int]:
        found: list[int] = self._index.query(text)
        return found

    def add(self, place: int, text: Any) -> None:
        self._index.insert_document(place, text)


def simhash() -> Method:
    """64-bit simhash of 4-letter shingles, as the package computes it, Hamming distance at most 3 (simhash).

    The shingles are counted here, up to 255 of each: the package's own counting overflows on long texts with NumPy 2.
    """
    from simhash import Simhash

    def sketch(text: str) -> Any:
        letters = "".join(_WORD.findall(text.lower()))
        counts = Counter(letters[at : at + 4] for at in range(max(len(letters) - 3, 1)))
        return Simhash({shingle: min(count, 255) for shingle, count in counts.items()}) if letters else None

    return Method("simhash", sketch, {f"k = {SIMHASH_BITS}": _SimhashIndex})


class _SimhashIndex:
    def __init__(self) -> None:
        from simhash import SimhashIndex

        self._index = SimhashIndex([], k=SIMHASH_BITS)

    def find(self, sketch: Any) -> Iterable[int]:
        return map(int, self._index.get_near_dups(sketch))

    def add(self, place: int, sketch: Any) -> None:
        self._index.add(str(place), sketch)


METHODS: Mapping[str, Callable[[], Method]] = {
    "datasketch": minhash,
    "gaoya": gaoya,
    "rensa": rensa,
    "simhash": simhash,
}
"""Each by the package that it needs."""
