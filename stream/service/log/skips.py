"""Finds the records of the log that all readers pass over, and writes down that they do (`topics skip-record`).

Every worker stops at a record of ours that it cannot apply, so nobody has applied it. A record behind it (kind 4) names
its offset. A reader that comes to the broken record looks for that name in all that follows, and goes on behind it; so
all readers reach the same state, whenever they come.
"""

from collections.abc import AsyncIterator

from aiokafka import TopicPartition

from spotsieve.state.identity import check_first_record, check_settings_digest
from spotsieve.state.log.record import LogRecord, decode, encode_skip, first_of_ours
from spotsieve.stream.base.errors import DamagedRecord, SettingError, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.ranges import RangeReader
from spotsieve.stream.service.log.writer import append_records

_STEP = "reading the log"
_ISOLATION = "read_uncommitted"
"""As workers read the log."""
_LOOK = "take the offset from the message with which the worker stopped"


async def read_skipped_offsets(settings: Settings, after: int) -> set[int]:
    """The offsets that records of the log from this offset on tell all readers to pass over.

    Raises StateError for a record of a newer release, BrokerError, BrokerTrouble.
    """
    digest, found = settings_digest(verdict_settings_text(settings)), set[int]()
    async for offset, value in log_records(settings, after, None):
        try:
            record = decode(value, settings.topics.log, offset)
        except DamagedRecord:
            continue
        if record.skips is not None and record.settings_digest == digest:
            found.add(record.skips)
    return found


async def skip_record(settings: Settings, offset: int) -> int:
    """Tell all readers of the log to pass over the record at this offset; -> the offset of the record that says so.

    Raises SettingError for a record that readers can apply or pass over anyway, and for one that is not there;
    SettingsMismatch where the log is of other settings; StateError for a record of a newer release; BrokerError.
    """
    name, text = settings.topics.log, verdict_settings_text(settings)
    first = await first_record(settings)
    if first is not None:
        at, record = first
        check_first_record(record.settings_digest, record.configuration, text, name, at)
    values = [value async for found, value in log_records(settings, offset, offset + 1) if found == offset]
    if not values:
        raise SettingError("--offset", f"must be that of a record that the log {name!r} holds", offset, _LOOK)
    try:
        record = decode(values[0], name, offset)
        if not record.foreign and record.configuration is None:
            check_settings_digest(record.settings_digest, settings_digest(text), name, offset)
    except (DamagedRecord, SettingsMismatch):
        said = await append_records(settings, [encode_skip(offset, settings_digest(text))], lambda _: None)
        return said[0]
    rule = "must name a record that workers stop at, and they pass over this one: it is none of ours"
    if not record.foreign:
        rule = "must name a record that workers stop at, and this one is sound"
    raise SettingError("--offset", rule, offset, _LOOK)


def stopped_error(error: StateError, offset: int) -> StateError:
    """The error of a worker that comes to a record which it cannot apply, with the way out."""
    return StateError(
        error.name,
        error.rule,
        error.value,
        "every worker stops here: restore the log; or make all of its readers pass over this record, with the "
        f"configuration of the workers: spotsieve topics skip-record --offset {offset} -c FILE",
    )


async def first_record(settings: Settings) -> tuple[int, LogRecord] | None:
    """The first record of ours that the log holds, and its offset; None where there is none. Raises as log_records."""
    async for record in log_records(settings, 0, None):
        found = first_of_ours([record], settings.topics.log)
        if found is not None:
            return found
    return None


async def log_span(settings: Settings) -> tuple[int, int]:
    """The first offset that the log holds, and the one after the last. Raises BrokerError, BrokerTrouble."""
    partition = TopicPartition(settings.topics.log, 0)
    async with RangeReader(settings, {}, _STEP) as asking:
        return (await asking.held([partition]))[partition]


async def log_records(settings: Settings, first: int, end: int | None) -> AsyncIterator[tuple[int, bytes]]:
    """What the log holds from an offset on, up to another one or its present end, as (offset, bytes).

    Raises BrokerError, BrokerTrouble.
    """
    partition = TopicPartition(settings.topics.log, 0)
    begins, ends = await log_span(settings)
    span = (max(first, begins), min(ends if end is None else end, ends))
    async with RangeReader(settings, {partition: span}, _STEP, _ISOLATION) as reader:
        async for fetched in reader.batches():
            for record in fetched.get(partition, ()):
                yield record.offset, record.value or b""
