"""Judges a record although a page in it breaks the code: that page alone is passed on unjudged."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from spotsieve.state.index import Filing
from spotsieve.stream.errors import SpotsieveError
from spotsieve.stream.signature import Signatures, Status
from spotsieve.stream.verdict import Reason, Verdicts

JudgeRecord = Callable[[Signatures], tuple[Verdicts, Filing]]

NOT_OF_A_PAGE = (SpotsieveError, MemoryError, OSError)
"""Errors of the state or of this machine: another worker would not meet them, so they must not decide a verdict."""


def judge_sparing(judge: JudgeRecord, signatures: Signatures) -> tuple[Verdicts, Filing, Mapping[int, Exception]]:
    """What judge(signatures) returns, and the errors of the pages that it breaks on, by row; nearly always none.

    Such a page is taken for one that matches nothing: it is unchecked (INTERNAL_ERROR) and not filed. It is found by
    judging halves, halves of these and so on, over the same state, so every reader of the log spares the same pages.
    Where pages break only together, nobody knows which of them to blame, and all are spared.
    Raises what is in NOT_OF_A_PAGE.
    """
    try:
        verdicts, filing = judge(signatures)
        return verdicts, filing, {}
    except NOT_OF_A_PAGE:
        raise
    except Exception as error:
        broken = _broken(judge, signatures, 0, len(signatures), error)
        whole = dict.fromkeys(range(len(signatures)), error)
    try:
        return _judge_without(judge, signatures, broken)
    except NOT_OF_A_PAGE:
        raise
    except Exception:
        return _judge_without(judge, signatures, whole)


def _broken(judge: JudgeRecord, signatures: Signatures, start: int, end: int, error: Exception) -> dict[int, Exception]:
    """The pages from start..end - 1 that break the judge, which has broken on these together with this error."""
    if end - start == 1:
        return {start: error}
    found, middle = dict[int, Exception](), (start + end) // 2
    for first, last in ((start, middle), (middle, end)):
        try:
            judge(signatures.part(first, last))
        except NOT_OF_A_PAGE:
            raise
        except Exception as of_half:
            found |= _broken(judge, signatures, first, last, of_half)
    return found


def _judge_without(
    judge: JudgeRecord, signatures: Signatures, broken: Mapping[int, Exception]
) -> tuple[Verdicts, Filing, Mapping[int, Exception]]:
    rows = np.fromiter(broken, np.int64, len(broken))
    status = signatures.status.copy()
    status[rows] = Status.EMPTY
    verdicts, filing = judge(dataclasses.replace(signatures, status=status))
    verdicts.reason[rows] = Reason.INTERNAL_ERROR
    return verdicts, filing, broken
