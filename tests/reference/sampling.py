"""Sampling by the paper (Ye, Wen, Ma, sec. 4.4), and resemblance. Reference for stream.features.sampling."""

from collections.abc import Iterable, Sequence


def ratio_of(words: int, sizes: Sequence[int], ratios: Sequence[int]) -> int:
    """N of the ratio 1/n for a page with this number of words."""
    return ratios[sum(words >= size for size in sizes)]


def sampled(shingles: Iterable[int], n: int, most: int) -> tuple[set[int], int]:
    """The shingles with remainder 0, and n, doubled until there are at most `most`."""
    chosen = {shingle for shingle in shingles if shingle % n == 0}
    while len(chosen) > most:
        n *= 2
        chosen = {shingle for shingle in chosen if shingle % n == 0}
    return chosen, n


def resemblance(one: set[int], n: int, other: set[int], m: int) -> float:
    """Shared over all shingles of two samples, both at the coarser of their ratios; 0 where none are left."""
    coarser = max(n, m)
    one, other = ({shingle for shingle in sample if shingle % coarser == 0} for sample in (one, other))
    return len(one & other) / len(one | other) if one | other else 0.0


def reverse(word: int) -> int:
    """The 64 bits in reverse."""
    return int(f"{word:064b}"[::-1], 2)
