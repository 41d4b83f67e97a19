"""Judges a record although a page in it breaks the code: that page alone is passed on unjudged."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Filing
from spotsieve.stream.errors import SpotsieveError
from spotsieve.stream.signature import Signatures, Status
from spotsieve.stream.verdict import Reason, Verdicts

JudgeRecord = Callable[[Signatures], tuple[Verdicts, Filing]]
Done = TypeVar("Done")

NOT_OF_A_PAGE = (SpotsieveError, MemoryError, OSError)
"""Errors of the state or of this machine: another worker would not meet them, so they must not decide a verdict."""


def judge_sparing(judge: JudgeRecord, signatures: Signatures) -> tuple[Verdicts, Filing, Mapping[int, Exception]]:
    """What judge(signatures) returns, and the errors of the pages that it breaks on, by row; nearly always none.

    Such a page is taken for one that matches nothing: it is unchecked (INTERNAL_ERROR) and not filed. It is found by
    judging halves, halves of these and so on, over the same state, so every reader of the log spares the same pages.
    Raises what is in NOT_OF_A_PAGE.
    """
    (verdicts, filing), broken = do_sparing(
        lambda rows: judge(unjudged(signatures, rows) if rows else signatures),
        lambda start, end: judge(signatures.part(start, end)),
        len(signatures),
    )
    mark_broken(verdicts, broken)
    return verdicts, filing, broken


def do_sparing(
    work: Callable[[Iterable[int]], Done], try_part: Callable[[int, int], object], pages: int
) -> tuple[Done, Mapping[int, Exception]]:
    """Do work on pages without those that break it; -> what it returns, and their errors by row; nearly always none.

    work(rows): is done with these rows spared; with none of them first  try_part(start, end): the same for the pages
    start..end - 1 alone. Where pages break only together, nobody knows which of them to blame, and all are spared.
    Raises what is in NOT_OF_A_PAGE, and what work raises although all pages are spared.
    """
    try:
        return work(()), {}
    except NOT_OF_A_PAGE:
        raise
    except Exception as error:
        broken = _broken(try_part, 0, pages, error)
        whole = dict.fromkeys(range(pages), error)
    try:
        return work(broken), broken
    except NOT_OF_A_PAGE:
        raise
    except Exception:
        return work(whole), whole


def unjudged(signatures: Signatures, rows: Iterable[int]) -> Signatures:
    """The same pages, of which these are taken for empty: they have no keys, so they meet nobody and are not filed."""
    status = signatures.status.copy()
    status[_array(rows)] = Status.EMPTY
    return replace(signatures, status=status)


def mark_broken(verdicts: Verdicts, rows: Iterable[int]) -> None:
    """Say of these pages, which were taken for empty, why they were not judged."""
    verdicts.reason[_array(rows)] = Reason.INTERNAL_ERROR


def _broken(try_part: Callable[[int, int], object], start: int, end: int, error: Exception) -> dict[int, Exception]:
    """The pages from start..end - 1 that break the work, which has broken on these together with this error."""
    if end - start <= 1:
        return dict.fromkeys(range(start, end), error)
    found, middle = dict[int, Exception](), (start + end) // 2
    for first, last in ((start, middle), (middle, end)):
        try:
            try_part(first, last)
        except NOT_OF_A_PAGE:
            raise
        except Exception as of_half:
            found |= _broken(try_part, first, last, of_half)
    return found


def _array(rows: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(rows, np.int64)
