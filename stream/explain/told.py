"""What is told of one page: its verdict, and of every page that it meets what the pair has, needs, and came to."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import KeyKind, Reason, Verdicts


class Fate(enum.Enum):
    """What became of a page that was met."""

    ORIGINAL = "original"
    ITSELF = "the page itself"
    COPY_TOO = "it is a copy of this one too, which was filed later"
    SUPERSEDED = "a copy, but so much longer that it replaces it"
    BETTERED = "a copy, but newer or of a better rank, so that it replaces it"
    FETCHED_AGAIN = "a copy, but of its own address (policy.recrawl)"
    BY_NOW = "no copy then, but by what the host has taught since"
    LATER = "filed after it"
    REFUSED = "refused"
    BEYOND = "beyond the candidate limit"
    NOT_MET = "not met under any key"


@dataclass(frozen=True, slots=True)
class PairThreshold:
    """What a pair has of one thing, and what it needs; see spotsieve.stream.schemes.Bar."""

    name: str
    had: float
    needed: float
    unit: str = ""
    at_most: bool = False
    beyond: bool = False

    @property
    def reached(self) -> bool:
        """Whether it is enough."""
        if self.at_most:
            return self.had <= self.needed
        return self.had > self.needed if self.beyond else self.had >= self.needed

    @property
    def asks_nothing(self) -> bool:
        """Whether every pair reaches it in this case, as the bar for one site where the hosts are of two."""
        return self.reached and (self.unit == "yes" or (self.needed <= 0 and not self.at_most))

    @property
    def lacking(self) -> float:
        """How far it is from what is needed; 0 where that is reached."""
        return 0.0 if self.reached else abs(self.needed - self.had)


@dataclass(frozen=True, slots=True)
class PairCriterion:
    """A way to be accepted. reason: what a pair that goes it is accepted for"""

    name: str
    reason: Reason
    bars: tuple[PairThreshold, ...]

    @property
    def reached(self) -> bool:
        """Whether the pair reaches every bar."""
        return all(bar.reached for bar in self.bars)

    @property
    def likeness(self) -> float:
        """How near a pair comes to it: the mean over its bars of what it has of what is needed, 1 at most."""
        shares = [1.0 if bar.reached else _part_of(bar) for bar in self.bars]
        return sum(shares) / len(shares)


@dataclass(frozen=True, slots=True)
class CandidatePage:
    """A filed page that the page was compared with.

    keys: by kind, how many keys of both are the same  proof: kinds of the decisive ones
    accepted: by a decisive key, or by the bars of a way  score, reason: as a duplicate of it would have
    figures: what else is known of the pair, by name
    """

    number: int
    entry: Entry
    fate: Fate
    keys: dict[KeyKind, int]
    proof: KeyKind
    ways: tuple[PairCriterion, ...]
    accepted: bool
    score: float
    reason: Reason
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def nearest_way(self) -> PairCriterion | None:
        """The way that it goes, or else the one that it comes nearest to; None where keys alone decide."""
        return max(self.ways, key=lambda way: (way.reached, way.likeness), default=None)


class LookupCounts(NamedTuple):
    """How one kind of key was looked up: how many keys, in how many buckets anybody was, and how many pages there."""

    keys: int
    met: int
    postings: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What is known of the page's host, for a scheme that remembers hosts.

    pages: that taught it  limit: a print on more pages is template  template_share: of the page's listed kept text
    own_words: of its own text, left-out words counting less  rare_title_words: of its title
    prints: identity of each of the page's prints -> whether it is template
    """

    pages: int
    limit: float
    template_share: float
    own_words: float
    rare_title_words: int
    prints: dict[int, bool]


@dataclass(frozen=True, slots=True)
class JudgeTrace:
    """All that is told of one page. met: in the order of filing  looked: by kind of key  limit: most candidates"""

    verdicts: Verdicts
    met: tuple[CandidatePage, ...]
    looked: dict[KeyKind, LookupCounts]
    limit: int
    host: HostFacts | None

    @property
    def original(self) -> CandidatePage | None:
        """The page that it is a copy of."""
        return next((page for page in self.met if page.fate is Fate.ORIGINAL), None)

    @property
    def nearest(self) -> list[CandidatePage]:
        """All others, the most alike first."""
        others = [page for page in self.met if page.fate not in (Fate.ORIGINAL, Fate.ITSELF)]
        return sorted(others, key=lambda page: (-page.accepted, -_nearness(page), page.number))


def _part_of(bar: PairThreshold) -> float:
    """Of what is needed, what there is: 0..1."""
    had, needed = (bar.needed, bar.had) if bar.at_most else (bar.had, bar.needed)
    return min(max(had / needed, 0.0), 1.0) if needed > 0 else 0.0


def _nearness(page: CandidatePage) -> float:
    way = page.nearest_way
    return page.score if way is None else way.likeness
