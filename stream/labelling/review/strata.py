"""Draws the pairs that are judged: strata by verdict, reason, hosts and score, and within a stratum spread over hosts.

Strata: Cochran, Sampling Techniques, 3rd edition 1977, chapter 5. The number drawn from a stratum grows with the root
of its size, so that small strata are known nearly as well as large ones (power allocation, Bankier 1988). Within a
stratum every k-th pair is taken of all pairs in the order of their hosts (systematic sampling, Cochran, chapter 8):
each pair has the same chance, and each host its share.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from spotsieve.stream.hosts import host_of
from spotsieve.stream.labelling.review.population import DROPPED, Population, ReviewPair

BANDS = (0.1, 0.2, 0.5)
"""Widths of the bands of score: the narrowest is taken that leaves LEAST pairs for every stratum."""
LEAST = 2
"""Pairs of a stratum, if it has them: of one alone no variance can be told."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """One class of pairs. pages: how many pairs it has  drawn: those that are judged"""

    name: str
    pages: int
    drawn: tuple[ReviewPair, ...]


def draw(population: Population, wanted: int, seed: int) -> list[Stratum]:
    """The strata of a population and the pairs drawn; the same ones for the same population and seed.

    wanted: pairs in all; fewer are drawn where there are fewer
    """
    for width in BANDS:
        members = _divided(population.pairs, width)
        if LEAST * len(members) <= wanted:
            break
    sizes = allocate([len(pairs) for pairs in members.values()], wanted)
    return [
        Stratum(name, len(pairs), _systematic(population, pairs, size, Random(f"{seed} {name}")))
        for (name, pairs), size in zip(members.items(), sizes, strict=True)
    ]


def in_order(strata: Sequence[Stratum], seed: int) -> list[tuple[Stratum, ReviewPair]]:
    """All drawn pairs in the order in which they are shown: mixed, and every beginning has its part of each stratum."""
    random = Random(f"{seed} order")
    keyed = list[tuple[float, int, Stratum, ReviewPair]]()
    for stratum in strata:
        pairs = random.sample(stratum.drawn, len(stratum.drawn))
        start = random.random()
        keyed += [((place + start) / len(pairs), len(keyed) + place, stratum, pair) for place, pair in enumerate(pairs)]
    return [(stratum, pair) for _, _, stratum, pair in sorted(keyed, key=lambda row: row[:2])]


def allocate(sizes: Sequence[int], wanted: int) -> list[int]:
    """How many to draw from strata of these sizes: LEAST or all of each, the rest by the roots of the sizes."""
    taken = [min(size, LEAST) for size in sizes]
    left = wanted - sum(taken)
    while left < 0:  # more strata than pairs: those with most give way, the smallest first
        give = min(range(len(sizes)), key=lambda place: (-taken[place], sizes[place], place))
        taken[give] -= 1
        left += 1
    while left > 0:
        most = max(range(len(sizes)), key=lambda place: _due(sizes[place], taken[place]), default=None)
        if most is None or taken[most] == sizes[most]:
            break
        taken[most] += 1
        left -= 1
    return taken


def _due(size: int, taken: int) -> float:
    """What the next pair of a stratum is worth, by Huntington and Hill's method of equal proportions."""
    return math.sqrt(size) / math.sqrt(max(taken, 1) * (taken + 1)) if taken < size else -1.0


def _divided(pairs: Sequence[ReviewPair], width: float) -> dict[str, list[ReviewPair]]:
    """The pairs by the names of their strata, in the order of the names."""
    members = defaultdict[str, list[ReviewPair]](list)
    for pair in pairs:
        members[_name(pair, width)].append(pair)
    return dict(sorted(members.items()))


def _name(pair: ReviewPair, width: float) -> str:
    bands = round(1 / width)
    band = min(int(pair.score * bands + 1e-9), bands - 1)
    hosts = "one host" if pair.one_host else "two hosts"
    reason = f" {pair.reason}" if pair.drawn == DROPPED else ""
    return f"{pair.drawn}{reason}, {hosts}, {band / bands:g} to {(band + 1) / bands:g}"


def _systematic(
    population: Population, pairs: Sequence[ReviewPair], size: int, random: Random
) -> tuple[ReviewPair, ...]:
    ordered = sorted(pairs, key=lambda pair: (host_of(population.urls[pair.later]), pair.score, pair.later))
    start, step = random.random(), len(pairs) / max(size, 1)
    return tuple(ordered[min(int((place + start) * step), len(pairs) - 1)] for place in range(size))
