"""Checks that a state belongs to a configuration and a log, and that the log can continue the state."""

from collections.abc import Sequence
from pathlib import Path

from spotsieve.state.format.meta import LOCAL, STATE_FORMAT, Identity, LogIdentity, StatePart
from spotsieve.stream.base.errors import SettingError, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import describe_difference, settings_digest


class OtherLogError(StateError):
    """Stop: a record is about the pages of another log. Another service may need it, so nothing is deleted."""


_ONE_CONFIGURATION = (
    "run all workers of one log with the same verdict settings ([verdicts] in `spotsieve config example`), carry the "
    "state over to the new settings (spotsieve migrate), or begin a new log (topics.log) and a new state directory"
)


def check_identity(
    directory: str, stored: Identity, settings_text: str, log_name: str, part: StatePart | None = None
) -> None:
    """Check that a state can continue with these settings, this log and this part.

    stored: the identity in the state  settings_text: canonical text of the settings that change verdicts
    part: the expected shard; None: all entries
    Raises SettingsMismatch, which names each setting that differs, or StateError for another format, part or log.
    """
    check_format(directory, stored)
    if stored.settings != settings_text:
        raise SettingsMismatch(
            f"state {directory}",
            f"was written with other settings that change verdicts: "
            f"{describe_difference(stored.settings, settings_text, 'state')}",
            None,
            "restore these settings; carry the state over to the new ones (spotsieve migrate); or start with another "
            "index.directory (--state) and another log (topics.log)",
        )
    if stored.part != part:
        raise StateError(
            f"state {directory}",
            f"must hold {_part_text(part)}, and holds {_part_text(stored.part)}",
            None,
            "choose another index.directory (--state), which is then built from the log and the verdicts; or set "
            "cluster.shards and --shard to their former values",
        )
    if stored.log != log_name:
        raise StateError(
            f"state {directory}",
            f"must follow the log it was built from, {stored.log!r}",
            log_name,
            "configure that log, or choose another index.directory to build a state from this one",
        )


def check_log_identity(directory: Path | str, stored: LogIdentity | None, found: LogIdentity, log_name: str) -> None:
    """Check that a log is the one that a state was built from. stored: None for a state that has read no log yet

    found: the identity in the first record of the log  Raises StateError, which names both logs.
    """
    if stored is None or stored == found:
        return
    what = f"topic {log_name!r}" if log_name != LOCAL else "file log of its directory"
    if stored.id == found.id:
        raise StateError(
            f"state {directory}",
            f"has the salt {stored.salt:016x}, and its log {stored} ({what}) has the salt {found.salt:016x}",
            None,
            "restore the state from a snapshot (spotsieve state restore)",
        )
    raise StateError(
        f"state {directory}",
        f"must follow the log that it was built from, which is {stored}; the {what} holds another log, {found}",
        None,
        "configure the topic of that log (topics.log), or restore that log; or choose another index.directory "
        "(--state), which is then built from this log",
    )


def check_log_of_snapshots(directory: Path | str, stored: LogIdentity | None, found: LogIdentity | None) -> None:
    """Check that snapshots of all shards are of the log of the service, before new shards begin from them.

    directory: one of the snapshots  stored: the identity in it  found: that of the log; None: not known, not compared
    Raises StateError.
    """
    if found is not None and stored != found:
        raise StateError(
            f"snapshot {directory}",
            f"must be of {_log_text(found)}, which this service reads, and is of {_log_text(stored)}",
            None,
            "take snapshots of all present shards of this service, and name their directory in cluster.snapshots",
        )


def check_salt(wanted: int | None, found: LogIdentity | None, place: str) -> None:
    """Check that a state or log has the salt of index.salt_from. wanted: None if the setting is empty

    place: the state or log, for the message  Raises SettingError.
    """
    if wanted is not None and found is not None and found.salt != wanted:
        raise SettingError(
            "index.salt_from",
            f"must name a state with the salt of {place}, which exists and has {found.salt:016x}",
            f"{wanted:016x}",
            "leave out --salt-from (index.salt_from), or begin a new state and a new log",
        )


def check_whole(directory: str, stored: Identity) -> None:
    """Check that a state holds all entries, not the part of a shard. Raises StateError."""
    if stored.part is not None:
        raise StateError(
            f"state {directory}",
            f"must hold {_part_text(None)}, and holds {_part_text(stored.part)}",
            None,
            "make one state of the directories of all shards (spotsieve state merge), and name that",
        )


def check_parts(states: Sequence[tuple[str, Identity]]) -> None:
    """Check that states belong to all shards of one service, in any order.

    states: (directory, identity) of each. Raises StateError.
    """
    given = "name the state directory of each shard once"
    first_directory, first = states[0]
    found = dict[StatePart, str]()
    for directory, stored in states:
        check_format(directory, stored)
        if stored.part is None:
            raise StateError(
                f"state {directory}", f"must hold the part of a shard, and holds {_part_text(None)}", None, given
            )
        if stored.log_identity != first.log_identity:
            raise StateError(
                f"state {directory}",
                f"must be of the log that {first_directory} is of, {_log_text(first.log_identity)}, and is of "
                f"{_log_text(stored.log_identity)}: block identities of two logs differ, because each has its own salt",
                None,
                "name the shards of one service",
            )
        if (stored.settings, stored.log) != (first.settings, first.log):
            raise StateError(
                f"state {directory}",
                f"must be of the log and the settings of verdicts that {first_directory} is of",
                None,
                "name the shards of one service",
            )
        if stored.part in found:
            raise StateError(
                f"state {directory}", f"must be another shard than {found[stored.part]}", str(stored.part), given
            )
        found[stored.part] = directory
    shards = {part.shards for part in found}
    wanted = {StatePart(number, max(shards)) for number in range(max(shards))}
    if set(found) != wanted:
        missing = ", ".join(map(str, sorted(wanted - set(found)))) or "none is missing"
        raise StateError(
            f"state {first_directory}",
            f"must be given with those of all {max(shards)} shards, and these are {', '.join(map(str, sorted(found)))}",
            None,
            f"{given}; missing: {missing}",
        )


def _log_text(identity: LogIdentity | None) -> str:
    return "no log yet" if identity is None else f"the log {identity} (salt {identity.salt:016x})"


def _part_text(part: StatePart | None) -> str:
    return "all entries" if part is None else f"the part of {part}"


def check_format(directory: str, stored: Identity) -> None:
    """Check that this release reads the format of a state. Raises StateError."""
    if stored.state_format != STATE_FORMAT:
        raise StateError(
            f"state {directory}",
            f"must have format {STATE_FORMAT}",
            stored.state_format,
            "use the release that wrote it, or start with another index.directory (--state) and a log of this release",
        )


def check_service(directory: Path, stored: Identity, settings_text: str, log_name: str) -> None:
    """Check that a configuration belongs to the service that owns a state. stored: the identity in the state

    Raises SettingError for another log topic, SettingsMismatch for other settings that change verdicts.
    """
    its_configuration = "give the configuration of the service that owns it (-c)"
    if stored.log != log_name:
        raise SettingError(
            "topics.log",
            f"must be the log that the state {directory} follows, {stored.log!r}",
            log_name,
            its_configuration,
        )
    if stored.settings != settings_text:
        raise SettingsMismatch(
            f"state {directory}",
            "was written with other settings that change verdicts: "
            f"{describe_difference(stored.settings, settings_text, 'state')}",
            None,
            its_configuration,
        )


def check_settings_digest(found: bytes, configured: bytes, log_name: str, offset: int) -> None:
    """Check that a log record was signed with the configured settings. Raises SettingsMismatch."""
    if found != configured:
        raise SettingsMismatch(
            f"log {log_name}[{offset}]",
            f"was signed with other settings that change verdicts "
            f"(digest {found.hex()}, configured {configured.hex()})",
            None,
            _ONE_CONFIGURATION,
        )


def check_first_record(found: bytes, configuration: str | None, settings_text: str, log_name: str, offset: int) -> None:
    """Check that the first record of a log has the configured settings.

    found: the settings digest in that record  configuration: its settings text, None for other kinds of record
    Raises SettingsMismatch, which names each setting that differs if the record has the text.
    """
    if configuration is None or configuration == settings_text:
        check_settings_digest(found, settings_digest(settings_text), log_name, offset)
        return
    raise SettingsMismatch(
        f"log {log_name}[{offset}]",
        "was begun with other settings that change verdicts: "
        f"{describe_difference(configuration, settings_text, 'log')}",
        None,
        _ONE_CONFIGURATION,
    )


def closed_log_error(log_name: str, offset: int, into: str) -> StateError:
    """Return the error for a reader that has reached the record that closes a log."""
    return StateError(
        f"log {log_name}[{offset}]",
        f"ends here and goes on in the log {into!r} (spotsieve migrate)",
        None,
        "start every worker with the configuration of that log",
    )


def unopened_log_error(log_name: str) -> StateError:
    """Return the error for a writer to a log whose migration has begun and not ended."""
    return StateError(
        f"log {log_name}",
        "must be whole, and spotsieve migrate is filling it from another log, or was interrupted",
        None,
        "start the same spotsieve migrate again: it continues where it stopped",
    )


def check_last_record(log_name: str, position: int, applied: int, found: int | None) -> None:
    """Check that the log still has, before the state's position, the record that the state applied there.

    applied, found: checksums of the record in the state and in the log. found is None if the log no longer has that
    record: then nothing is compared.
    Raises StateError for another record: the log was recreated, or lost its end, and was filled again.
    """
    if position and found is not None and found != applied:
        raise StateError(
            f"log {log_name}[{position - 1}]",
            f"must be the record that the state applied there (checksum {applied:016x}), but is another one "
            f"({found:016x}): the log was recreated, or lost its end, and was filled again",
            None,
            _bring_back(
                log_name,
                "restore the log that this state was built from; or delete the index of the state (DIR/index) to "
                "rebuild it from this log, which forgets the pages of the former log",
            ),
        )


def _bring_back(log_name: str, of_topic: str) -> str:
    """Return the hint for a missing log. of_topic: the hint if the log is a topic"""
    if log_name != LOCAL:
        return of_topic
    return (
        "restore the file log of this state from a copy, or restore the state from a snapshot (spotsieve state "
        "restore). Keep the index: without that file nothing rebuilds it"
    )


def check_log_range(log_name: str, position: int, first: int, end: int, pages_applied: int = 0) -> None:
    """Check that a log with the offsets first..end - 1 can continue a state whose next offset is `position`.

    pages_applied: number of applied pages of the record at the position
    Raises StateError if the log ends before that position, or begins after it.
    """
    applied_end = position + (pages_applied > 0)
    if applied_end > end:
        raise StateError(
            f"log {log_name}",
            f"must reach the state's position {applied_end}, but ends at {end}",
            None,
            _bring_back(
                log_name,
                "the log is not the one this state was built from, or lost its end: delete the index of the state "
                "(DIR/index) to rebuild it from the log",
            ),
        )
    if position < first:
        raise StateError(
            f"log {log_name}",
            f"must hold everything from the state's position on, but offsets {position}..{first - 1} are gone",
            None,
            "restore a snapshot whose position the log still holds (spotsieve state restore), or the missing part of "
            "the log; or start with another log (topics.log) and another state, which forgets earlier pages",
        )
