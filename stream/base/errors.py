"""The error classes and the exit codes. A class is a decision about what happens next; the text decides nothing.

isolate() runs work on many pages without the pages that make it fail (poison pages).
"""

import enum
import errno
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

EXIT_OK = 0
EXIT_DEFECT = 1
EXIT_SETTING = 2
EXIT_INPUT = 3
EXIT_STATE = 4
EXIT_BROKER = 5
EXIT_DIFFERENT = 6
EXIT_NOT_FOUND = 7
EXIT_SUSPICIOUS = 8
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
"""If a larger share of the records of an input holds no page, the input is reported as misread."""


class SpotsieveError(Exception):
    """An error for people, in one line.

    name: the setting, file or place that is wrong  rule: the violated rule, a clause after the name, such as "must be a
    directory"  value: the wrong value, if there is one  next_step: what to do about it
    """

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
        """Pickle by the fields: errors cross process boundaries, and the constructors of subclasses differ."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[SpotsieveError], args: tuple[object, ...], fields: dict[str, object]) -> SpotsieveError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


_ADVICE: Mapping[int | None, str] = MappingProxyType(
    {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free disk space"),
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable for this user"),
        **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
        errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    }
)


def write_advice(error: OSError) -> str:
    """What to do about a file or directory that cannot be written: a clause for the next step of an error."""
    return _ADVICE.get(error.errno, "check the path and the disk")


class PageError(SpotsieveError):
    """Reject the message: send it to the dead letters with its `reason`, and continue."""

    exit_code = EXIT_INPUT

    def __init__(self, reason: RejectReason, name: str, rule: str, value: object = None, next_step: str = "") -> None:
        super().__init__(name, rule, value, next_step)
        self.reason = reason


class SettingError(SpotsieveError):
    """Stop before any work: a setting is wrong.  others: further mistakes in the same settings"""

    exit_code = EXIT_SETTING
    others: "tuple[SettingError, ...]" = ()


class InputError(SpotsieveError):
    """Stop: an input file cannot be read at all."""

    exit_code = EXIT_INPUT


class NotFoundError(SpotsieveError):
    """Stop: a named page or worker was not found."""

    exit_code = EXIT_NOT_FOUND


class StateError(SpotsieveError):
    """Stop: the state cannot be used in its present condition."""

    exit_code = EXIT_STATE


class StateLockedError(StateError):
    """Wait, or ask the owner for a checkpoint: another process uses the state or its local log."""


class SettingsMismatch(StateError):
    """Stop: the state or the log was written with other settings that change verdicts."""


class CorruptRecord(StateError):
    """Stop: stored bytes violate their checksum or grammar. Names the store, and the key in hex or the offset."""

    def __init__(
        self, store: str, key: bytes | int | str, rule: str, next_step: str = "rebuild the state from the log"
    ) -> None:
        place = key.hex() if isinstance(key, bytes) else str(key)
        super().__init__(f"{store}[{place}]", rule, None, next_step)


class DamagedRecord(CorruptRecord):
    """Stop, unless a later record says to skip this one: a record of this log that cannot be read."""


class BrokerTrouble(SpotsieveError):
    """Restart the worker with new clients: waiting can help, but the present clients are unusable."""

    exit_code = EXIT_BROKER


class BrokerError(SpotsieveError):
    """Stop: the broker rejects the request or does not answer, and waiting does not help."""

    exit_code = EXIT_BROKER


Result = TypeVar("Result")

ENVIRONMENT_ERRORS = (SpotsieveError, MemoryError, OSError)
"""Errors of the state, the settings or the machine. They are never blamed on a page: another worker, or this one after
a restart, would not get them, so they must not decide a verdict."""


def isolate(work: Callable[[Collection[int]], Result], pages: int) -> tuple[Result, Mapping[int, Exception]]:
    """The result of the work without the poison pages, and the errors of these pages by row (nearly always none).

    work(rows): does the work on all pages except these rows, and can be called again after an error. The first call
    excludes no rows. After an error the poison pages are found by bisection. If pages fail only in combination, none of
    them can be blamed, and all pages are excluded.

    Raises ENVIRONMENT_ERRORS of any call; then no page is judged. Raises the error of work(all rows), which no page can
    have caused.
    """
    try:
        return work(()), {}
    except ENVIRONMENT_ERRORS:
        raise
    except Exception as error:
        poison = _bisect(work, pages, range(pages), error)
        every = dict.fromkeys(range(pages), error)
    try:
        return work(poison), poison
    except ENVIRONMENT_ERRORS:
        raise
    except Exception:
        return work(every), every


def _bisect(
    work: Callable[[Collection[int]], object], pages: int, rows: range, error: Exception
) -> dict[int, Exception]:
    """The rows whose pages make the work fail, with their errors.  error: the error of the work on all these rows"""
    if len(rows) <= 1:
        return dict.fromkeys(rows, error)
    found = dict[int, Exception]()
    for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        try:
            work({*range(half.start), *range(half.stop, pages)})
        except ENVIRONMENT_ERRORS:
            raise
        except Exception as error_of_half:
            found |= _bisect(work, pages, half, error_of_half)
    return found
