"""Defines the error classes. Each class is a decision about what happens next; no text of an error decides anything."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

EXIT_OK = 0
EXIT_DEFECT = 1
EXIT_SETTING = 2
EXIT_INPUT = 3
EXIT_STATE = 4
EXIT_BROKER = 5
EXIT_DIFFERENT = 6
EXIT_NOT_FOUND = 7
EXIT_INTERRUPTED = 130


class RejectReason(enum.StrEnum):
    """Why a message did not become a page. The value is the metric label and the header text. See REJECTIONS."""

    NOT_JSON = "not_json"
    NO_BODY = "no_body"
    FIELD_TYPE = "field_type"
    BAD_BASE64 = "bad_base64"
    BAD_TIME = "bad_time"
    NO_URL = "no_url"
    TRUNCATED = "truncated"
    BAD_WARC = "bad_warc"
    TOO_LARGE = "too_large"


class Rejection(NamedTuple):
    """The published facts of a reject reason.

    meaning: a clause about the message, for a person  setting: the setting to check where most messages are rejected
    """

    meaning: str
    setting: str = "[input]"


REJECTIONS: Mapping[RejectReason, Rejection] = MappingProxyType(
    {
        RejectReason.NOT_JSON: Rejection(
            "it is not a JSON object in UTF-8", "input.format (html: the message is the page itself)"
        ),
        RejectReason.NO_BODY: Rejection("it has no body at the configured field", "input.fields.body"),
        RejectReason.FIELD_TYPE: Rejection("a field holds a value of the wrong type"),
        RejectReason.BAD_BASE64: Rejection("its body is not valid base64", "input.body_encoding"),
        RejectReason.BAD_TIME: Rejection("its fetch time cannot be read", "input.fields.fetched_at"),
        RejectReason.NO_URL: Rejection("it has no URL", "input.fields.url, or input.url_from for format html"),
        RejectReason.TRUNCATED: Rejection("it ends before its declared length, or was cut by the crawler"),
        RejectReason.BAD_WARC: Rejection("its WARC or HTTP header violates the format"),
        RejectReason.TOO_LARGE: Rejection("it is larger than a record or a message of the output may be"),
    }
)
"""The reasons in the order of documents: the advice of the summary line and docs/guide.md derive from it."""


MOST_REJECTED_SHARE = 1 / 10
"""Where more of the records of an input are no pages, people are told that it is misread."""


class SpotsieveError(Exception):
    """An error for a person: what is wrong with which value, by which rule, and what to do next."""

    exit_code = EXIT_DEFECT

    def __init__(self, name: str, rule: str, value: object = None, next_step: str = "") -> None:
        self.name = name
        self.rule = rule
        self.value = value
        self.next_step = next_step
        got = "" if value is None else f", got {value!r}"
        then = f"; {next_step}" if next_step else ""
        super().__init__(f"{name} {rule}{got}{then}")

    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle keeps: an error may cross to another process, and subclasses take other arguments."""
        return _same_error, (type(self), self.args, self.__dict__)


def _same_error(kind: type[SpotsieveError], args: tuple[object, ...], fields: dict[str, object]) -> SpotsieveError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class PageError(SpotsieveError):
    """Reject the message: it goes to the dead letters with its `reason`, and the stream goes on."""

    exit_code = EXIT_INPUT

    def __init__(self, reason: RejectReason, name: str, rule: str, value: object = None, next_step: str = "") -> None:
        super().__init__(name, rule, value, next_step)
        self.reason = reason


class SettingError(SpotsieveError):
    """Stop before any work: a setting is wrong. others: what else was found to be wrong at the same time"""

    exit_code = EXIT_SETTING
    others: "tuple[SettingError, ...]" = ()


class InputError(SpotsieveError):
    """Stop: an input file cannot be read at all."""

    exit_code = EXIT_INPUT


class NotFoundError(SpotsieveError):
    """Stop: what a person named is not there."""

    exit_code = EXIT_NOT_FOUND


class StateError(SpotsieveError):
    """Stop: the state cannot be used as it is."""

    exit_code = EXIT_STATE


class StateLockedError(StateError):
    """Ask the owner or wait: another process works on the state, or on its local log."""


class SettingsMismatch(StateError):
    """Stop: the state or the log was written with other settings that change verdicts."""


class CorruptRecord(StateError):
    """Stop: stored bytes fail their checksum or grammar. It names the store and the key in hex, or the offset."""

    def __init__(
        self, store: str, key: bytes | int | str, rule: str, next_step: str = "rebuild the state from the log"
    ) -> None:
        place = key.hex() if isinstance(key, bytes) else str(key)
        super().__init__(f"{store}[{place}]", rule, None, next_step)


class DamagedRecord(CorruptRecord):
    """Stop, unless the log says that its readers pass over this record: it is of ours and cannot be read."""


class BrokerTrouble(SpotsieveError):
    """Begin the worker anew, with new clients: waiting may help, but the present clients are of no more use."""

    exit_code = EXIT_BROKER


class BrokerError(SpotsieveError):
    """Stop: the broker refuses or does not answer, and waiting does not help."""

    exit_code = EXIT_BROKER
