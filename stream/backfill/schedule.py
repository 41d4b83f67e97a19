"""Says which reader reads which input, how far ahead of the judge, and what is read anew after a reader was lost."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from spotsieve.stream.backfill.parts import Parts
from spotsieve.stream.backfill.reader import Signed
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.local.summary import Summary

_CALLS_AHEAD = 3
"""Batches that a reader is asked for before the first of them is looked at, so that it need not wait for the judge."""
_INPUTS_OF_READER = 2
"""One that it reads, and one that waits for verdicts."""
_WAIT_S, _WAIT_FINISHED_S = 0.2, 1.0


class LostReader(Exception):
    """A reader is gone, with all that it held."""


class Call(Protocol):
    """What a reader was asked to do."""

    def ready(self) -> bool:
        """Whether result() would not wait."""

    def result(self) -> Any:
        """What came of it. Raises LostReader, and what the reader raised."""


class Readers(Protocol):
    """Readers in processes of their own. Each does what it is asked in order."""

    count: int

    def call(self, reader: int, method: str, *arguments: object) -> Call:
        """Ask a reader. method: of Reader"""

    def renew(self, reader: int) -> None:
        """Start another one in place of a reader that is lost."""

    def wait(self, calls: Sequence[Call], seconds: float) -> None:
        """Return when one of these is ready, or after so long."""


class Task(NamedTuple):
    """An input and its outputs."""

    file: Input
    parts: Parts


@dataclass(slots=True)
class _Desk:
    """What one reader has. reading: the input that it reads  asked: calls for batches, each with its input"""

    reading: int | None = None
    asked: deque[tuple[int, Call]] = field(default_factory=deque)
    inputs: set[int] = field(default_factory=set)


class Schedule:
    """Gives the batches of each input in turn, while readers go on with the next inputs."""

    def __init__(self, readers: Readers, tasks: Sequence[Task], numbers: Sequence[int], stopped: Callable[[], bool]):
        """numbers: the tasks that are to be done, ascending  stopped: whether nothing more is wanted"""
        self._readers, self._tasks, self._stopped = readers, tasks, stopped
        self._waiting = list(numbers)
        self._desks = [_Desk() for _ in range(readers.count)]
        self._came: dict[int, deque[Signed | None]] = {}
        self._reader: dict[int, int] = {}
        self._finishing: dict[int, Call] = {}

    def batches(self, number: int) -> Iterator[Signed]:
        """The batches of an input; ends early where nothing more is wanted.

        Raises LostReader where its reader is lost: ask again, from its first batch. Raises what the reader raised.
        """
        opened: deque[Signed | None] | None = None
        while not self._stopped():
            self._go_on()
            came = self._came.get(number)
            # Another reader may have begun the input anew by now. Its batches are not those that are wanted here.
            if opened is not None and came is not opened:
                raise LostReader
            opened = came
            if came:
                signed = came.popleft()
                if signed is None:
                    return
                yield signed
            else:
                self._wait()

    def write(self, number: int, verdicts: object) -> None:
        """Have the next batch of an input written."""
        self._readers.call(self._reader[number], "write", number, verdicts)

    def finish(self, number: int) -> None:
        """Have an input finished, whose batches are all written."""
        self._finishing[number] = self._readers.call(self._reader[number], "finish", number)

    def is_finishing(self, number: int) -> bool:
        """Whether an input is being finished. Where its reader is lost before that, its batches are to be had again."""
        return number in self._finishing

    def finished(self) -> Iterator[tuple[int, Summary]]:
        """The inputs that are done since this was asked, and what there was in each. Raises what the reader raised."""
        for number, call in list(self._finishing.items()):
            # A reader that is lost takes along what else it was to finish.
            if number not in self._finishing or not call.ready():
                continue
            reader = self._reader[number]
            try:
                summary: Summary = call.result()
            except LostReader:
                self._lose(reader)
                continue
            self._desks[reader].inputs.discard(number)
            del self._finishing[number], self._reader[number], self._came[number]
            yield number, summary

    def wait_for_finished(self) -> None:
        """Return when an input may be done."""
        self._readers.wait(list(self._finishing.values()), _WAIT_FINISHED_S)

    def _go_on(self) -> None:
        for reader, desk in enumerate(self._desks):
            try:
                self._take(desk)
                self._ask(reader, desk)
            except LostReader:
                self._lose(reader)

    def _take(self, desk: _Desk) -> None:
        while desk.asked and desk.asked[0][1].ready():
            number, call = desk.asked.popleft()
            signed = call.result()
            if desk.reading == number:
                self._came[number].append(signed)
                desk.reading = None if signed is None else number

    def _ask(self, reader: int, desk: _Desk) -> None:
        if desk.reading is None and self._waiting and len(desk.inputs) < _INPUTS_OF_READER:
            number = heapq.heappop(self._waiting)
            desk.reading = number
            desk.inputs.add(number)
            self._reader[number], self._came[number] = reader, deque()
            desk.asked.append((-1, self._readers.call(reader, "open", number, *self._tasks[number])))
        while desk.reading is not None and len(desk.asked) < _CALLS_AHEAD:
            desk.asked.append((desk.reading, self._readers.call(reader, "sign", desk.reading)))

    def _lose(self, reader: int) -> None:
        """A reader is lost: another one takes its place, and what it had is read anew."""
        for number in self._desks[reader].inputs:
            del self._reader[number], self._came[number]
            self._finishing.pop(number, None)
            heapq.heappush(self._waiting, number)
        self._desks[reader] = _Desk()
        self._readers.renew(reader)

    def _wait(self) -> None:
        self._readers.wait([call for desk in self._desks for _, call in desk.asked], _WAIT_S)
