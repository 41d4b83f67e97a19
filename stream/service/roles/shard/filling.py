"""Says whether a shard is one of those that answer, or are to, and tells how far one has come that fills itself."""

import time

from spotsieve.stream.errors import StateError
from spotsieve.stream.service.log.record_writer import RecordWriter
from spotsieve.stream.service.roles.role import RoleEnd
from spotsieve.stream.service.roles.told import RoundReader
from spotsieve.stream.sharding.records.frame import KIND_FILL_PROGRESS, RoundRange, encode_round_record
from spotsieve.stream.sharding.records.resize import write_fill_progress
from spotsieve.stream.sharding.resizing import ClusterSize, FillProgress
from spotsieve.stream.sharding.shares import Share

TELL_SECONDS = 1.0
NEAR_OFFSETS = 16
"""A shard is ready when it is behind the end of `verdicts` by no more than this: a round takes four or more."""


def check_wanted(share: Share, cluster_size: ClusterSize, is_new: bool) -> None:
    """Raise RoleEnd for a shard that others have replaced, and StateError for one that nobody has asked for.

    cluster_size: with shards = 0 while no round was named  is_new: it has filed nothing and heard of no resize
    """
    if not cluster_size.shards or share.shards in (cluster_size.shards, cluster_size.asked):
        return
    if not is_new:
        raise RoleEnd(
            f"shard {share.number} of {share.shards} is needed no longer: the number of shards is {cluster_size.shards}; its "
            "state directory may go"
        )
    asked = f", and {cluster_size.asked} are asked for" if cluster_size.asked else ""
    raise StateError(
        f"shard {share.number} of {share.shards}",
        f"must be one of those that answer: there are {cluster_size.shards}{asked}",
        None,
        f"set cluster.shards = {cluster_size.shards}; or ask for {share.shards} first (spotsieve cluster resize)",
    )


class FillReporter:
    """Tells the resolver every second how far this shard is, as long as it only files."""

    def __init__(self, share: Share, settings_digest: bytes, reader: RoundReader, writer: RecordWriter) -> None:
        """settings_digest: 16 bytes  writer: of the shard's partition of `matches`"""
        self._share, self._digest, self._reader, self._writer = share, settings_digest, reader, writer
        self._told = 0.0

    async def tell(self, here: RoundRange) -> None:
        """Say it where it is time. here: an empty range where the state stands. Raises KafkaError."""
        if time.monotonic() - self._told < TELL_SECONDS:
            return
        self._told = time.monotonic()
        at, (_, end) = await self._reader.verdicts_position(), await self._reader.verdicts_span()
        filled = FillProgress(end - at <= NEAR_OFFSETS, at)
        await self._writer.write(
            encode_round_record(KIND_FILL_PROGRESS, self._digest, self._share, here, write_fill_progress(filled))
        )
