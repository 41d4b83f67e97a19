"""Says which reader reads which input, how far ahead of the judge, and what is read anew after a reader was lost."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.local.backfill.parts import Parts
from spotsieve.stream.local.backfill.reader import SignedRecords
from spotsieve.stream.local.summary import FilterSummary

_CALLS_AHEAD = 3
"""Batches that a reader is asked for before the first of them is looked at, so that it need not wait for the judge."""
_INPUTS_OF_READER = 2
"""One that it reads, and one that waits for verdicts."""
TRIES = 3
"""How often a reader, or a shard, is lost over the same work before the run ends: another one would be lost, too."""
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
    """An input and its outputs. run: what begins the writer of its records"""

    file: Input
    parts: Parts
    run: bytes


@dataclass(slots=True)
class _ReaderState:
    """What one reader has.

    reading: the input that it reads  asked: calls for batches, each with its input  writes: of its inputs that it was
    given verdicts of, the calls that are not known to be done
    """

    reading: int | None = None
    asked: deque[tuple[int, Call]] = field(default_factory=deque)
    inputs: set[int] = field(default_factory=set)
    writes: dict[int, deque[Call]] = field(default_factory=dict)


class Schedule:
    """Gives the batches of each input in turn, while readers go on with the next inputs."""

    def __init__(
        self,
        readers: Readers,
        tasks: Sequence[Task],
        numbers: Sequence[int],
        stopped: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        """numbers: the tasks that are to be done, ascending  stopped: whether nothing more is wanted

        tell: called with what a person should know of a reader that is lost
        """
        self._readers, self._tasks, self._stopped, self._tell = readers, tasks, stopped, tell
        self._waiting = list(numbers)
        self._desks = [_ReaderState() for _ in range(readers.count)]
        self._came: dict[int, deque[SignedRecords | None]] = {}
        self._reader: dict[int, int] = {}
        self._finishing: dict[int, Call] = {}
        self._done: dict[int, FilterSummary] = {}
        self._losses = Counter[int]()

    def batches(self, number: int) -> Iterator[SignedRecords]:
        """The batches of an input; ends early where nothing more is wanted.

        Raises LostReader where its reader is lost: ask again, from its first batch. Raises what the reader raised, and
        InputError where reader after reader is lost over an input.
        """
        opened: deque[SignedRecords | None] | None = None
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
        reader = self._reader[number]
        writes = self._desks[reader].writes.setdefault(number, deque())
        writes.append(self._readers.call(reader, "write", number, verdicts))

    def finish(self, number: int) -> None:
        """Have an input finished, whose batches are all written."""
        reader = self._reader[number]
        self._desks[reader].writes.setdefault(number, deque())
        self._finishing[number] = self._readers.call(reader, "finish", number)

    def is_finishing(self, number: int) -> bool:
        """Whether an input is being finished. Where its reader is lost before that, its batches are to be had again."""
        return number in self._finishing or number in self._done

    def finished(self) -> Iterator[tuple[int, FilterSummary]]:
        """The inputs that are done since this was asked, and what there was in each. Raises as batches()."""
        self._take_finished()
        while self._done:
            yield self._done.popitem()

    def wait_for_finished(self) -> None:
        """Return when an input may be done."""
        self._readers.wait(list(self._finishing.values()), _WAIT_FINISHED_S)

    def _go_on(self) -> None:
        # A reader that is to have no other input waits for the end of this one.
        self._take_finished()
        for reader, desk in enumerate(self._desks):
            try:
                self._take(desk)
                self._ask(reader, desk)
            except LostReader:
                self._lose(reader)

    def _take_finished(self) -> None:
        for number, call in list(self._finishing.items()):
            # A reader that is lost takes along what else it was to finish.
            if number not in self._finishing or not call.ready():
                continue
            reader = self._reader[number]
            desk = self._desks[reader]
            try:
                for write in desk.writes[number]:
                    write.result()
                summary: FilterSummary = call.result()
            except LostReader:
                self._lose(reader)
                continue
            desk.inputs.discard(number)
            del desk.writes[number]
            del self._finishing[number], self._reader[number], self._came[number]
            self._done[number] = summary

    def _take(self, desk: _ReaderState) -> None:
        for writes in desk.writes.values():
            while writes and writes[0].ready():
                writes.popleft().result()
        while desk.asked and desk.asked[0][1].ready():
            number, call = desk.asked.popleft()
            signed = call.result()
            if desk.reading == number:
                self._came[number].append(signed)
                desk.reading = None if signed is None else number

    def _ask(self, reader: int, desk: _ReaderState) -> None:
        if desk.reading is None and self._waiting and self._has_room(desk):
            number = heapq.heappop(self._waiting)
            desk.reading = number
            desk.inputs.add(number)
            self._reader[number], self._came[number] = reader, deque()
            desk.asked.append((-1, self._readers.call(reader, "open", number, *self._tasks[number])))
        while desk.reading is not None and len(desk.asked) < _CALLS_AHEAD:
            desk.asked.append((desk.reading, self._readers.call(reader, "sign", desk.reading)))

    def _has_room(self, desk: _ReaderState) -> bool:
        """Whether the reader takes the next input. One that a reader was lost over is read by a reader that has no
        other, so that the next loss shows which input it is.
        """
        if any(self._losses[number] for number in (self._waiting[0], *desk.inputs)):
            return not desk.inputs
        return len(desk.inputs) < _INPUTS_OF_READER

    def _lose(self, reader: int) -> None:
        """A reader is lost: another one takes its place, and what it had is read anew."""
        desk, self._desks[reader] = self._desks[reader], _ReaderState()
        for number in desk.inputs:
            del self._reader[number], self._came[number]
            self._finishing.pop(number, None)
            heapq.heappush(self._waiting, number)
        at_work = desk.inputs & {desk.reading, *desk.writes}
        self._losses.update(at_work)
        for number in sorted(at_work):
            if self._losses[number] >= TRIES:
                raise InputError(
                    self._tasks[number].file.source,
                    f"must leave the process that reads it alive, and {TRIES} were lost over it",
                    None,
                    "see the system's log, or Ray's, for why: more memory, or fewer --readers; then run it again",
                )
        again = ", ".join(self._tasks[number].file.source for number in sorted(desk.inputs))
        self._tell(f"reader {reader} is lost, and another one takes its place{again and f'; it reads anew: {again}'}")
        self._readers.renew(reader)

    def _wait(self) -> None:
        asked = [call for desk in self._desks for _, call in desk.asked]
        self._readers.wait([*asked, *self._finishing.values()], _WAIT_S)
