"""Checks that two configurations are the two sides of a migration: what they share, what they must not share."""

from typing import NamedTuple

from aiokafka.errors import KafkaError

from spotsieve.state.identity import check_first_record
from spotsieve.state.log.former import decode_moved, is_former
from spotsieve.state.log.record import LogRecord
from spotsieve.stream.base.errors import DamagedRecord, SettingError, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.load import stored_values
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import administrator, client_options
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topics import check_topics, topic_facts
from spotsieve.stream.service.log.skips import log_records


class OldLog(NamedTuple):
    """What the old log says of itself.

    first: the offset of the first record of ours that it holds  text: the settings that it was begun with
    None where it is of the former record version, which does not say them  digest: of all its records
    judged_as_now: whether this release judges by these settings as the log's workers do
    """

    first: int
    text: str | None
    digest: bytes
    judged_as_now: bool


def check_sides(old: Settings, new: Settings) -> None:
    """Check what both sides must share and what not. Raises SettingError."""
    for name, why in (
        ("kafka.bootstrap_servers", "the new workers go on where the old ones stop"),
        ("kafka.group_id", "the new workers go on at the committed offsets of the group"),
        ("topics.input", "the pages are the same"),
    ):
        section, field = name.split(".")
        theirs, ours = (getattr(getattr(side, section), field) for side in (old, new))
        if theirs != ours:
            raise SettingError(name, f"must be that of the old configuration, {theirs!r}: {why}", ours, "correct it")
    if old.topics.log == new.topics.log:
        raise SettingError(
            "topics.log",
            "must be another one under the new settings: a log belongs to one choice of them",
            new.topics.log,
            "name a new one, in the configuration of --to or with --set topics.log=NAME",
        )
    if old.index.directory.resolve() == new.index.directory.resolve():
        raise SettingError(
            "index.directory",
            "must be another one under the new settings",
            str(new.index.directory),
            "name a new one, in the configuration of --to or with --set index.directory=DIR",
        )


async def check_logs(old: Settings, new: Settings) -> OldLog:
    """Look at the topics of both sides, and at the old log's beginning.

    Raises SettingError, SettingsMismatch, StateError, BrokerError.
    """
    await check_topics(new)
    if old.topics.log not in await topic_facts(old, [old.topics.log]):
        raise SettingError("topics.log", "of the old configuration does not exist", old.topics.log, "see -c")
    found = await _first_moved(old)
    if found is None:
        raise StateError(
            f"log {old.topics.log}", "must hold pages, and is empty", None, "there is nothing to move: just start anew"
        )
    offset, record, former = found
    if former:
        return OldLog(offset, None, record.settings_digest, judged_as_now=False)
    text, stored = verdict_settings_text(old), record.configuration
    if stored is not None and stored != text and stored_values(stored) == stored_values(text):
        return OldLog(offset, stored, record.settings_digest, judged_as_now=False)
    check_first_record(record.settings_digest, stored, text, old.topics.log, offset)
    return OldLog(offset, text, settings_digest(text), judged_as_now=True)


async def _first_moved(old: Settings) -> tuple[int, LogRecord, bool] | None:
    """The first record of ours that the old log holds, its offset, and whether it is of the former version; or None."""
    async for offset, value in log_records(old, 0, None):
        try:
            record = decode_moved(value, old.topics.log, offset)
        except DamagedRecord:
            continue
        if not record.foreign:
            return offset, record, is_former(value)
    return None


async def check_group(new: Settings) -> None:
    """Check that the group has committed offsets of the input: there the new workers go on.

    Raises SettingError, BrokerError.
    """
    try:
        async with administrator(**client_options(new.kafka)) as admin:
            offsets = await admin.list_consumer_group_offsets(new.kafka.group_id)
    except KafkaError as error:
        raise explain_error(error, new, "asking for the committed offsets") from None
    if not any(partition.topic == new.topics.input for partition in offsets):
        raise SettingError(
            "kafka.group_id",
            f"must be the group of the service, and this one has committed nothing of {new.topics.input!r}",
            new.kafka.group_id,
            "correct it: the new workers would not know where to go on",
        )
