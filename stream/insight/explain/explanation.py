"""The explanation of one verdict: the page, the pages it was compared with, and every threshold.

`JudgeTrace` holds the verdict and the candidates. `Explanation` adds the page as the user named it, the texts, and
notes. rendering.py writes it.
"""

import enum
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason, Verdicts
from spotsieve.stream.judge.by_host.memory import MOST_HOST_PAGES

if TYPE_CHECKING:
    from spotsieve.stream.insight.explain.page_lookup import RecordedVerdict
    from spotsieve.stream.insight.explain.texts import PageBlocks, TextPair

MAX_NEAREST = 50
"""How many candidates an explanation lists besides the original."""
KEY_NAMES = {
    KeyKind.BODY: "digest of the body",
    KeyKind.TEXT: "digest of the text",
    KeyKind.TABLES: "tables of the fingerprint",
    KeyKind.MINIMA: "MinHash values",
    KeyKind.BLOCKS: "heaviest blocks",
    KeyKind.TITLE: "words of the title",
    KeyKind.URL: "digest of text and URL",
}
_KEY_NAMES_OF_SCHEME = {
    "onebit": {KeyKind.MINIMA: "groups of the fingerprint"},
    "adaptive-shingles": {KeyKind.MINIMA: "first shingles of the sample"},
    "spotsigs": {KeyKind.MINIMA: "rarest spots"},
    "spotsigs-lsh": {KeyKind.MINIMA: "bands of MinHash values"},
    "imatch": {KeyKind.TEXT: "digest of the terms in the IDF range"},
    "imatch-s": {KeyKind.TEXT: "digest of the spots in the IDF range"},
    "concept": {KeyKind.TABLES: "rotations of the fingerprint"},
}


class Fate(enum.Enum):
    """Why a candidate is the original, or why it is not."""

    ORIGINAL = "original"
    ITSELF = "the page itself"
    COPY_TOO = "also a match, but indexed later than the original"
    SUPERSEDED = "a match, but the page is so much longer that it supersedes this one"
    BETTERED = "a match, but the page is newer or has a better rank, so it supersedes this one"
    FETCHED_AGAIN = "a match, but it has the same URL (policy.recrawl)"
    BY_NOW = "a match now, but not when the page was judged: the host's template text has changed since"
    LATER = "indexed after the page"
    REFUSED = "no match"
    BEYOND = "beyond the candidate limit"
    NOT_MET = "no key in common"


@dataclass(frozen=True, slots=True)
class PairThreshold:
    """One threshold, and the value that the pair has there (one row of sign.schemes.ThresholdTest).

    unit: unit of both numbers; "" for a share in 0..1, "yes" for a condition
    at_most: the value must not exceed `needed`  exclusive: the value must exceed `needed`
    """

    name: str
    value: float
    needed: float
    unit: str = ""
    at_most: bool = False
    exclusive: bool = False

    @property
    def reached(self) -> bool:
        """Whether the value suffices."""
        if self.at_most:
            return self.value <= self.needed
        return self.value > self.needed if self.exclusive else self.value >= self.needed

    @property
    def is_trivial(self) -> bool:
        """Whether every pair reaches it in this case, such as the threshold for one site if the sites differ."""
        return self.reached and (self.unit == "yes" or (self.needed <= 0 and not self.at_most))

    @property
    def shortfall(self) -> float:
        """Distance to the needed value; 0 if it is reached."""
        return 0.0 if self.reached else abs(self.needed - self.value)

    @property
    def progress(self) -> float:
        """Share of the needed value that the pair has, 0..1."""
        if self.reached:
            return 1.0
        value, needed = (self.needed, self.value) if self.at_most else (self.value, self.needed)
        return min(max(value / needed, 0.0), 1.0) if needed > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PairCriterion:
    """Thresholds that together accept a pair. reason: the reason of the verdict if all are reached."""

    name: str
    reason: Reason
    thresholds: tuple[PairThreshold, ...]

    @property
    def reached(self) -> bool:
        """Whether the pair reaches every threshold."""
        return all(threshold.reached for threshold in self.thresholds)

    @property
    def progress(self) -> float:
        """Mean progress over the thresholds, 0..1."""
        return sum(threshold.progress for threshold in self.thresholds) / len(self.thresholds)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a page, and how much of it an earlier page contains.

    part: MAIN_TEXT, ... of stream/judge/by_host/containment.py  name: the same for people
    """

    part: int
    name: str
    containment: PairThreshold
    fresh_words: PairThreshold

    @property
    def margin(self) -> float:
        """How far the values are from the needed ones: negative if one is missed."""
        contained = self.containment.value - self.containment.needed
        fresh, most = self.fresh_words.value, self.fresh_words.needed
        return min(contained, (most - fresh) / max(most, fresh, 1.0))


@dataclass(frozen=True, slots=True)
class CandidatePage:
    """An indexed page that the page was compared with.

    number: of its entry in the state  keys: number of keys in common, by kind  proof: kinds of the decisive keys
    accepted: by a decisive key or by a criterion  score, reason: as the page's verdict would have them
    figures: other measurements of the pair, by name
    part: the part of the page that decides, for schemes that measure containment
    """

    number: int
    entry: Entry
    fate: Fate
    keys: dict[KeyKind, int]
    proof: KeyKind
    criteria: tuple[PairCriterion, ...]
    accepted: bool
    score: float
    reason: Reason
    figures: dict[str, float] = field(default_factory=dict)
    part: TextPart | None = None

    @property
    def name(self) -> str:
        """Its URL, or its id if it has none."""
        return self.entry.url or self.entry.id

    @property
    def nearest_criterion(self) -> PairCriterion | None:
        """The criterion that the pair reaches or comes closest to; None if keys alone decide."""
        return max(self.criteria, key=lambda criterion: (criterion.reached, criterion.progress), default=None)

    @property
    def nearness(self) -> float:
        """Progress of the nearest criterion, or the score if keys alone decide."""
        criterion = self.nearest_criterion
        return self.score if criterion is None else criterion.progress


class LookupCounts(NamedTuple):
    """Lookups of one kind of key.

    keys: keys of the page  hits: keys under which the state has at least one page  postings: pages under all of them
    """

    keys: int
    hits: int
    postings: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A page by the memory of its host, for schemes that learn template text.

    pages: of the host, estimated; MOST_HOST_PAGES: as many or more
    limit: number of pages from which a block is template text
    distinctive_words, main_words: words of the page's distinctive text, and of its distinctive main text
    rare_title_words: rare words in the page's title
    """

    pages: int
    limit: float
    distinctive_words: int
    main_words: int
    rare_title_words: int
    blocks: "PageBlocks"


@dataclass(frozen=True, slots=True)
class JudgeTrace:
    """The verdict on one page with all its candidates.

    candidates: in the order in which they were indexed  lookups: by kind of key
    limit: the candidate limit  host: None for schemes that do not learn template text
    """

    verdicts: Verdicts
    candidates: tuple[CandidatePage, ...]
    lookups: dict[KeyKind, LookupCounts]
    limit: int
    host: HostFacts | None

    @property
    def original(self) -> CandidatePage | None:
        """The page's original, or None."""
        return next((page for page in self.candidates if page.fate is Fate.ORIGINAL), None)

    @property
    def nearest(self) -> list[CandidatePage]:
        """All candidates except the original and the page itself, the most similar first."""
        others = [page for page in self.candidates if page.fate not in (Fate.ORIGINAL, Fate.ITSELF)]
        return sorted(others, key=lambda page: (-page.accepted, -page.nearness, page.number))


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """The page to explain. name: as the user gave it  time: fetch time, "" if unknown  source: where it was found"""

    name: str
    id: str
    url: str
    time: str
    source: str


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """The pages to compare with.

    directory: of the state, "" for pages in memory  pages: number of indexed pages
    trace: None if only the page's entry is known
    """

    scheme: str
    directory: str
    pages: int
    trace: JudgeTrace | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one verdict.

    other: the page shown beside the subject  texts: of both pages, if they are available
    facts: contents of the page's entry, by name, if nothing else is known  notes: full sentences
    """

    subject: SubjectFacts
    context: ComparisonContext
    recorded: "RecordedVerdict | None"
    other: CandidatePage | None
    texts: "TextPair | None"
    facts: dict[str, str]
    notes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The verdict in one word."""
        trace = self.context.trace
        return "novel" if trace is None else Kind(int(trace.verdicts.kind[0])).label

    @property
    def reason(self) -> Reason:
        """The reason of the verdict."""
        trace = self.context.trace
        return Reason.FIRST_ATTEMPT if trace is None else Reason(int(trace.verdicts.reason[0]))

    @property
    def score(self) -> float | None:
        """Similarity to the original; None without one."""
        trace = self.context.trace
        score = math.nan if trace is None else float(trace.verdicts.score[0])
        return None if math.isnan(score) else score

    @property
    def original(self) -> Entry | None:
        """The page's original, or None."""
        return None if self.context.trace is None else self.context.trace.verdicts.originals[0]

    @property
    def nearest(self) -> Sequence[CandidatePage]:
        """The other candidates, the most similar first; at most MAX_NEAREST."""
        trace = self.context.trace
        return [] if trace is None else [page for page in trace.nearest if page is not self.other][:MAX_NEAREST]

    @property
    def host(self) -> HostFacts | None:
        """Statistics about the page's host."""
        return None if self.context.trace is None else self.context.trace.host


def key_name(kind: KeyKind, scheme: str) -> str:
    """The name of a kind of key, in the terms of the scheme."""
    return _KEY_NAMES_OF_SCHEME.get(scheme, {}).get(kind, KEY_NAMES[kind])


def time_text(milliseconds: int) -> str:
    """An event time for people, "" for none. Works for times beyond the range of Python's datetime."""
    if not milliseconds:
        return ""
    return f"{np.datetime64(milliseconds, 'ms')}Z"


def failed_thresholds(criterion: PairCriterion | None) -> str:
    """The thresholds that a pair misses, such as 'Jaccard ... 0.21, needs 0.32'; "" if it misses none."""
    if criterion is None:
        return ""
    return "; ".join(
        f"{threshold.name} {figure_text(threshold.value, threshold.unit)}, {threshold_text(threshold)}"
        for threshold in criterion.thresholds
        if not threshold.reached
    )


def threshold_text(threshold: PairThreshold) -> str:
    """The needed value: "needs 0.5", "needs more than 0.4", "needs at most 46 bits"."""
    relation = "more than " if threshold.exclusive else "at most " if threshold.at_most else ""
    return f"needs {relation}{figure_text(threshold.needed, threshold.unit)}"


def figure_text(value: float, unit: str) -> str:
    """A measured value: a share with three digits, or a count with its unit."""
    if unit == "yes":
        return "yes" if value else "no"
    if unit:
        return f"{value:,.1f}".rstrip("0").rstrip(".") + f" {unit}"
    return "none" if value < 0 else f"{value:.3f}".rstrip("0").rstrip(".")


def host_sentence(host: HostFacts) -> str:
    """How well the host of a page is known, and how much of the page is its template text, for people."""
    if not host.pages:
        return "No page of this host was judged before, so none of its template text is known."
    counts = Counter(role.value for role in host.blocks.roles)
    parts = [f"{counts[name]} of {name}" for name in counts]
    pages = f"{host.pages:,} or more" if host.pages >= MOST_HOST_PAGES else f"{host.pages:,}"
    return (
        f"Pages of the host so far: {pages}. A block on at least {host.limit:.3g} of them is template text. "
        f"The page's blocks: {', '.join(parts) or 'none'}."
    )


def length_sentence(host: HostFacts) -> str:
    """The length of the page's distinctive text, for people."""
    return f"{host.distinctive_words:,} words of distinctive text, {host.main_words:,} of them main text"
