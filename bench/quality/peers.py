"""The peers: filters that a user could build from public packages, over the same streams.

A peer takes the main content of each page (plain text is its own), makes a sketch of it, and drops a page where an
index finds an earlier novel page whose sketch is near enough; of several the earliest counts. A page
without any word is novel. CPU is that of this thread, measured for each step; sketches are shared by the two
thresholds of a method, and each row carries the cost of all its steps.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.quality.extracts import Extracts
from bench.quality.sets import LabelledSet

PERMUTATIONS = 128
SHINGLE_WORDS = 5
SIMHASH_BITS = 3
THRESHOLDS = (0.5, 0.8)
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


@dataclass(frozen=True, slots=True)
class PeerRun:
    """A peer over a set. originals: places or None  cpu_ms: per page, all steps"""

    name: str
    originals: tuple[int | None, ...]
    cpu_ms: float


def run_peers(labelled: LabelledSet, extracts: Extracts, say: Callable[[str], None]) -> list[PeerRun]:
    """Every peer over a set."""
    runs = []
    of_extractors = {
        "trafilatura": (minhash(), simhash()),
        "resiliparse": (rensa(),),
        "visible text": (rensa(),),
    }
    for extractor, methods in of_extractors.items():
        say(f"  {labelled.name}: {extractor}")
        extract = extracts.main_content(labelled, extractor)
        for method in methods:
            before = time.thread_time()
            sketches = [method.sketch(text) for text in extract.texts]
            sketched = time.thread_time() - before
            for threshold, make in method.indexes.items():
                before = time.thread_time()
                originals = stream_through(sketches, make())
                seconds = extract.cpu_s + sketched + time.thread_time() - before
                name = f"{extractor} + {method.name} {threshold}"
                runs.append(PeerRun(name, originals, 1e3 * seconds / len(labelled.pages)))
    return runs


def stream_through(sketches: Sequence[Any], index: Index) -> tuple[int | None, ...]:
    """The filter's own rule: a page that matches an indexed one is dropped, any other is indexed."""
    originals: list[int | None] = []
    for place, sketch in enumerate(sketches):
        found = None if sketch is None else min(index.find(sketch), default=None)
        originals.append(found)
        if found is None and sketch is not None:
            index.add(place, sketch)
    return tuple(originals)


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
        f">= {threshold}": lambda threshold=threshold: _datasketch_index(threshold)  # type: ignore[misc]
        for threshold in THRESHOLDS
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
        f">= {threshold}": lambda threshold=threshold: _rensa_index(threshold)  # type: ignore[misc]
        for threshold in THRESHOLDS
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

    bands = {0.5: 32, 0.8: 16}[threshold]  # 4 and 8 rows: half of the pairs at 0.42 and 0.71 become candidates.
    return _LshIndex(RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=bands), threshold)


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
