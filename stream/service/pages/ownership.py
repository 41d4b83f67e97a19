"""Follows one input partition from assignment to hand-over: its phases, and the legal moves between them."""

import asyncio
import enum
from collections.abc import Mapping

from aiokafka import AIOKafkaProducer, TopicPartition

from spotsieve.stream.kafka.watch import Backoff


class Phase(enum.Enum):
    """Where a partition stands between its assignment and its hand-over."""

    OPENING = "former owners are fenced and the committed offset is read; what was fetched before is dropped"
    SEEKING = "the next offset is known, and the consumer does not stand there yet; what it fetches is dropped"
    ACCEPTING = "what the consumer fetches is taken"
    LEAVING = "the partition is being handed over: what is in flight is committed, nothing more is taken"
    LOST = "the partition is handed over: nothing of it is committed any longer"


MOVES: Mapping[Phase, frozenset[Phase]] = {
    # To OPENING again: the broker did not answer, and the opening is tried once more.
    Phase.OPENING: frozenset({Phase.OPENING, Phase.SEEKING, Phase.LEAVING, Phase.LOST}),
    # To OPENING: a commit of what was fetched before the seek failed.
    Phase.SEEKING: frozenset({Phase.OPENING, Phase.ACCEPTING, Phase.LEAVING, Phase.LOST}),
    # To OPENING: a commit failed. To SEEKING: retention removed what would come next.
    Phase.ACCEPTING: frozenset({Phase.OPENING, Phase.SEEKING, Phase.LEAVING, Phase.LOST}),
    # To LEAVING again: the first hand-over was cut off. Never to OPENING: the next owner opens the partition.
    Phase.LEAVING: frozenset({Phase.LEAVING, Phase.LOST}),
    Phase.LOST: frozenset(),
}
"""The phases that may follow each phase; any other move is a defect."""


class IllegalMove(Exception):
    """A defect: a partition was asked for a move that its phase does not allow."""


class OwnedPartition:
    """One input partition while this worker has it.

    `epoch` grows whenever what is in flight is dropped: a slice of a micro-batch that was fetched under an older epoch
    must not be committed. The intake loop alone seeks, between two fetches, so that records fetched before a seek are
    never taken for records fetched after it: a seek is asked for by the phase SEEKING.

    seek_to: the offset that a seek goes to, or went to last
    """

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.producer: AIOKafkaProducer | None = None
        self.seek_to = 0
        self.committed = 0
        self.attempted = 0
        """The next offset of the last commit that failed, or whose outcome is unknown."""
        self.lost = asyncio.Event()
        """Set in the phase LOST: a commit on its way must not be waited for any longer."""
        self.backoff = Backoff()
        """Before the next opening; short again once a commit has succeeded."""
        self._phase = Phase.OPENING
        self._epoch = 0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def phase(self) -> Phase:
        """Where the partition stands."""
        return self._phase

    @property
    def epoch(self) -> int:
        """The number of times that what was in flight was dropped."""
        return self._epoch

    @property
    def accepting(self) -> bool:
        """Whether what is fetched now is taken."""
        return self._phase is Phase.ACCEPTING

    def begin_opening(self) -> int:
        """Begin to open the partition, and drop what is in flight; -> the epoch of this opening."""
        self._move(Phase.OPENING)
        return self.drop()

    def is_opening(self, epoch: int) -> bool:
        """Whether the opening of this epoch is still the one that counts."""
        return self._phase is Phase.OPENING and self._epoch == epoch

    def seek(self, offset: int) -> None:
        """Ask the intake loop to go on at this offset."""
        self._move(Phase.SEEKING)
        self.seek_to = offset

    def accept(self) -> None:
        """The intake loop has sought: what is fetched from now on is taken."""
        self._move(Phase.ACCEPTING)

    def leave(self) -> None:
        """Another worker will have the partition: take nothing more."""
        self._move(Phase.LEAVING)

    def lose(self) -> None:
        """The partition is handed over: drop what is in flight."""
        self._move(Phase.LOST)
        self.drop()
        self.lost.set()

    def drop(self) -> int:
        """Let nothing that is in flight be committed; -> the new epoch."""
        self._epoch += 1
        return self._epoch

    def begin_slice(self) -> None:
        """A slice of this partition entered the pipeline."""
        self._in_flight += 1
        self._idle.clear()

    def end_slice(self) -> None:
        """A slice left it, committed or dropped."""
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._in_flight

    async def drained(self, timeout_seconds: float) -> bool:
        """Wait until nothing is in flight; False after the time-out."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _move(self, phase: Phase) -> None:
        """Raises IllegalMove."""
        if phase not in MOVES[self._phase]:
            name = f"{self.partition.topic}/{self.partition.partition}"
            raise IllegalMove(f"partition {name} cannot go from {self._phase.name} to {phase.name}")
        self._phase = phase
