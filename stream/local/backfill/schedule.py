"""The schedule of a backfill: which reader reads which input, how far ahead, and what is read again after a loss."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.local.against import Checkpoint
from spotsieve.stream.local.backfill.parts import Parts
from spotsieve.stream.local.backfill.reader import SignedRecords
from spotsieve.stream.local.summary import FilterSummary

_CALLS_AHEAD = 3
"""Batches requested from a reader before the first is judged, so that it need not wait for the judge."""
_INPUTS_OF_READER = 2
"""One input that it reads, and one that waits for verdicts."""
TRIES = 3
"""Losses of readers or shards over the same work that end the run, because the next one would be lost too."""
_WAIT_S, _WAIT_FINISHED_S = 0.2, 1.0


class LostReader(Exception):
    """A reader is lost, with all records that it held."""


class Call(Protocol):
    """A pending call of a reader."""

    def ready(self) -> bool:
        """Whether result() returns without waiting."""

    def result(self) -> Any:
        """Result of the call. Raises LostReader, or the exception of the reader."""


class Readers(Protocol):
    """Readers in processes of their own. Each runs its calls in order."""

    count: int

    def call(self, reader: int, method: str, *arguments: object) -> Call:
        """Call a method of a Reader."""

    def renew(self, reader: int) -> None:
        """Replace a lost reader."""

    def wait(self, calls: Sequence[Call], seconds: float) -> None:
        """Return when one of the calls is ready, or after this time."""


class Task(NamedTuple):
    """An input and its outputs.

    run: prefix of the writer of its records  salt: of the state, by which it is signed
    against: checkpoints of other states, whose pages are dropped (stream/local/against.py)
    with_clusters: whether verdicts get the column "cluster"  with_text: whether pages get their text (--text)
    """

    file: Input
    parts: Parts
    run: bytes
    salt: int = 0
    against: tuple[Checkpoint, ...] = ()
    with_clusters: bool = False
    with_text: bool = False


@dataclass(slots=True)
class _ReaderState:
    """State of one reader.

    reading: the input that it reads  asked: pending calls for batches, each with its input  inputs: its inputs
    writes: pending write calls, by input that has verdicts
    """

    reading: int | None = None
    asked: deque[tuple[int, Call]] = field(default_factory=deque)
    inputs: set[int] = field(default_factory=set)
    writes: dict[int, deque[Call]] = field(default_factory=dict)


class Schedule:
    """Yields the batches of each input in turn, while readers continue with the next inputs."""

    def __init__(
        self,
        readers: Readers,
        tasks: Sequence[Task],
        numbers: Sequence[int],
        stopped: Callable[[], bool],
        notify: Callable[[str], None],
    ) -> None:
        """numbers: the unfinished tasks, ascending  stopped: whether the run is ending

        notify: called with a message for the user when a reader is lost
        """
        self._readers, self._tasks, self._stopped, self._notify = readers, tasks, stopped, notify
        self._waiting = list(numbers)
        self._states = [_ReaderState() for _ in range(readers.count)]
        self._arrived: dict[int, deque[SignedRecords | None]] = {}
        self._reader: dict[int, int] = {}
        self._finishing: dict[int, Call] = {}
        self._done: dict[int, FilterSummary] = {}
        self._losses = Counter[int]()

    def batches(self, number: int) -> Iterator[SignedRecords]:
        """Batches of an input; ends early if the run is ending.

        Raises LostReader if its reader is lost; call it again, from the first batch. Raises the exceptions of the
        reader, and InputError if TRIES readers were lost over the input.
        """
        opened: deque[SignedRecords | None] | None = None
        while not self._stopped():
            self._advance()
            arrived = self._arrived.get(number)
            # Another reader may have restarted the input. This iteration must not continue with its batches.
            if opened is not None and arrived is not opened:
                raise LostReader
            opened = arrived
            if arrived:
                signed = arrived.popleft()
                if signed is None:
                    return
                yield signed
            else:
                self._wait()

    def write(self, number: int, verdicts: object) -> None:
        """Have the reader write the next batch of an input."""
        reader = self._reader[number]
        writes = self._states[reader].writes.setdefault(number, deque())
        writes.append(self._readers.call(reader, "write", number, verdicts))

    def finish(self, number: int) -> None:
        """Have the reader finish an input whose batches are all written."""
        reader = self._reader[number]
        self._states[reader].writes.setdefault(number, deque())
        self._finishing[number] = self._readers.call(reader, "finish", number)

    def is_finishing(self, number: int) -> bool:
        """Whether an input is being finished. If its reader is lost before that, batches() starts again."""
        return number in self._finishing or number in self._done

    def finished(self) -> Iterator[tuple[int, FilterSummary]]:
        """Inputs finished since the last call, with their summaries. Raises like batches()."""
        self._take_finished()
        while self._done:
            yield self._done.popitem()

    def wait_for_finished(self) -> None:
        """Return when an input may be finished, or after a while."""
        self._readers.wait(list(self._finishing.values()), _WAIT_FINISHED_S)

    def _advance(self) -> None:
        # Finish first, because a suspected input waits until its reader has no other.
        self._take_finished()
        for reader, state in enumerate(self._states):
            try:
                self._take(state)
                self._ask(reader, state)
            except LostReader:
                self._lose(reader)

    def _take_finished(self) -> None:
        for number, call in list(self._finishing.items()):
            # A reader that is lost in this loop takes its other inputs along.
            if number not in self._finishing or not call.ready():
                continue
            reader = self._reader[number]
            state = self._states[reader]
            try:
                for write in state.writes[number]:
                    write.result()
                summary: FilterSummary = call.result()
            except LostReader:
                self._lose(reader)
                continue
            state.inputs.discard(number)
            del state.writes[number]
            del self._finishing[number], self._reader[number], self._arrived[number]
            self._done[number] = summary

    def _take(self, state: _ReaderState) -> None:
        for writes in state.writes.values():
            while writes and writes[0].ready():
                writes.popleft().result()
        while state.asked and state.asked[0][1].ready():
            number, call = state.asked.popleft()
            signed = call.result()
            if state.reading == number:
                self._arrived[number].append(signed)
                state.reading = None if signed is None else number

    def _ask(self, reader: int, state: _ReaderState) -> None:
        if state.reading is None and self._waiting and self._has_room(state):
            number = heapq.heappop(self._waiting)
            state.reading = number
            state.inputs.add(number)
            self._reader[number], self._arrived[number] = reader, deque()
            state.asked.append((-1, self._readers.call(reader, "open", number, *self._tasks[number])))
        while state.reading is not None and len(state.asked) < _CALLS_AHEAD:
            state.asked.append((state.reading, self._readers.call(reader, "sign", state.reading)))

    def _has_room(self, state: _ReaderState) -> bool:
        """Whether the reader takes the next input.

        An input over which a reader was lost is read by a reader without other inputs, so that the next loss identifies
        it.
        """
        if any(self._losses[number] for number in (self._waiting[0], *state.inputs)):
            return not state.inputs
        return len(state.inputs) < _INPUTS_OF_READER

    def _lose(self, reader: int) -> None:
        """Replace a lost reader, and have its inputs read again."""
        state, self._states[reader] = self._states[reader], _ReaderState()
        for number in state.inputs:
            del self._reader[number], self._arrived[number]
            self._finishing.pop(number, None)
            heapq.heappush(self._waiting, number)
        at_work = state.inputs & {state.reading, *state.writes}
        self._losses.update(at_work)
        for number in sorted(at_work):
            if self._losses[number] >= TRIES:
                raise InputError(
                    self._tasks[number].file.source,
                    f"ended the process that reads it, {TRIES} times",
                    None,
                    "read the system's log, or Ray's; give it more memory or fewer --readers, then run it again",
                )
        again = ", ".join(self._tasks[number].file.source for number in sorted(state.inputs))
        self._notify(f"reader {reader} is lost, and a new one replaces it{again and f'; read again: {again}'}")
        self._readers.renew(reader)

    def _wait(self) -> None:
        asked = [call for state in self._states for _, call in state.asked]
        self._readers.wait([*asked, *self._finishing.values()], _WAIT_S)
