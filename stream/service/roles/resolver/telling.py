"""Makes the records of `verdicts`: which round is next, without which pages, and what becomes of asks for shards."""

from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.roles.broken import poison_body
from spotsieve.stream.service.roles.resolver.naming import RoundPlanner
from spotsieve.stream.service.roles.resolver.opened import OpenRound
from spotsieve.stream.service.roles.resolver.resizing import ResizeState
from spotsieve.stream.service.roles.told import RoundReader
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.sharding.records.frame import (
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESIZE,
    RoundRange,
    encode_round_record,
)
from spotsieve.stream.sharding.records.range import RoundAnnouncement, write_announcement
from spotsieve.stream.sharding.records.resize import write_resize
from spotsieve.stream.sharding.resizing import ClusterSize, Resize
from spotsieve.stream.sharding.shares import Share


class ResolverRecords:
    """The records that one resolver writes. resizing: what it knows of other shards"""

    def __init__(self, settings: Settings, rounds: RoundReader, naming: RoundPlanner) -> None:
        self._digest = settings_digest(verdict_settings_text(settings))
        self._setting = settings.cluster.shards
        self._rounds, self._naming = rounds, naming
        self.resizing = ResizeState(ClusterSize())

    def begin_with(self, cluster_size: ClusterSize, ends: list[int]) -> None:
        """Speak for these shards. ends: of the partitions of `matches`, now"""
        self.resizing = ResizeState(cluster_size, ends)
        if cluster_size.shards != self._setting:
            logger().warning(
                "cluster.shards is not what verdicts says, which counts; set it, or ask for another number "
                "(spotsieve cluster resize)",
                setting=self._setting,
                shards=cluster_size.shards,
            )

    def record(self, kind: int, range_: RoundRange, body: bytes) -> bytes:
        """A record about a round."""
        return encode_round_record(kind, self._digest, Share(0, self.resizing.cluster_size.shards), range_, body)

    def resize(self, said: Resize) -> bytes:
        """The record of what becomes of an ask."""
        return self.record(KIND_RESIZE, self._naming.here(), write_resize(said))

    def broken(self, opened: OpenRound) -> bytes:
        """The record of the pages that the open round goes on without."""
        return self.record(KIND_POISON_ROWS, opened.range, poison_body(opened.round, opened.errors))

    async def answer_asks(self) -> list[bytes]:
        """What becomes of asks for other shards. Who is to take over is listened to from now on."""
        said = [self.resize(one) for one in self.resizing.answers()]
        if said:
            await self._rounds.read_matches_of(self.resizing.cluster_size.most)
        return said

    async def from_now_on(self, named: RoundAnnouncement) -> RoundAnnouncement:
        """The same, with answers that stand behind what was read of `matches` by now."""
        return named._replace(answers=await self._rounds.matches_positions())

    async def name(self, opened: OpenRound) -> list[bytes]:
        """The records that name a round whose answers stand behind what was read of `matches` by now.

        A resize that is under way is told behind it: who looks at the end of `verdicts` alone must come to know of it.
        The pages that it spares are told once more, for the same reason.
        """
        opened.named = await self.from_now_on(opened.named)
        # Asks that were read up to these positions are answered here, or the next resolver would not hear of them.
        resizes = await self.answer_asks()
        pending = self.resizing.cluster_size.pending()
        if pending is not None:
            resizes.append(self.resize(pending))
        broken = [self.broken(opened)] if opened.errors else []
        return [self.record(KIND_RANGE, opened.range, write_announcement(opened.named)), *resizes, *broken]
