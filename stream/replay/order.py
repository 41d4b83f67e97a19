"""Holds the order in which a replay judges: that in which the log first names each page of the range."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.replay.places import OUTSIDE, Places
from spotsieve.stream.signature import Signatures


@dataclass(frozen=True, slots=True)
class Run:
    """Pages of one partition that follow each other in the log, which names every offset from first to last.

    again: the log has named them before
    """

    partition: int
    first: int
    last: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """The pages of the range, by their places in it, that are forgotten at this point of the log."""

    places: tuple[int, ...]


class LogOrder:
    """Collects the log's records. A page that the log names again (a crash, a rebalance) keeps its first turn.

    It holds a byte for each offset of the range, and 24 bytes for each run; a micro-batch makes a run or two for each
    partition.

    logged: bool[len(places)], whether the log names the page
    again: how often the log names a page again  forgotten: the places of all pages that the log forgets
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._steps: list[NDArray[np.int64] | Forget] = []
        self.forgotten: set[int] = set()
        self.logged = np.zeros(len(places), np.bool_)
        self.again = 0

    def add(self, signatures: Signatures) -> None:
        """Take the pages of the log's next record."""
        places = self._places.of(signatures.partition, signatures.offset)
        of_topic = np.array([source == self._places.topic for source in signatures.sources], np.bool_)
        named = places[(places >= 0) & of_topic[signatures.source]]
        if not len(named):
            return
        again = np.ones(len(named), np.bool_)
        again[np.unique(named, return_index=True)[1]] = False
        again |= self.logged[named]
        self.again += int(np.count_nonzero(again))
        self.logged[named] = True
        partitions = self._places.partitions(named)
        cuts = np.flatnonzero((np.diff(named) != 1) | (np.diff(partitions) != 0) | (again[1:] != again[:-1]))
        begins, ends = np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [len(named) - 1]])
        self._steps.append(np.stack([named[begins], named[ends], again[begins]], axis=1))

    def forget(self, pages: Iterable[tuple[str, int, int]]) -> None:
        """Take the pages (source, partition, offset) that the log's next record forgets, if they are in the range."""
        named = (self._places.of_page(*page) for page in pages)
        places = tuple(place for place in named if place != OUTSIDE)
        if places:
            self._steps.append(Forget(places))
            self.forgotten.update(places)

    def steps(self, again: bool) -> Iterator[Run | Forget]:
        """The runs and forgettings in the order of the log.  again: whether runs that it names again are among them"""
        for step in self._steps:
            if isinstance(step, Forget):
                yield step
                continue
            for first, last, named_before in step.tolist():
                if again or not named_before:
                    partition, offset = self._places.page(first)
                    yield Run(partition, offset, offset + last - first, bool(named_before))

    def named_span(self, partition: int) -> tuple[int, int] | None:
        """The first offset of the partition that the log names, and the one after the last; None if there is none."""
        first, end = self._places.spans[partition]
        base = self._places.of_page(self._places.topic, partition, first)
        if end == first:
            return None
        named = np.flatnonzero(self.logged[base : base + end - first])
        return (first + int(named[0]), first + int(named[-1]) + 1) if len(named) else None
