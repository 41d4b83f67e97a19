"""Judges a record although it holds poison pages: these alone are unchecked, and are not indexed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexUpdate
from spotsieve.stream.poison import isolate
from spotsieve.stream.signature import Signatures, SignatureStatus
from spotsieve.stream.verdict import Reason, Verdicts

JudgeRecord = Callable[[Signatures], tuple[Verdicts, IndexUpdate]]


def judge_isolated(judge: JudgeRecord, signatures: Signatures) -> tuple[Verdicts, IndexUpdate, Mapping[int, Exception]]:
    """The result of judge(signatures), and the errors of its poison pages by row; nearly always none.

    A poison page counts as empty: it matches nothing, is unchecked (INTERNAL_ERROR) and is not indexed. It is found
    over the same state, so every reader of the log isolates the same pages. Raises
    spotsieve.stream.poison.ENVIRONMENT_ERRORS.
    """
    (verdicts, index_update), poison = isolate(
        lambda rows: judge(as_empty(signatures, rows) if rows else signatures), len(signatures)
    )
    mark_poison(verdicts, poison)
    return verdicts, index_update, poison


def as_empty(signatures: Signatures, rows: Iterable[int]) -> Signatures:
    """The same pages, of which these rows count as empty: they have no keys, match nothing and are not indexed."""
    status = signatures.status.copy()
    status[_array(rows)] = SignatureStatus.EMPTY
    return replace(signatures, status=status)


def mark_poison(verdicts: Verdicts, rows: Iterable[int]) -> None:
    """Set the reason of poison pages, which were judged as empty."""
    verdicts.reason[_array(rows)] = Reason.INTERNAL_ERROR


def _array(rows: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(rows, np.int64)
