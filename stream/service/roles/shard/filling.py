"""Says whether a shard is one of those that answer, or are to, and tells how far one has come that fills itself."""

import time

from spotsieve.stream.errors import StateError
from spotsieve.stream.service.log.record_writer import RecordWriter
from spotsieve.stream.service.roles.role import Over
from spotsieve.stream.service.roles.told import RoundReader
from spotsieve.stream.sharding.records.frame import KIND_FILLED, Range, encode_told
from spotsieve.stream.sharding.records.resize import write_filled
from spotsieve.stream.sharding.resizing import Filled, Sizing
from spotsieve.stream.sharding.shares import Share

TELL_SECONDS = 1.0
NEAR_OFFSETS = 16
"""A shard is ready when it is behind the end of `verdicts` by no more than this: a round takes four or more."""


def check_wanted(share: Share, sizing: Sizing, is_new: bool) -> None:
    """Raise Over for a shard that others have replaced, and StateError for one that nobody has asked for.

    sizing: with shards = 0 while no round was named  is_new: it has filed nothing and heard of no resize
    """
    if not sizing.shards or share.shards in (sizing.shards, sizing.asked):
        return
    if not is_new:
        raise Over(
            f"shard {share.number} of {share.shards} is needed no longer: the number of shards is {sizing.shards}; its "
            "state directory may go"
        )
    asked = f", and {sizing.asked} are asked for" if sizing.asked else ""
    raise StateError(
        f"shard {share.number} of {share.shards}",
        f"must be one of those that answer: there are {sizing.shards}{asked}",
        None,
        f"set cluster.shards = {sizing.shards}; or ask for {share.shards} first (spotsieve cluster resize)",
    )


class Filling:
    """Tells the resolver every second how far this shard is, as long as it only files."""

    def __init__(self, share: Share, settings_digest: bytes, reader: RoundReader, writer: RecordWriter) -> None:
        """settings_digest: 16 bytes  writer: of the shard's partition of `matches`"""
        self._share, self._digest, self._reader, self._writer = share, settings_digest, reader, writer
        self._told = 0.0

    async def tell(self, here: Range) -> None:
        """Say it where it is time. here: an empty range where the state stands. Raises KafkaError."""
        if time.monotonic() - self._told < TELL_SECONDS:
            return
        self._told = time.monotonic()
        at, (_, end) = await self._reader.verdicts_position(), await self._reader.verdicts_span()
        filled = Filled(end - at <= NEAR_OFFSETS, at)
        await self._writer.write(encode_told(KIND_FILLED, self._digest, self._share, here, write_filled(filled)))
