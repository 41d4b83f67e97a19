"""The verdict on a page: novel, duplicate of an original, or unchecked, with the reason."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.page import Filtered
from spotsieve.stream.signature import Entry


class Kind(enum.IntEnum):
    """The three verdicts. Numbers are stored in arrays, never on disk."""

    NOVEL = 0
    DUPLICATE = 1
    UNCHECKED = 2


class FoundBy(enum.IntFlag):
    """The kinds of keys under which a duplicate met its original, for reports. Attempts store it."""

    BODY = 1
    TEXT = 2
    TABLES = 4
    MINIMA = 8
    PRINTS = 16
    TITLE = 32
    ADDRESS = 64


class Reason(enum.IntEnum):
    """Why a page got its verdict; the lower-case name is the metric label and the text in reports.

    Attempts store the number: it is never reused.
    """

    NO_MATCH = 0
    """Novel: no filed page is accepted as its original."""
    FIRST_ATTEMPT = 1
    """Novel: the earliest accepted entry is this very page, submitted before."""
    NEAR = 2
    """Duplicate: accepted by the scheme."""
    EXACT = 3
    """Duplicate: the same bytes."""
    TOO_FEW_FEATURES = 4
    """Unchecked: below the scheme's least number of features."""
    EMPTY = 5
    """Unchecked: no bytes at all; matches nothing."""
    NOT_TEXT = 6
    """Unchecked: not text, or larger than the limit."""
    SAME_TEXT = 7
    """Duplicate: the same kept text in other bytes."""
    TOO_MANY_FEATURES = 8
    """Unchecked: more features than a record can hold (spotsieve.stream.signature.MAX_FEATURES)."""
    LONGER = 9
    """Novel: a copy, but so much longer than its original that it replaces it (policy.keep = longest)."""
    OWN_TEXT = 10
    """Duplicate: of one host, and what they share beside its template is enough for how alike their titles are."""
    CONTAINED = 11
    """Duplicate: of one host; nearly all of the shorter one's own text stands in the other."""
    SAME_TITLE = 12
    """Duplicate: of one host; their titles agree beside what all titles of the host share, and much of a long text."""
    RECRAWL = 13
    """Novel: a copy, but only of pages of its own address (policy.recrawl)."""
    BETTER = 14
    """Novel: a copy, but newer or of a better rank than its original, which it replaces (policy.keep)."""
    HTTP_STATUS = Filtered.HTTP_STATUS
    """Unchecked: the server's status is not among input.accepted_statuses; matches nothing."""
    REDIRECT = Filtered.REDIRECT
    """Unchecked: a redirect; matches nothing."""
    MEDIA_TYPE = Filtered.MEDIA_TYPE
    """Unchecked: the Content-Type is not among input.accepted_types; matches nothing."""
    EXEMPT = Filtered.EXEMPT
    """Unchecked: a rule exempts pages of its address; matches nothing."""

    INTERNAL_ERROR = 60
    """Unchecked: decoding, signing or judging the page raised an error of ours; matches nothing."""

    @property
    def label(self) -> str:
        """The name in metrics and reports."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts of n pages.

    kind: uint8[n] (Kind)  reason: uint8[n] (Reason)  score: float64[n] (similarity in [0, 1] of a duplicate to its
    original, else nan)  originals: n entries, None where the page is no duplicate  candidates: int64[n] (postings in
    the probed buckets)  found_by: uint8[n] (FoundBy; 0 where the page is no duplicate)
    cut: bool[n] (more candidates than index.candidate_limit lay before the original, or before the end)
    replaces: n entries; of a novel page that is kept in place of those that it copies (policy.keep): the best of these,
    else None
    """

    kind: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    score: NDArray[np.float64]
    originals: Sequence[Entry | None]
    candidates: NDArray[np.int64]
    found_by: NDArray[np.uint8]
    cut: NDArray[np.bool_]
    replaces: Sequence[Entry | None]

    def __len__(self) -> int:
        return len(self.kind)

    def is_duplicate(self, row: int) -> bool:
        """Whether a page is a duplicate. numpy takes 6 us to compare one of its numbers with a member of an enum."""
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
        )


def no_verdicts() -> Verdicts:
    """The verdicts of a record without pages."""
    none = np.zeros(0, np.uint8)
    return Verdicts(none, none, np.zeros(0), (), np.zeros(0, np.int64), none, np.zeros(0, np.bool_), ())


def concatenate(parts: Sequence[Verdicts]) -> Verdicts:
    """The verdicts of consecutive parts of a micro-batch, as one."""
    return Verdicts(
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.reason for part in parts]),
        np.concatenate([part.score for part in parts]),
        tuple(original for part in parts for original in part.originals),
        np.concatenate([part.candidates for part in parts]),
        np.concatenate([part.found_by for part in parts]),
        np.concatenate([part.cut for part in parts]),
        tuple(replaced for part in parts for replaced in part.replaces),
    )
