"""Divides sets for cross-validation into folds that share no host and no cluster with their training part.

On news, hosts and clusters joined make one component of 1,848 of 1,953 pages, so whole components cannot be folds.
Instead every host and every cluster gets a fold of its own: a fold's held-out part is the pages whose host and whose
cluster both have it, its training part the pages where neither has it, and the pages between the two are left out of
this fold. The assignment moves hosts and clusters to where most of their pages are, so that few pages are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

FOLDS = 5
_ROUNDS = 30
_SLACK = 1.15
"""A fold takes at most this many times its even share of the pages."""
LOST_PENALTY = 3.0


@dataclass(frozen=True, slots=True)
class Fold:
    """Places of pages, ascending."""

    training: tuple[int, ...]
    held_out: tuple[int, ...]


def make_folds(hosts: Sequence[Hashable], clusters: Sequence[Hashable], count: int, seed: int) -> list[Fold]:
    """Divide n pages by hosts and clusters into `count` folds. The same arguments give the same folds."""
    random = Random(seed)
    most = _SLACK * len(hosts) / count
    names = sorted(set(hosts), key=str)
    random.shuffle(names)
    pages_of = Counter(hosts)
    of_host: dict[Hashable, int] = {}
    room = [0] * count
    for host in names:
        fold = min(range(count), key=room.__getitem__)
        of_host[host] = fold
        room[fold] += pages_of[host]
    of_cluster: dict[Hashable, int] = {}
    for _ in range(_ROUNDS):
        of_cluster = _follow(clusters, [of_host[host] for host in hosts], count)
        moved = _move_hosts(names, hosts, [of_cluster[cluster] for cluster in clusters], of_host, room, most)
        random.shuffle(names)
        if not moved:
            break
    of_cluster = _follow(clusters, [of_host[host] for host in hosts], count)
    sides = [(of_host[host], of_cluster[cluster]) for host, cluster in zip(hosts, clusters, strict=True)]
    return [
        Fold(
            tuple(place for place, side in enumerate(sides) if fold not in side),
            tuple(place for place, side in enumerate(sides) if side == (fold, fold)),
        )
        for fold in range(count)
    ]


def _follow(names: Sequence[Hashable], folds: Sequence[int], count: int) -> dict[Hashable, int]:
    """For each name the fold of most of its pages; the first one of equals."""
    votes: dict[Hashable, list[int]] = defaultdict(lambda: [0] * count)
    for name, fold in zip(names, folds, strict=True):
        votes[name][fold] += 1
    return {name: max(range(count), key=cast.__getitem__) for name, cast in votes.items()}


def _move_hosts(
    names: Sequence[Hashable],
    hosts: Sequence[Hashable],
    wished: Sequence[int],
    of_host: dict[Hashable, int],
    room: list[int],
    most: float,
) -> int:
    """Move each host to the most frequent fold of its pages' clusters, if there is room; returns the number moved."""
    votes: dict[Hashable, Counter[int]] = defaultdict(Counter)
    for host, fold in zip(hosts, wished, strict=True):
        votes[host][fold] += 1
    moved = 0
    for host in names:
        size, now = votes[host].total(), of_host[host]
        for fold, cast in sorted(votes[host].items(), key=lambda vote: (-vote[1], vote[0])):
            if cast <= votes[host][now]:
                break
            if room[fold] + size <= most:
                room[now] -= size
                room[fold] += size
                of_host[host] = fold
                moved += 1
                break
    return moved


@dataclass(frozen=True, slots=True)
class FoldCounts:
    """Counts of one choice on one part of one set: all duplicates and novel pages, and the dropped ones of each."""

    found: int
    duplicates: int
    lost: int
    novel: int

    @property
    def f1(self) -> float:
        """Page F1, 0 without duplicates."""
        return 2 * self.found / (self.found + self.lost + self.duplicates) if self.duplicates else 0.0


def objective(outcomes: Mapping[str, FoldCounts]) -> float:
    """The objective of a choice on a training part: the sets' mean F1 less three times their mean share of lost pages.

    A set without duplicates in this part counts by its lost pages alone. A lost page outweighs a missed duplicate: it
    is gone for good.
    """
    f1 = [outcome.f1 for outcome in outcomes.values() if outcome.duplicates]
    lost = [outcome.lost / outcome.novel for outcome in outcomes.values() if outcome.novel]
    return _mean(f1) - LOST_PENALTY * _mean(lost)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The choice of a fold's training part, and its counts there and on the held-out part, by set."""

    choice: Mapping[str, object]
    training: Mapping[str, FoldCounts]
    held_out: Mapping[str, FoldCounts]


Evaluate = Callable[[Mapping[str, object]], Mapping[str, FoldCounts]]


def choose(choices: Sequence[Mapping[str, object]], training: Evaluate, held_out: Evaluate) -> FoldResult:
    """The best choice on the training part, the first one of equals; the held-out part is evaluated once.

    choices: the strictest first
    """
    tried = [(choice, training(choice)) for choice in choices]
    choice, found = max(tried, key=lambda pair: objective(pair[1]))
    return FoldResult(choice, found, held_out(choice))
