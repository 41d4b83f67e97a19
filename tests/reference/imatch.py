"""I-Match term by term (Theobald et al. 2008, sec. 5). Reference of ImatchScheme in stream/sign/schemes/spotsigs.py."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence


def idf_of(pages: Sequence[Iterable[int]]) -> dict[int, float]:
    """log(N / df) / log(N) of every term of the pages."""
    frequencies = Counter(term for page in pages for term in set(page))
    return {term: math.log(len(pages) / df) / math.log(len(pages)) for term, df in frequencies.items()}


def digest_words(terms: Iterable[int], idf: dict[int, float], least: float, most: float) -> tuple[int, int, int]:
    """How many terms of a page are in the range, and two words of the SHA-1 over them, each once, ascending."""
    kept = sorted(term for term in set(terms) if term in idf and least <= round(idf[term], 9) <= most)
    digest = hashlib.sha1(b"".join(term.to_bytes(8, "little") for term in kept)).digest()
    return len(kept), int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
