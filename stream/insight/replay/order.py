"""Holds the order in which a replay judges: that in which the log first names each page of the range.

Finds the pages that the log forgets in the replay's own state.

The log's records name pages by the service's entry numbers and buckets. Under other settings the replay has filed the
same pages under other numbers and buckets, or not at all. So the keys of each page that will be forgotten are kept when
the replay judges it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import CommitMark
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.state import State
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.insight.replay.range import OUTSIDE, RangePlaces
from spotsieve.stream.sign.schemes import Scheme


@dataclass(frozen=True, slots=True)
class LogRun:
    """Pages of one partition that follow each other in the log, which names every offset from first to last.

    again: the log has named them before
    """

    partition: int
    first: int
    last: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class ForgetEvent:
    """The pages of the range, by their places in it, that are forgotten at this point of the log.

    with_host: those of them whose host's memory goes too
    """

    places: tuple[int, ...]
    with_host: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitMarks:
    """How far the partitions of the range were known to be committed at this point of the log."""

    committed: tuple[CommitMark, ...]


_FIRST, _AGAIN, _AFTER_COMMIT = range(3)
"""How the log names a run: first, again, or again after a mark said that its pages are committed."""


class LogOrder:
    """Collects the log's records. A page that the log names again (a crash, a rebalance) keeps its first turn.

    It holds a byte for each offset of the range, and 24 bytes for each run; a micro-batch makes a run or two for each
    partition.

    logged: bool[len(places)], whether the log names the page
    again: how often the log names a page again  forgotten: the places of all pages that the log forgets
    after_commit: how often it does so after a mark of the page's commit: the verdicts of pages that are not filed are
    no longer remembered there
    """

    def __init__(self, places: RangePlaces) -> None:
        self._places = places
        self._steps: list[NDArray[np.int64] | ForgetEvent | CommitMarks] = []
        self._committed = np.zeros(len(places.spans), np.int64)
        self.forgotten: set[int] = set()
        self.logged = np.zeros(len(places), np.bool_)
        self.again = self.after_commit = 0

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
        how = np.where(again, _AGAIN, _FIRST)
        how[again & (self._places.offsets(named) < self._committed[partitions])] = _AFTER_COMMIT
        self.after_commit += int(np.count_nonzero(how == _AFTER_COMMIT))
        cuts = np.flatnonzero((np.diff(named) != 1) | (np.diff(partitions) != 0) | (how[1:] != how[:-1]))
        begins, ends = np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [len(named) - 1]])
        self._steps.append(np.stack([named[begins], named[ends], how[begins]], axis=1))

    def commit(self, committed: Iterable[CommitMark]) -> None:
        """Take the marks of the log's last record, as far as they are of the range's topic."""
        known = {}
        for mark in committed:
            if mark.source == self._places.topic and 0 <= mark.partition < len(self._committed):
                known[mark.partition] = mark
                self._committed[mark.partition] = max(self._committed[mark.partition], mark.offset)
        if not known:
            return
        if self._steps and isinstance(self._steps[-1], CommitMarks):
            # Between them the log names no page of the range.
            before = self._steps.pop()
            assert isinstance(before, CommitMarks)
            known = {mark.partition: mark for mark in before.committed} | known
        self._steps.append(CommitMarks(tuple(known.values())))

    def forget(self, pages: Iterable[ForgottenPage]) -> None:
        """Take the pages that the log's next record forgets, if they are in the range."""
        named = ((self._places.of_page(*page.page_id), page.with_host) for page in pages)
        inside = {place: with_host for place, with_host in named if place != OUTSIDE}
        if inside:
            self._steps.append(ForgetEvent(tuple(inside), frozenset(place for place in inside if inside[place])))
            self.forgotten.update(inside)

    def judged_again(self, again: bool) -> int:
        """How many pages the steps give once more.  again: as for steps()"""
        return self.again if again else self.after_commit

    def steps(self, again: bool) -> Iterator[LogRun | ForgetEvent | CommitMarks]:
        """The runs, forgettings and marks in the order of the log.

        again: whether all runs that it names again are among them, or only those after a mark of their commit
        """
        least = _AGAIN if again else _AFTER_COMMIT
        for step in self._steps:
            if isinstance(step, ForgetEvent | CommitMarks):
                yield step
                continue
            for first, last, how in step.tolist():
                if how == _FIRST or how >= least:
                    partition, offset = self._places.page(first)
                    yield LogRun(partition, offset, offset + last - first, how != _FIRST)

    def named_span(self, partition: int) -> tuple[int, int] | None:
        """The first offset of the partition that the log names, and the one after the last; None if there is none."""
        first, end = self._places.spans[partition]
        base = self._places.of_page(self._places.topic, partition, first)
        if end == first:
            return None
        named = np.flatnonzero(self.logged[base : base + end - first])
        return (first + int(named[0]), first + int(named[-1]) + 1) if len(named) else None


class ForgottenKeys:
    """The keys of the pages that the log forgets: a few hundred bytes for each page."""

    def __init__(self, order: LogOrder, places: RangePlaces) -> None:
        self._wanted = order.forgotten
        self._places = places
        self._keys: dict[int, NDArray[np.uint64]] = {}

    def judged(self, signatures: Signatures, scheme: Scheme) -> None:
        """Keep the keys of those judged pages that will be forgotten."""
        if not self._wanted:
            return
        places = self._places.of(signatures.partition, signatures.offset).tolist()
        rows = [row for row, place in enumerate(places) if place in self._wanted]
        if rows:
            probes = scheme.probe(signatures)
            for row in rows:
                self._keys[places[row]] = probes.keys[probes.bounds[row] : probes.bounds[row + 1]]

    def pages(self, forget: ForgetEvent, state: State) -> list[ForgottenPage]:
        """The pages that are forgotten now, as the state has filed them. Raises CorruptRecord, StateError."""
        return [page for place in forget.places for page in self._indexed(place, place in forget.with_host, state)]

    def _indexed(self, place: int, with_host: bool, state: State) -> Iterable[ForgottenPage]:
        keys = self._keys.get(place)
        if keys is None or not len(keys):
            return
        page = (self._places.topic, *self._places.page(place))
        keys = np.unique(keys)
        numbers = np.unique(state.buckets(keys).numbers)
        for number, page_id in zip(numbers.tolist(), state.page_ids(numbers), strict=True):
            if page_id == page:
                yield ForgottenPage(number, *page, tuple(keys.tolist()), with_host)
