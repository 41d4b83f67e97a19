"""Finds where a shard goes on in `verdicts`: behind the outcome that its state was last filed by."""

from spotsieve.state.index import OutcomeRef as FiledBy
from spotsieve.stream.errors import StateError
from spotsieve.stream.service.roles.told import MAKE_ANEW, RoundMessage, RoundReader


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
