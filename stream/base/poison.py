"""Isolation of poison pages: work on many pages continues without the pages that make it fail."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from spotsieve.stream.base.errors import SpotsieveError

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
