"""Says how many shards answer, and how many are to take over: what every reader of `verdicts` makes of its records.

A resize is asked for, and then switched or cancelled. Only the resolver decides it, between two rounds. So the number
of shards is a part of the log of rounds: all who read it know at the same round who answers. What is filed depends on
the log and the outcomes alone. So the shards to come fill themselves while the others answer, and no verdict changes.
"""

from enum import IntEnum
from typing import NamedTuple


class ResizeEvent(IntEnum):
    """What the resolver says of a resize."""

    ASKED = 0
    SWITCHED = 1
    CANCELLED = 2


class Resize(NamedTuple):
    """A word of the resolver on a resize.

    shards: those that are to take over, or have  answered: asks before this offset of the first partition of `matches`
    are dealt with
    """

    change: ResizeEvent
    shards: int
    answered: int


class FillProgress(NamedTuple):
    """How far a shard has come that fills itself. ready: it is behind by a few rounds at most

    next_told: the offset in `verdicts` that it reads next
    """

    ready: bool
    next_told: int


class ClusterSize(NamedTuple):
    """The shards of a cluster. shards: those that answer, 0: nothing was told yet  asked: to take over, 0: none

    answered: as of Resize
    """

    shards: int = 0
    asked: int = 0
    answered: int = 0

    @property
    def most(self) -> int:
        """So many partitions of `matches` are written to."""
        return max(self.shards, self.asked)

    def over(self, end: int) -> "ClusterSize":
        """The same over a first partition of `matches` that ends here. One that ends before its asks was made anew."""
        return self if self.answered <= end else self._replace(answered=0)

    def told(self, shards: int, resize: Resize | None = None) -> "ClusterSize":
        """The shards behind a record of `verdicts`.

        shards: what the record names  resize: where it is a word on a resize
        """
        if resize is None:
            return self._replace(shards=shards)
        return ClusterSize(shards, resize.shards if resize.change == ResizeEvent.ASKED else 0, resize.answered)

    def answer(self, wanted: int, offset: int) -> Resize | None:
        """What the resolver says to an ask; None where it was answered before, or nothing comes of it.

        wanted: so many shards; 0: cancel  offset: of the ask in the first partition of `matches`
        """
        if offset < self.answered:
            return None
        if not wanted:
            return Resize(ResizeEvent.CANCELLED, self.asked, offset + 1) if self.asked else None
        if self.asked or wanted == self.shards:
            return None
        return Resize(ResizeEvent.ASKED, wanted, offset + 1)

    def pending(self) -> Resize | None:
        """What is said with every round until a resize is over, so that the end of `verdicts` tells it."""
        return Resize(ResizeEvent.ASKED, self.asked, self.answered) if self.asked else None

    def switch(self) -> Resize:
        """What is said when the shards that were asked for take over."""
        return Resize(ResizeEvent.SWITCHED, self.asked, self.answered)
