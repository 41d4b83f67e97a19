"""Isolation of poison pages: work on many pages goes on without the pages that break it."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from spotsieve.stream.base.errors import SpotsieveError

Result = TypeVar("Result")

ENVIRONMENT_ERRORS = (SpotsieveError, MemoryError, OSError)
"""Errors of the state, the settings or the machine. They are never blamed on a page: another worker, or the same one
after a restart, would not meet them, so they must not decide a verdict."""


def isolate(work: Callable[[Collection[int]], Result], pages: int) -> tuple[Result, Mapping[int, Exception]]:
    """The result of work without its poison pages, and the errors of these pages by row; nearly always none.

    work(rows): does the work on all pages except these rows, and can be called again after it has raised an error. It
    is called with no rows first. After an error the poison pages are found by bisection. Where pages break the work
    only together, nobody knows which of them to blame, and all are left out.

    Raises ENVIRONMENT_ERRORS of any call, which leave every page as it was: unjudged. Raises the error of
    work(all rows), for which no page can be blamed.
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
    """The rows that break the work by themselves, with their errors.  error: of the work on all of these rows"""
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
