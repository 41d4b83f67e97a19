"""The order in which a replay judges the pages of the range, and the pages to forget: both from the log.

A page is judged at its first occurrence in the log. The log forgets pages by the service's entry numbers and buckets.
With other settings the replay indexes the same pages under other numbers and buckets, or not at all. So `ForgottenKeys`
stores the keys of each page that will be forgotten when the replay judges it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import CommitMark
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.insight.replay.range import OUTSIDE, RangePlaces
from spotsieve.stream.sign.schemes import Scheme


@dataclass(frozen=True, slots=True)
class LogRun:
    """Consecutive pages in the log, with all offsets of one partition from first to last.

    again: whether they occur in the log before
    """

    partition: int
    first: int
    last: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class ForgetEvent:
    """The pages of the range that the log forgets at this point, by their places in the range.

    with_host: those whose host statistics are forgotten too
    """

    places: tuple[int, ...]
    with_host: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitMarks:
    """The committed offsets of the range's partitions at this point of the log."""

    committed: tuple[CommitMark, ...]


def highest_marks(marks: Iterable[CommitMark]) -> dict[int, CommitMark]:
    """The highest mark of each partition. A later mark may be lower, where a group began again."""
    return {mark.partition: mark for mark in sorted(marks, key=lambda mark: (mark.partition, mark.offset))}


_FIRST, _AGAIN, _AFTER_COMMIT = range(3)
"""Kinds of runs: first occurrence, repeated, or repeated after a mark of the pages' commit."""


class LogOrder:
    """The pages of the log in order. A page that occurs again (after a crash or a rebalance) keeps its first position.

    It takes a byte for each offset of the range, and 24 bytes for each run. A micro-batch makes one or two runs per
    partition.

    logged: bool[len(places)], whether the log has the page  forgotten: places of all pages that the log forgets
    again: number of repeated occurrences  after_commit: those after a mark of the page's commit, where the pending
    verdicts of pages that are not indexed are already deleted
    """

    def __init__(self, places: RangePlaces) -> None:
        self._places = places
        self._steps: list[NDArray[np.int64] | ForgetEvent | CommitMarks] = []
        self._committed = np.zeros(len(places.spans), np.int64)
        self.forgotten: set[int] = set()
        self.logged = np.zeros(len(places), np.bool_)
        self.again = self.after_commit = 0

    def add(self, signatures: Signatures) -> None:
        """Add the pages of the log's next record."""
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
        kinds = np.where(again, _AGAIN, _FIRST)
        kinds[again & (self._places.offsets(named) < self._committed[partitions])] = _AFTER_COMMIT
        self.after_commit += int(np.count_nonzero(kinds == _AFTER_COMMIT))
        cuts = np.flatnonzero((np.diff(named) != 1) | (np.diff(partitions) != 0) | (kinds[1:] != kinds[:-1]))
        begins, ends = np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [len(named) - 1]])
        self._steps.append(np.stack([named[begins], named[ends], kinds[begins]], axis=1))

    def commit(self, committed: Iterable[CommitMark]) -> None:
        """Add the commit marks of the log's last record for the range's topic."""
        marks = {}
        for mark in committed:
            if mark.source == self._places.topic and 0 <= mark.partition < len(self._committed):
                marks[mark.partition] = mark
                self._committed[mark.partition] = max(self._committed[mark.partition], mark.offset)
        if not marks:
            return
        if self._steps and isinstance(self._steps[-1], CommitMarks):
            # There is no page of the range between them.
            before = self._steps.pop()
            assert isinstance(before, CommitMarks)
            marks = highest_marks([*before.committed, *marks.values()])
        self._steps.append(CommitMarks(tuple(marks.values())))

    def forget(self, pages: Iterable[ForgottenPage]) -> None:
        """Add the pages of the range that the log's next record forgets."""
        named = ((self._places.of_page(*page.page_id), page.with_host) for page in pages)
        inside = {place: with_host for place, with_host in named if place != OUTSIDE}
        if inside:
            self._steps.append(ForgetEvent(tuple(inside), frozenset(place for place in inside if inside[place])))
            self.forgotten.update(inside)

    def judged_again(self, again: bool) -> int:
        """The number of repeated pages in steps(again)."""
        return self.again if again else self.after_commit

    def steps(self, again: bool) -> Iterator[LogRun | ForgetEvent | CommitMarks]:
        """The runs, forget events and commit marks in log order.

        again: whether to include all repeated runs, or only those after a mark of their commit
        """
        least = _AGAIN if again else _AFTER_COMMIT
        for step in self._steps:
            if isinstance(step, ForgetEvent | CommitMarks):
                yield step
                continue
            for first, last, kind in step.tolist():
                if kind == _FIRST or kind >= least:
                    partition, offset = self._places.page(first)
                    yield LogRun(partition, offset, offset + last - first, kind != _FIRST)

    def logged_span(self, partition: int) -> tuple[int, int] | None:
        """The first offset of a partition in the log, and the offset after the last; None if the log has none."""
        first, end = self._places.spans[partition]
        base = self._places.of_page(self._places.topic, partition, first)
        if end == first:
            return None
        named = np.flatnonzero(self.logged[base : base + end - first])
        return (first + int(named[0]), first + int(named[-1]) + 1) if len(named) else None


class ForgottenKeys:
    """The keys of the pages that the log will forget, a few hundred bytes per page."""

    def __init__(self, order: LogOrder, places: RangePlaces) -> None:
        self._wanted = order.forgotten
        self._places = places
        self._keys: dict[int, NDArray[np.uint64]] = {}

    def add(self, signatures: Signatures, scheme: Scheme) -> None:
        """Store the keys of the judged pages that will be forgotten."""
        if not self._wanted:
            return
        places = self._places.of(signatures.partition, signatures.offset).tolist()
        rows = [row for row, place in enumerate(places) if place in self._wanted]
        if rows:
            probes = scheme.probe(signatures)
            for row in rows:
                self._keys[places[row]] = probes.keys[probes.bounds[row] : probes.bounds[row + 1]]

    def pages(self, forget: ForgetEvent, state: State) -> list[ForgottenPage]:
        """The indexed pages of a forget event, as the state has them. Raises CorruptRecord, StateError."""
        topic, places = self._places.topic, [place for place in forget.places if place in self._keys]
        return [
            page._replace(with_host=place in forget.with_host)
            for place in places
            for page in indexed_pages((topic, *self._places.page(place)), self._keys[place], state)
        ]


def indexed_pages(page: PageId, keys: NDArray[np.uint64], state: State) -> Iterator[ForgottenPage]:
    """The entries of a page in a state, to forget them. keys: of the page. Raises CorruptRecord, StateError."""
    keys = np.unique(keys)
    numbers = np.unique(state.buckets(keys).numbers)
    for number, page_id in zip(numbers.tolist(), state.page_ids(numbers), strict=True):
        if page_id == page:
            yield ForgottenPage(number, *page, tuple(keys.tolist()))
