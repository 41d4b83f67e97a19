"""Checks that two configurations fit together for a migration, and reads the start of the old log."""

from typing import NamedTuple

from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import LogIdentity, draw_log_identity
from spotsieve.state.identity import check_first_record, check_salt
from spotsieve.state.log.record import LogRecord, decode
from spotsieve.state.still.reading import salt_from
from spotsieve.stream.base.errors import DamagedRecord, SettingError, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.load import stored_values
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import administrator, client_options
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topics import check_topics, topic_facts
from spotsieve.stream.service.log.skips import log_records


class OldLog(NamedTuple):
    """Facts about the old log.

    first: offset of the first record of ours  text: canonical settings of the log
    digest: settings digest of its records  checksum: of its first record
    log: its identity; None if it has lost its first record
    judged_as_now: whether this release judges with these settings like the workers of the log
    """

    first: int
    text: str
    digest: bytes
    checksum: int
    judged_as_now: bool
    log: LogIdentity | None


def new_log_identity(
    old: LogIdentity | None, new: LogIdentity | None, settings: Settings, signs_again: bool
) -> LogIdentity:
    """The identity of the new log: of an earlier run of the migration, or a new id with the salt of the old log.

    Moved signatures keep their salt, and pages that are signed later must compare with them.
    old, new: identity of the old log, and of the new one or its state  signs_again: whether no signature is moved
    Raises SettingError if the salt is unknown, or differs from the salt of index.salt_from.
    """
    wanted = salt_from(settings.index)
    check_salt(wanted, old, "the old log")
    salt = wanted if old is None else old.salt
    if salt is None and new is None and not signs_again:
        raise SettingError(
            "index.salt_from",
            "must name a state of the old service, because its log has lost its first record, which holds the salt",
            None,
            "set it to the former index.directory, or to a snapshot: --set index.salt_from=DIR",
        )
    check_salt(salt, new, "the new log")
    return draw_log_identity(salt) if new is None else new


def check_sides(old: Settings, new: Settings) -> None:
    """Check the settings that both sides must share, and those that must differ. Raises SettingError."""
    for name, why in (
        ("kafka.bootstrap_servers", "the new workers continue where the old ones stop"),
        ("kafka.group_id", "the new workers continue at the committed offsets of the group"),
        ("topics.input", "both sides judge the same pages"),
    ):
        section, field = name.split(".")
        old_value, new_value = (getattr(getattr(side, section), field) for side in (old, new))
        if old_value != new_value:
            rule = f"must be {old_value!r}, as in the old configuration: {why}"
            raise SettingError(name, rule, new_value, "correct it")
    if old.topics.log == new.topics.log:
        raise SettingError(
            "topics.log",
            "must differ from the old configuration: a log belongs to one set of settings",
            new.topics.log,
            "name a new one, in the configuration of --to or with --set topics.log=NAME",
        )
    if old.index.directory.resolve() == new.index.directory.resolve():
        raise SettingError(
            "index.directory",
            "must differ from the old configuration",
            str(new.index.directory),
            "name a new one, in the configuration of --to or with --set index.directory=DIR",
        )


async def check_logs(old: Settings, new: Settings) -> OldLog:
    """Check the topics of both sides, and read the first record of the old log.

    Raises SettingError, SettingsMismatch, StateError, BrokerError.
    """
    await check_topics(new)
    if old.topics.log not in await topic_facts(old, [old.topics.log]):
        raise SettingError("topics.log", "of the old configuration does not exist", old.topics.log, "check -c")
    found = await _first_moved(old)
    if found is None:
        raise StateError(
            f"log {old.topics.log}",
            "is empty",
            None,
            "there is nothing to migrate: start the workers with the new settings",
        )
    offset, record = found
    text, stored = verdict_settings_text(old), record.configuration
    if stored is not None and stored != text and stored_values(stored) == stored_values(text):
        return OldLog(offset, stored, record.settings_digest, record.checksum, judged_as_now=False, log=record.log)
    check_first_record(record.settings_digest, stored, text, old.topics.log, offset)
    return OldLog(offset, text, settings_digest(text), record.checksum, judged_as_now=True, log=record.log)


async def _first_moved(old: Settings) -> tuple[int, LogRecord] | None:
    """The offset of our first record in the old log, and the record; None if it has none."""
    async for offset, value in log_records(old, 0, None):
        try:
            record = decode(value, old.topics.log, offset)
        except DamagedRecord:
            continue
        if not record.foreign:
            return offset, record
    return None


async def check_group(new: Settings) -> None:
    """Check that the group has committed offsets of the input, where the new workers continue.

    Raises SettingError, BrokerError.
    """
    try:
        async with administrator(**client_options(new.kafka)) as admin:
            offsets = await admin.list_consumer_group_offsets(new.kafka.group_id)
    except KafkaError as error:
        raise explain_error(error, new, "reading the committed offsets") from None
    if not any(partition.topic == new.topics.input for partition in offsets):
        raise SettingError(
            "kafka.group_id",
            f"must be the group of the service; this group has no committed offset of {new.topics.input!r}",
            new.kafka.group_id,
            "correct it; otherwise the new workers would not know where to continue",
        )
