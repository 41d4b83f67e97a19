"""Finds the log records that all readers skip, and writes the records that say so (`topics skip-record`).

Every worker stops at a Spotsieve record that it cannot apply, so no worker has applied it. A later record (kind 4)
names its offset. A reader that reaches the damaged record searches the rest of the log for such a record, and continues
after the damaged one. So all readers reach the same state, whenever they read.
"""

from collections.abc import AsyncIterator
from pathlib import Path

from aiokafka import TopicPartition

from spotsieve.state.format.meta import LogIdentity, StateProgress
from spotsieve.state.identity import OtherLogError, check_first_record, check_log_identity, check_settings_digest
from spotsieve.state.log.record import LogRecord, decode, encode_skip, first_of_ours
from spotsieve.stream.base.errors import DamagedRecord, SettingError, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import digest_of_settings, settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.ranges import RangeReader, spans_held
from spotsieve.stream.kafka.topics import check_topics
from spotsieve.stream.service.log.writer import append_records, check_log_topic
from spotsieve.stream.sharding.records.frame import OWN_TOPICS

_STEP = "reading the log"
_ISOLATION = "read_uncommitted"
"""The isolation level of the workers' log consumer."""
_NEXT_STEP = "take the offset from the error message of the worker that stopped"


async def read_skipped_offsets(settings: Settings, after: int) -> set[int]:
    """The offsets that all readers skip, according to the log records from `after` on.

    Raises StateError for a record of a newer release, BrokerError, BrokerTrouble.
    """
    digest, skipped = digest_of_settings(settings), set[int]()
    async for offset, value in log_records(settings, after, None):
        try:
            record = decode(value, settings.topics.log, offset)
        except DamagedRecord:
            continue
        if record.skips is not None and record.settings_digest == digest:
            skipped.add(record.skips)
    return skipped


async def skip_record(settings: Settings, offset: int) -> int:
    """Make all readers of the log skip the record at this offset. Returns the offset of the record that says so.

    Raises SettingError if readers can apply the record or skip it anyway, and if the log does not hold it;
    SettingsMismatch if the log has other settings; StateError for a record of a newer release; BrokerError.
    """
    name, text = settings.topics.log, verdict_settings_text(settings)
    first = await first_record(settings)
    if first is not None:
        at, record = first
        check_first_record(record.settings_digest, record.configuration, text, name, at)
    values = [value async for found, value in log_records(settings, offset, offset + 1) if found == offset]
    if not values:
        raise SettingError("--offset", f"must be the offset of a record in the log {name!r}", offset, _NEXT_STEP)
    try:
        record = decode(values[0], name, offset)
        if not record.foreign and record.configuration is None:
            check_settings_digest(record.settings_digest, settings_digest(text), name, offset)
    except (DamagedRecord, SettingsMismatch):
        offsets = await append_records(settings, [encode_skip(offset, settings_digest(text))], lambda _: None)
        return offsets[0]
    rule = "must name a record at which workers stop; they skip this one anyway, because another program wrote it"
    if not record.foreign:
        rule = "must name a record at which workers stop; this one is valid"
    raise SettingError("--offset", rule, offset, _NEXT_STEP)


def stopped_error(error: StateError, offset: int) -> StateError:
    """The error of a worker that reaches a record which it cannot apply, with the next steps."""
    return StateError(
        error.name,
        error.rule,
        error.value,
        "every worker stops here. Restore the log, or make all its readers skip this record: spotsieve topics "
        f"skip-record --offset {offset} -c FILE, with the configuration of the workers",
    )


async def first_record(settings: Settings) -> tuple[int, LogRecord] | None:
    """Offset and value of the first Spotsieve record in the log, or None. Raises BrokerError, BrokerTrouble."""
    async for record in log_records(settings, 0, None):
        found = first_of_ours([record], settings.topics.log)
        if found is not None:
            return found
    return None


async def first_identity(settings: Settings) -> LogIdentity | None:
    """The log that its first record names; None without a first record. Raises BrokerError, BrokerTrouble."""
    first = await first_record(settings)
    return None if first is None else first[1].log


async def check_log_of_state(
    settings: Settings, directory: Path, stored: LogIdentity | None, progress: StateProgress
) -> None:
    """Check that the log topic is the log of a state, and continues it, before another program writes to the log.

    stored: the identity in the state  Raises SettingError, StateError, BrokerError, BrokerTrouble.
    """
    await check_topics(settings)
    found = await first_identity(settings)
    if found is not None:
        check_log_identity(directory, stored, found, settings.topics.log)
    await check_log_topic(settings, progress.position, progress.last_record, progress.pages_applied)


async def log_identity(settings: Settings, place: str) -> LogIdentity | None:
    """The identity of the log, for a reader of records at `place`; None if the log has lost its first record.

    Raises StateError if the log is empty, BrokerError, BrokerTrouble.
    """
    first = await first_record(settings)
    if first is None and not (await log_span(settings))[0]:
        raise OtherLogError(
            f"topics.log {settings.topics.log!r}",
            f"is empty, although {place} holds records of rounds, which are about another log",
            None,
            OWN_TOPICS,
        )
    return None if first is None else first[1].log


async def log_span(settings: Settings) -> tuple[int, int]:
    """The first offset in the log and its end offset. Raises BrokerError, BrokerTrouble."""
    partition = TopicPartition(settings.topics.log, 0)
    return (await spans_held(settings, [partition], _STEP))[partition]


async def log_records(settings: Settings, first: int, end: int | None) -> AsyncIterator[tuple[int, bytes]]:
    """Yield (offset, value) of the log records from `first` up to `end`, or up to the present end if it is None.

    Raises BrokerError, BrokerTrouble.
    """
    partition = TopicPartition(settings.topics.log, 0)
    begins, ends = await log_span(settings)
    span = (max(first, begins), min(ends if end is None else end, ends))
    async with RangeReader(settings, {partition: span}, _STEP, _ISOLATION) as reader:
        async for fetched in reader.batches():
            for record in fetched.get(partition, ()):
                yield record.offset, record.value or b""
