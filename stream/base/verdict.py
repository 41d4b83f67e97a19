"""The verdict on a page: novel, duplicate of an original, or unchecked, with the reason.

REASONS is the one table of reasons: metrics, explanations, summaries and docs/guide.md derive from it.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import FilterReason
from spotsieve.stream.base.signature import Entry, SignatureStatus


class Kind(enum.IntEnum):
    """The three verdicts. The numbers are in arrays, never on disk."""

    NOVEL = 0
    DUPLICATE = 1
    UNCHECKED = 2

    @property
    def label(self) -> str:
        """The name in metrics and reports."""
        return self.name.lower()


class KeyKind(enum.IntFlag):
    """The kinds of keys under which a duplicate found its original, for reports. Pending verdicts store the number."""

    BODY = 1
    TEXT = 2
    TABLES = 4
    MINIMA = 8
    BLOCKS = 16
    TITLE = 32
    URL = 64


class Reason(enum.IntEnum):
    """The reason of a verdict. The lower-case name is the metric label and the text in reports.

    REASONS has the meaning of each. Pending verdicts store the number: it is never reused. 10 and 12 were reasons once.
    """

    NO_MATCH = 0
    FIRST_ATTEMPT = 1
    NEAR = 2
    EXACT = 3
    TOO_FEW_FEATURES = 4
    EMPTY = 5
    NOT_TEXT = 6
    SAME_TEXT = 7
    TOO_MANY_FEATURES = 8
    LONGER = 9
    CONTAINED = 11
    RECRAWL = 13
    BETTER = 14
    HTTP_STATUS = FilterReason.HTTP_STATUS
    REDIRECT = FilterReason.REDIRECT
    MEDIA_TYPE = FilterReason.MEDIA_TYPE
    EXEMPT = FilterReason.EXEMPT
    SCRIPT_ONLY = FilterReason.SCRIPT_ONLY
    INCOMPLETE = SignatureStatus.INCOMPLETE
    INTERNAL_ERROR = 60

    @property
    def label(self) -> str:
        """The name in metrics and reports."""
        return self.name.lower()

    @property
    def kind(self) -> Kind:
        """The verdict that has this reason."""
        return REASONS[self].kind

    @property
    def meaning(self) -> str:
        """The explanation for people."""
        return REASONS[self].meaning


class ReasonRow(NamedTuple):
    """A reason with its verdict and its explanation.

    meaning: a clause for people  listed: whether summaries list the reason next to the count of its verdict
    """

    reason: Reason
    kind: Kind
    meaning: str
    listed: bool = True


def reason_table(*rows: ReasonRow) -> Mapping[Reason, ReasonRow]:
    """The rows by reason. Raises TypeError unless each reason has exactly one row."""
    if sorted(row.reason for row in rows) != sorted(Reason):
        wrong = [reason.name for reason in Reason if [row.reason for row in rows].count(reason) != 1]
        raise TypeError(f"each Reason needs exactly one row in REASONS; check {', '.join(wrong)}")
    return MappingProxyType({row.reason: row for row in rows})


REASONS = reason_table(
    ReasonRow(Reason.NO_MATCH, Kind.NOVEL, "no indexed page matches it", listed=False),
    ReasonRow(Reason.FIRST_ATTEMPT, Kind.NOVEL, "the state has indexed this page itself", listed=False),
    ReasonRow(
        Reason.LONGER,
        Kind.NOVEL,
        "it is a copy, but long enough to replace its original (policy.keep = longest)",
    ),
    ReasonRow(
        Reason.BETTER,
        Kind.NOVEL,
        "it is a copy, but newer or of a better rank, and replaces its original (policy.keep)",
    ),
    ReasonRow(Reason.RECRAWL, Kind.NOVEL, "it is a copy, but only of pages with its own URL (policy.recrawl)"),
    ReasonRow(Reason.CONTAINED, Kind.DUPLICATE, "its original contains enough of its distinctive text"),
    ReasonRow(Reason.NEAR, Kind.DUPLICATE, "it is similar to its original"),
    ReasonRow(Reason.SAME_TEXT, Kind.DUPLICATE, "its text equals the text of its original, but its bytes differ"),
    ReasonRow(Reason.EXACT, Kind.DUPLICATE, "its bytes equal those of its original"),
    ReasonRow(
        Reason.TOO_FEW_FEATURES,
        Kind.UNCHECKED,
        "it has too little text to be judged; only equal bytes make a copy",
    ),
    ReasonRow(
        Reason.TOO_MANY_FEATURES,
        Kind.UNCHECKED,
        "it has more features than the log can hold; only equal bytes make a copy",
    ),
    ReasonRow(Reason.EMPTY, Kind.UNCHECKED, "its body is empty"),
    ReasonRow(
        Reason.NOT_TEXT,
        Kind.UNCHECKED,
        "it is not text, or larger than input.max_page_bytes; only equal bytes make a copy",
    ),
    ReasonRow(Reason.HTTP_STATUS, Kind.UNCHECKED, "its HTTP status is not in input.accepted_statuses"),
    ReasonRow(Reason.REDIRECT, Kind.UNCHECKED, "it is a redirect, and its status is not in input.accepted_statuses"),
    ReasonRow(Reason.MEDIA_TYPE, Kind.UNCHECKED, "its Content-Type is not in input.accepted_types"),
    ReasonRow(Reason.EXEMPT, Kind.UNCHECKED, "a rule exempts pages with its URL"),
    ReasonRow(Reason.SCRIPT_ONLY, Kind.UNCHECKED, "it has scripts and no text of its own"),
    ReasonRow(
        Reason.INCOMPLETE,
        Kind.UNCHECKED,
        "its payload is cut or damaged; no indexed page matches the part that could be decoded",
    ),
    ReasonRow(Reason.INTERNAL_ERROR, Kind.UNCHECKED, "judging it failed with an internal error"),
)
"""The reasons in the order of summaries and documents."""


def reasons_of(kind: Kind) -> tuple[Reason, ...]:
    """The reasons of a verdict, in the order of REASONS."""
    return tuple(row.reason for row in REASONS.values() if row.kind is kind)


class TemplateMarks(NamedTuple):
    """Which blocks of n pages were template text of their hosts when the pages were judged.

    is_template: bool[b], of the packed blocks of all pages (stream/base/page_text.py)  bounds: int64[n + 1]
    known: bool[n], whether this is known; not of duplicates, of pages without text, and of pages judged before
    """

    is_template: NDArray[np.bool_]
    bounds: NDArray[np.int64]
    known: NDArray[np.bool_]

    def of_page(self, row: int) -> NDArray[np.bool_] | None:
        """The marks of the blocks of a page; None if they are unknown."""
        return self.is_template[self.bounds[row] : self.bounds[row + 1]] if self.known[row] else None

    def part(self, start: int, end: int) -> "TemplateMarks":
        """The marks of pages start..end - 1."""
        first, last = self.bounds[start], self.bounds[end]
        return TemplateMarks(self.is_template[first:last], self.bounds[start : end + 1] - first, self.known[start:end])


def marks_of_pages(pages: Sequence[NDArray[np.bool_] | None]) -> TemplateMarks:
    """The marks of pages, from the marks of each; None where they are unknown."""
    sizes = [0 if marks is None else len(marks) for marks in pages]
    known = [marks for marks in pages if marks is not None]
    return TemplateMarks(
        np.concatenate([np.zeros(0, np.bool_), *known]),
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        np.array([marks is not None for marks in pages], np.bool_),
    )


@dataclass(slots=True)
class Verdicts:
    """Verdicts of n pages.

    kind: uint8[n] (Kind)
    reason: uint8[n] (Reason)
    score: float64[n], the similarity of a duplicate to its original in [0, 1], or the share of its text that the
    original contains; nan for other pages
    originals: n entries, None for a page that is no duplicate
    candidates: int64[n], postings in the probed buckets
    found_by: uint8[n] (KeyKind), 0 for a page that is no duplicate
    cut: bool[n], whether index.candidate_limit ended the search before the original or the last candidate
    replaces: n entries, the best original that a superseding page replaces (policy.keep), None for other pages
    marks: template text in the pages; None for a scheme without host memory
    """

    kind: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    score: NDArray[np.float64]
    originals: Sequence[Entry | None]
    candidates: NDArray[np.int64]
    found_by: NDArray[np.uint8]
    cut: NDArray[np.bool_]
    replaces: Sequence[Entry | None]
    marks: TemplateMarks | None = None

    def __len__(self) -> int:
        return len(self.kind)

    def is_duplicate(self, row: int) -> bool:
        """Whether a page is a duplicate. int() avoids 6 us: numpy is slow to compare a number with an enum member."""
        return int(self.kind[row]) == Kind.DUPLICATE

    def part(self, start: int, end: int) -> "Verdicts":
        """The verdicts of pages start..end - 1."""
        rows = slice(start, end)
        return Verdicts(
            self.kind[rows],
            self.reason[rows],
            self.score[rows],
            self.originals[rows],
            self.candidates[rows],
            self.found_by[rows],
            self.cut[rows],
            self.replaces[rows],
            None if self.marks is None else self.marks.part(start, end),
        )


def no_verdicts() -> Verdicts:
    """The verdicts of a record without pages."""
    none = np.zeros(0, np.uint8)
    return Verdicts(none, none, np.zeros(0), (), np.zeros(0, np.int64), none, np.zeros(0, np.bool_), ())


def concatenate(parts: Sequence[Verdicts]) -> Verdicts:
    """The verdicts of consecutive parts of a micro-batch, joined."""
    if len(parts) == 1:
        return parts[0]
    return Verdicts(
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.reason for part in parts]),
        np.concatenate([part.score for part in parts]),
        tuple(original for part in parts for original in part.originals),
        np.concatenate([part.candidates for part in parts]),
        np.concatenate([part.found_by for part in parts]),
        np.concatenate([part.cut for part in parts]),
        tuple(replaced for part in parts for replaced in part.replaces),
        _joined_marks([part for part in parts if len(part)]),
    )


def _joined_marks(parts: Sequence[Verdicts]) -> TemplateMarks | None:
    marks = [part.marks for part in parts if part.marks is not None]
    if not marks or len(marks) < len(parts):
        return None
    behind = np.cumsum([0, *(len(one.is_template) for one in marks)])
    bounds = [one.bounds[1:] + first for one, first in zip(marks, behind.tolist(), strict=False)]
    return TemplateMarks(
        np.concatenate([one.is_template for one in marks]),
        np.concatenate([np.zeros(1, np.int64), *bounds]),
        np.concatenate([one.known for one in marks]),
    )
