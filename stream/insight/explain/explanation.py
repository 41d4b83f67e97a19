"""An explanation: what a person asked about, the verdict and why, in the words of the scheme; and the same as JSON.

What is told of one page: its verdict, and of every page that it meets what the pair has, needs, and came to.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason, Verdicts

if TYPE_CHECKING:
    from spotsieve.stream.insight.explain.page_lookup import RecordedVerdict
    from spotsieve.stream.insight.explain.texts import TextPair


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
    """A value of a pair and the threshold that it is tested against (spotsieve.stream.sign.schemes.ThresholdTest)."""

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


MOST_NEAREST = 50
"""Pages that were met and are told of, beside the original."""
KEY_NAMES = {
    KeyKind.BODY: "digest of the body",
    KeyKind.TEXT: "digest of the text",
    KeyKind.TABLES: "tables of the fingerprint",
    KeyKind.MINIMA: "smallest hashes",
    KeyKind.PRINTS: "heaviest blocks (prints)",
    KeyKind.TITLE: "words of the title",
    KeyKind.ADDRESS: "digest of text and address",
}
_OF_SCHEME = {
    "minhash": {KeyKind.MINIMA: "minima"},
    "onebit": {KeyKind.MINIMA: "groups of the fingerprint"},
    "adaptive-shingles": {KeyKind.MINIMA: "first shingles of the sample"},
    "spotsigs": {KeyKind.MINIMA: "rarest spots"},
    "spotsigs-lsh": {KeyKind.MINIMA: "bands of minima"},
    "imatch": {KeyKind.TEXT: "digest of the terms in the IDF range"},
    "imatch-s": {KeyKind.TEXT: "digest of the spots in the IDF range"},
    "concept": {KeyKind.TABLES: "rotations of the fingerprint"},
}


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What a person asked about. known_from: where the page was found  time: of its fetch, "" if none is known"""

    name: str
    id: str
    url: str
    time: str
    known_from: str


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """The pages that it was compared with. pages: the state knows, or were read before it  told: None for an entry

    directory: of the state, "" without one
    """

    scheme: str
    directory: str
    pages: int
    told: JudgeTrace | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is told about one page. other: the one that it is shown beside  texts: of both, as far as at hand

    facts: what the entry of a page holds, by name, where nothing else is known of it  notes: whole sentences
    """

    asked: SubjectFacts
    compared: ComparisonContext
    recorded: "RecordedVerdict | None"
    other: CandidatePage | None
    texts: "TextPair | None"
    facts: dict[str, str]
    notes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The verdict in a word."""
        told = self.compared.told
        return "novel" if told is None else Kind(int(told.verdicts.kind[0])).name.lower()

    @property
    def reason(self) -> Reason:
        """The reason of the verdict."""
        told = self.compared.told
        return Reason.FIRST_ATTEMPT if told is None else Reason(int(told.verdicts.reason[0]))

    @property
    def score(self) -> float | None:
        """The similarity to the original; None where there is none."""
        told = self.compared.told
        score = math.nan if told is None else float(told.verdicts.score[0])
        return None if math.isnan(score) else score

    @property
    def original(self) -> Entry | None:
        """The page that it is a copy of."""
        return None if self.compared.told is None else self.compared.told.verdicts.originals[0]

    @property
    def nearest(self) -> Sequence[CandidatePage]:
        """The other pages that it was compared with, the nearest first."""
        told = self.compared.told
        return [] if told is None else [page for page in told.nearest if page is not self.other][:MOST_NEAREST]

    @property
    def host(self) -> HostFacts | None:
        """What is known of its host."""
        return None if self.compared.told is None else self.compared.told.host


def key_name(kind: KeyKind, scheme: str) -> str:
    """What the keys of a kind are, in the words of a scheme."""
    return _OF_SCHEME.get(scheme, {}).get(kind, KEY_NAMES[kind])


def time_text(milliseconds: int) -> str:
    """An event time for people, "" for none; the log may hold times beyond what calendars of Python know."""
    if not milliseconds:
        return ""
    return f"{np.datetime64(milliseconds, 'ms')}Z"


def failed_thresholds(way: PairCriterion | None) -> str:
    """By how much a pair fails the bars of a way: 'Jaccard ... 0.21 of 0.32'; "" where it fails none."""
    if way is None:
        return ""
    return "; ".join(
        f"{bar.name} {figure_text(bar.had, bar.unit)}, {threshold_text(bar)}" for bar in way.bars if not bar.reached
    )


def threshold_text(bar: Any) -> str:
    """What a bar asks for: "needs 0.5", "needs 46 bits at most"."""
    word = "more than " if bar.beyond else ""
    return f"needs {word}{figure_text(bar.needed, bar.unit)}{' at most' if bar.at_most else ''}"


def figure_text(value: float, unit: str) -> str:
    """A figure of a bar: a share in three digits, a count with its unit."""
    if unit == "yes":
        return "yes" if value else "no"
    if unit:
        return f"{value:,.1f}".rstrip("0").rstrip(".") + f" {unit}"
    return "none" if value < 0 else f"{value:.3f}".rstrip("0").rstrip(".")


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation for machines. docs/guide.md has the fields."""
    told, original = explanation.compared.told, explanation.original
    scheme = explanation.compared.scheme
    replaced = told.verdicts.replaces[0] if told else None
    return {
        "page": asdict(explanation.asked),
        "verdict": explanation.kind,
        "reason": explanation.reason.label,
        "means": explanation.reason.meaning,
        "score": None if explanation.score is None else round(explanation.score, 6),
        "duplicate_of": original.id if original else None,
        "original_url": original.url if original else None,
        "replaces": replaced.id if replaced else None,
        "scheme": scheme,
        "state": explanation.compared.directory or None,
        "known_pages": explanation.compared.pages,
        "candidate_limit": told.limit if told else None,
        "recorded": asdict(explanation.recorded) if explanation.recorded else None,
        "keys": [
            {"kind": key_name(kind, scheme), "keys": looked.keys, "met": looked.met, "postings": looked.postings}
            for kind, looked in (told.looked.items() if told else ())
        ],
        "host": _host_fields(explanation.host),
        "compared_with": _pair_fields(explanation.other, scheme) if explanation.other else None,
        "nearest": [_pair_fields(page, scheme) for page in explanation.nearest],
        "texts": _text_fields(explanation.texts),
        "entry": explanation.facts or None,
        "notes": list(explanation.notes),
    }


def _host_fields(host: HostFacts | None) -> dict[str, Any] | None:
    if host is None:
        return None
    fields = {name: value for name, value in asdict(host).items() if name != "prints"}
    return fields | {"prints": len(host.prints), "template_prints": sum(host.prints.values())}


def _pair_fields(page: CandidatePage, scheme: str) -> dict[str, Any]:
    return {
        "id": page.entry.id,
        "url": page.entry.url,
        "entry": page.number,
        "fate": page.fate.value,
        "accepted": page.accepted,
        "reason": page.reason.label if page.accepted else None,
        "score": round(page.score, 6),
        "keys": {key_name(kind, scheme): count for kind, count in page.keys.items()},
        "decided_by": [key_name(kind, scheme) for kind in page.proof],
        "figures": {name: round(value, 6) for name, value in page.figures.items()},
        "ways": [
            {
                "way": way.name,
                "reached": way.reached,
                "bars": [asdict(bar) | {"reached": bar.reached, "lacking": round(bar.lacking, 6)} for bar in way.bars],
            }
            for way in page.ways
        ],
    }


def _text_fields(texts: "TextPair | None") -> dict[str, Any] | None:
    if texts is None:
        return None
    return asdict(texts) | {"jaccard": round(texts.jaccard, 6)}
