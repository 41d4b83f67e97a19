"""Says whether a shard is one of those that answer, or are to, and tells how far one has come that fills itself.

Finds where a shard goes on in `verdicts`: behind the outcome that its state was last filed by.
"""

import time

from spotsieve.state.index import OutcomeRef as FiledBy
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.roles.role import RoleEnd
from spotsieve.stream.service.roles.round_messages import MAKE_ANEW, RoundMessage, RoundReader
from spotsieve.stream.sharding.records.frame import KIND_FILL_PROGRESS, RoundRange, encode_round_record
from spotsieve.stream.sharding.records.resolver import write_fill_progress
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Share

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
            f"shard {share.number} of {share.shards} is needed no longer: the number of shards is "
            f"{cluster_size.shards}; its state directory may go"
        )
    asked = f", and {cluster_size.asked} are asked for" if cluster_size.asked else ""
    raise StateError(
        f"shard {share.number} of {share.shards}",
        f"must be one of those that answer: there are {cluster_size.shards}{asked}",
        None,
        f"set cluster.shards = {cluster_size.shards}; or ask for {share.shards} first (spotsieve shards resize)",
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


async def go_on(reader: RoundReader, indexed_by: FiledBy | None, topic: str, begin: int, end: int) -> None:
    """Seek the reader there, and check that this outcome is still the one.

    indexed_by: None for a state without rounds  begin, end: of `verdicts`
    Raises StateError where `verdicts` was made anew or no longer holds what the state needs.
    """
    if indexed_by is None:
        if begin:
            raise StateError(
                f"topics.verdicts {topic!r}",
                f"must hold all verdicts for a new shard, and begins at {begin}",
                None,
                MAKE_ANEW,
            )
        reader.seek_verdicts(0)
        return
    found: RoundMessage | None = None
    if begin <= indexed_by.offset < end:
        reader.seek_verdicts(indexed_by.offset)
        # Made anew, the topic may have nothing from there on but the marker of a transaction, which is no record.
        while found is None and await reader.verdicts_position() < end:
            found = next(iter(await reader.fetch()), None)
    if found is None or (found.offset, found.checksum) != indexed_by:
        raise StateError(
            f"topics.verdicts {topic!r}",
            f"must hold the outcome {indexed_by.offset} that this shard was filed by, and was made anew or lost it",
            None,
            f"bring the topic back; or {MAKE_ANEW}",
        )
    reader.seek_verdicts(indexed_by.offset + 1)
