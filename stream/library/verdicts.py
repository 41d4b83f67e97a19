"""What the library says of a page: one frozen verdict, with the names that verdict lines of the filter have."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from spotsieve.stream.page import Page
from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import Kind, Reason, Verdicts

VerdictKind = Literal["novel", "duplicate", "unchecked"]

_KINDS: dict[int, VerdictKind] = {Kind.NOVEL: "novel", Kind.DUPLICATE: "duplicate", Kind.UNCHECKED: "unchecked"}
_REASONS = {int(reason): reason.label for reason in Reason}


@dataclass(frozen=True, slots=True)
class Original:
    """A page that was let through. id: as it was added, or as the filter wrote it"""

    id: str
    url: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a page is.

    id: as it was given, as text  url: as it was given
    kind: novel (no page that was let through is an original of it), duplicate (of `original`), or unchecked (nothing
    can be said of it, as of an empty page)
    reason: why, in the words of docs/guide.md: no_match, near, exact, ...
    original: the page that it is a copy of; None where it is no duplicate
    score: similarity to the original, 0 to 1; None where it is no duplicate
    replaces: where policy.keep is not first, the page let through that this copy is kept in place of; else None
    """

    id: str
    url: str
    kind: VerdictKind
    reason: str
    original: Original | None = None
    score: float | None = None
    replaces: Original | None = None

    @property
    def is_duplicate(self) -> bool:
        """Whether the page is a copy. Keep those that are not: novel pages, and those that nothing can be said of."""
        return self.kind == "duplicate"


def verdicts_of(ids: Sequence[str], pages: Sequence[Page], parts: Iterable[Verdicts]) -> Iterator[Verdict]:
    """The verdicts of consecutive parts of these pages. ids: of the pages, in the same order"""
    first = 0
    for part in parts:
        columns = zip(
            ids[first : first + len(part)],
            pages[first : first + len(part)],
            part.kind.tolist(),
            part.reason.tolist(),
            part.score.tolist(),
            part.originals,
            part.replaces,
            strict=True,
        )
        for name, page, kind, reason, score, original, replaced in columns:
            yield Verdict(
                name,
                page.url,
                _KINDS[kind],
                _REASONS[reason],
                _named(original),
                None if math.isnan(score) else score,
                _named(replaced),
            )
        first += len(part)


def _named(entry: Entry | None) -> Original | None:
    return None if entry is None else Original(entry.id, entry.url)
