"""Start of a shard: checks whether it is needed, finds its position in `verdicts`, and reports its fill progress."""

import time

from spotsieve.state.index import OutcomeRef
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.roles.role import RoleEnd
from spotsieve.stream.service.roles.round_messages import MAKE_ANEW, RoundMessage, RoundReader
from spotsieve.stream.sharding.records.frame import KIND_FILL_PROGRESS, RoundRange, encode_round_record
from spotsieve.stream.sharding.records.resolver import write_fill_progress
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Share

TELL_SECONDS = 1.0
NEAR_OFFSETS = 16
"""A shard is ready if at most this many offsets are left in `verdicts`. A round takes four offsets or more."""


def check_wanted(share: Share, cluster_size: ClusterSize, is_new: bool) -> None:
    """Raise RoleEnd for a shard that a resize has replaced, and StateError for a shard that was never requested.

    cluster_size: shards is 0 before the first round
    is_new: the shard has indexed nothing and has read no resize
    """
    if not cluster_size.shards or share.shards in (cluster_size.shards, cluster_size.asked):
        return
    if not is_new:
        raise RoleEnd(
            f"shard {share.number} of {share.shards} is not needed any more, because the number of shards is now "
            f"{cluster_size.shards}; delete its state directory"
        )
    asked = f", and {cluster_size.asked} are requested" if cluster_size.asked else ""
    raise StateError(
        f"shard {share.number} of {share.shards}",
        f"does not belong to this cluster: there are {cluster_size.shards} shards{asked}",
        None,
        f"set cluster.shards = {cluster_size.shards}; or request {share.shards} first (spotsieve shards resize)",
    )


class FillReporter:
    """Reports the progress of a filling shard to the resolver every second."""

    def __init__(self, share: Share, settings_digest: bytes, reader: RoundReader, writer: RecordWriter) -> None:
        """settings_digest: 16 bytes. writer: writes to the shard's partition of `matches`"""
        self._share, self._digest, self._reader, self._writer = share, settings_digest, reader, writer
        self._told = 0.0

    async def tell(self, here: RoundRange) -> None:
        """Report the progress if a second has passed. Raises KafkaError.

        here: an empty range at the state's position
        """
        if time.monotonic() - self._told < TELL_SECONDS:
            return
        self._told = time.monotonic()
        at, (_, end) = await self._reader.verdicts_position(), await self._reader.verdicts_span()
        filled = FillProgress(end - at <= NEAR_OFFSETS, at)
        await self._writer.write(
            encode_round_record(
                KIND_FILL_PROGRESS,
                self._digest,
                self._share,
                here,
                write_fill_progress(filled),
                await self._reader.identify(),
            )
        )


async def go_on(reader: RoundReader, indexed_by: OutcomeRef | None, topic: str, begin: int, end: int) -> None:
    """Seek the reader past the outcome that the state was last indexed by, and check that outcome.

    indexed_by: None for a state without rounds
    begin, end: offsets of `verdicts`
    Raises StateError if `verdicts` was recreated or no longer holds the records that the state needs.
    """
    if indexed_by is None:
        if begin:
            raise StateError(
                f"topics.verdicts {topic!r}",
                f"must hold all verdicts for a new shard, but begins at offset {begin}",
                None,
                MAKE_ANEW,
            )
        reader.seek_verdicts(0)
        return
    found: RoundMessage | None = None
    if begin <= indexed_by.offset < end:
        reader.seek_verdicts(indexed_by.offset)
        # A recreated topic may have only a transaction marker from there on, which is not a record.
        while found is None and await reader.verdicts_position() < end:
            found = next(iter(await reader.fetch()), None)
    if found is None or (found.offset, found.checksum) != indexed_by:
        raise StateError(
            f"topics.verdicts {topic!r}",
            f"does not hold outcome {indexed_by.offset}, by which this shard was indexed last: the topic was "
            "recreated or lost it",
            None,
            f"restore the topic; or {MAKE_ANEW}",
        )
    reader.seek_verdicts(indexed_by.offset + 1)
