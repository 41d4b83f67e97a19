"""MinHash by the letter of the paper (Williams, Giles 2013, sec. 3.2). Reference for stream.fingerprints.minhash."""

from collections.abc import Iterable, Iterator

P = 2**32 - 1
MASK = 2**64 - 1


def functions(h: int) -> list[tuple[int, int]]:
    """(A, B) of each of h functions, each in 1..p, from splitmix64 begun at 0."""
    drawn = splitmix64()
    return [(next(drawn) % P + 1, next(drawn) % P + 1) for _ in range(h)]


def splitmix64() -> Iterator[int]:
    """The generator of Steele, Lea, Flood 2014, fig. 17, with its usual constants."""
    seed = 0
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        mixed = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
        yield mixed ^ mixed >> 31


def minima_of(shingles: Iterable[int], h: int) -> list[int]:
    """Min over the shingles x of (A x + B) mod p, for each function; 0 where there is no shingle."""
    distinct = {shingle % P for shingle in shingles}
    return [min(((a * x + b) % P for x in distinct), default=0) for a, b in functions(h)]
