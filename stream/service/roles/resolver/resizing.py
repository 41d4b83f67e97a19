"""Keeps the resolver's part of a resize: who asks for other shards, and whether these are ready to take over."""

from collections.abc import Iterator, Sequence

from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.roles.told import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_REQUEST, KIND_FILL_PROGRESS
from spotsieve.stream.sharding.resizing import ClusterSize, Resize, ResizeEvent

READY_SECONDS = 10.0
"""A shard that was silent for so long is not handed the rounds: it tells every second that it is ready."""


class ResizeState:
    """What was asked for and told, in the order of `matches`."""

    def __init__(self, cluster_size: ClusterSize, old: Sequence[int] = ()) -> None:
        """cluster_size: as `verdicts` has it  old: by partition, who was ready before this offset may be gone"""
        self.cluster_size = cluster_size
        self._old = old
        self._asks = list[tuple[int, int]]()
        self._ready = dict[int, float]()

    def hear(self, heard: RoundMessage, now: float) -> None:
        """Take in a record of `matches`. now: seconds of a clock that only goes on"""
        told = heard.told
        if told.kind == KIND_REQUEST and not told.share.number:
            self._asks.append((heard.offset, heard.ask()))
        elif (
            told.kind == KIND_FILL_PROGRESS and told.share.shards == self.cluster_size.asked and not self._is_old(heard)
        ):
            if heard.filled().ready:
                self._ready[told.share.number] = now
            else:
                self._ready.pop(told.share.number, None)

    def answers(self) -> Iterator[Resize]:
        """What is to be said to the asks since the last call. The sizing is then that behind these words."""
        asks, self._asks = self._asks, []
        for offset, wanted in asks:
            said = self.cluster_size.answer(wanted, offset)
            if said is None:
                continue
            self._ready.clear()
            self.cluster_size = self.cluster_size.told(self.cluster_size.shards, said)
            if said.change == ResizeEvent.ASKED:
                logger().info("a resize begins: the new shards are waited for", shards=said.shards)
            else:
                logger().info("the resize is cancelled", shards=said.shards)
            yield said

    def due(self, now: float) -> bool:
        """Whether all shards that were asked for have said of late that they are ready."""
        ready = [number for number, at in self._ready.items() if now - at <= READY_SECONDS]
        return 0 < self.cluster_size.asked == len(ready)

    def switch(self) -> Resize:
        """Let the shards that were asked for take over; -> what is to be said."""
        said, before = self.cluster_size.switch(), self.cluster_size.shards
        self.cluster_size = self.cluster_size.told(said.shards, said)
        self._ready.clear()
        logger().info("the new shards take over", shards=said.shards, before=before)
        return said

    def _is_old(self, heard: RoundMessage) -> bool:
        number = heard.told.share.number
        return number < len(self._old) and heard.offset < self._old[number]
