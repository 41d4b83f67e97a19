"""The lifecycle of one input partition from assignment to revocation: its phases and the legal moves."""

import asyncio
import enum
from collections.abc import Mapping

from aiokafka import AIOKafkaProducer, TopicPartition

from spotsieve.stream.kafka.watch import Backoff


class Phase(enum.Enum):
    """Phase of a partition between its assignment and its revocation."""

    OPENING = "former owners are fenced and the committed offset is read; fetched pages are dropped"
    SEEKING = "the next offset is known and the consumer must still seek to it; fetched pages are dropped"
    ACCEPTING = "fetched pages are accepted"
    LEAVING = "the partition is being revoked; pages in flight are committed, and no more pages are accepted"
    LOST = "the partition is revoked; nothing of it is committed any more"


MOVES: Mapping[Phase, frozenset[Phase]] = {
    # To OPENING again: the broker did not respond, and the opening is repeated.
    Phase.OPENING: frozenset({Phase.OPENING, Phase.SEEKING, Phase.LEAVING, Phase.LOST}),
    # To OPENING: a commit of pages that were fetched before the seek failed.
    Phase.SEEKING: frozenset({Phase.OPENING, Phase.ACCEPTING, Phase.LEAVING, Phase.LOST}),
    # To OPENING: a commit failed. To SEEKING: retention removed the next pages.
    Phase.ACCEPTING: frozenset({Phase.OPENING, Phase.SEEKING, Phase.LEAVING, Phase.LOST}),
    # To LEAVING again: the first revocation was interrupted. Never to OPENING: the next owner opens the partition.
    Phase.LEAVING: frozenset({Phase.LEAVING, Phase.LOST}),
    Phase.LOST: frozenset(),
}
"""By phase, the phases that may follow. Any other move is a defect."""


class IllegalMove(Exception):
    """A defect: the phase of a partition does not allow this move."""


class OwnedPartition:
    """One input partition while this worker owns it.

    `epoch` grows whenever pages in flight are dropped: a slice that was fetched in an older epoch must not be
    committed. Only the intake loop seeks, between two fetches, so that pages fetched before a seek are never mistaken
    for pages fetched after it. The phase SEEKING requests a seek.

    seek_to: offset of the requested seek, or of the last one
    """

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.producer: AIOKafkaProducer | None = None
        self.seek_to = 0
        self.committed = 0
        self.attempted = 0
        """Offset of the last commit that failed or has an unknown outcome."""
        self.dropped = asyncio.Event()
        """Set when the pages in flight are dropped: their commits must be cancelled. Each epoch has its own event."""
        self.backoff = Backoff()
        """Wait before the next opening. It is reset by a successful commit."""
        self._phase = Phase.OPENING
        self._epoch = 0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    @property
    def epoch(self) -> int:
        """Number of times that pages in flight were dropped."""
        return self._epoch

    @property
    def accepting(self) -> bool:
        """Whether fetched pages are accepted now."""
        return self._phase is Phase.ACCEPTING

    def begin_opening(self) -> int:
        """Begin to open the partition, and drop pages in flight. Returns the epoch of this opening."""
        self._move(Phase.OPENING)
        return self.drop()

    def is_opening(self, epoch: int) -> bool:
        """Whether the opening of this epoch is still current."""
        return self._phase is Phase.OPENING and self._epoch == epoch

    def seek(self, offset: int) -> None:
        """Request the intake loop to continue at this offset."""
        self._move(Phase.SEEKING)
        self.seek_to = offset

    def accept(self) -> None:
        """Accept pages from now on, after the intake loop has sought."""
        self._move(Phase.ACCEPTING)

    def leave(self) -> None:
        """Accept no more pages, because the partition is being revoked."""
        self._move(Phase.LEAVING)

    def lose(self) -> None:
        """Drop the pages in flight, because the partition is revoked."""
        self._move(Phase.LOST)
        self.drop()

    def drop(self) -> int:
        """Drop the pages in flight. Returns the new epoch."""
        self._epoch += 1
        self.dropped.set()
        self.dropped = asyncio.Event()
        return self._epoch

    def begin_slice(self) -> None:
        """Count a slice of this partition that enters the pipeline."""
        self._in_flight += 1
        self._idle.clear()

    def end_slice(self) -> None:
        """Count a slice that was committed or dropped."""
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    @property
    def idle(self) -> bool:
        """Whether no page is in flight."""
        return not self._in_flight

    async def drained(self, timeout_seconds: float) -> bool:
        """Wait until no page is in flight. Returns False after the time-out."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _move(self, phase: Phase) -> None:
        """Change the phase. Raises IllegalMove."""
        if phase not in MOVES[self._phase]:
            name = f"{self.partition.topic}/{self.partition.partition}"
            raise IllegalMove(f"partition {name} cannot move from {self._phase.name} to {phase.name}")
        self._phase = phase
