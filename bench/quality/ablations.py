"""The table of ablations: for each scheme, the rules that are switched off or changed one at a time.

A row is a name and what differs from the default. A scheme without rows has no ablation table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.by_host.pairs import CAREFUL
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, SECOND_CARD


class Replacement(Enum):
    """Replacements of a part that no setting switches off."""

    EVERY_BLOCK = "every block is kept"
    FIRST_CARD_ALONE = "the first card's sums decide"
    NO_TITLES = "no page has a title"


@dataclass(frozen=True, slots=True)
class Ablation:
    """One changed rule. overrides: dotted setting to value  instead: replacement of a part of the scheme

    rules: constants of the judge, "module.NAME" to value; the kernel is compiled again with them
    without: groups of the scorecards that are left out; the cards are fitted again
    keys_off: kinds of keys under which pages are neither looked up nor indexed
    """

    name: str
    overrides: Mapping[str, object] = field(default_factory=dict)
    instead: Replacement | None = None
    rules: Mapping[str, float] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    keys_off: tuple[KeyKind, ...] = ()


def _groups(card: Mapping[str, int], name: str) -> list[Ablation]:
    """An ablation for each group of a card."""
    return [Ablation(f"{name} card without: {group}", without=(group,)) for group in list(card)[:-1]]


_NEVER = 1e9
"""A threshold that nothing reaches."""


def _each(name: str, setting: str, values: Sequence[object]) -> list[Ablation]:
    """A row for each of these values of a setting. name: with a place for the value"""
    return [Ablation(name.format(value), {setting: value}) for value in values]


def _pairs(name: str, **values: float) -> Ablation:
    """A row with other constants of the rule for two pages."""
    return Ablation(name, rules={f"pairs.{constant}": value for constant, value in values.items()})


_NO_MEMORY = {
    "memory.LEAST_TEMPLATE": _NEVER,
    "memory.MOST_TEMPLATE": _NEVER,
    "memory.LEAST_COMMON": _NEVER,
    "memory.MOST_COMMON": _NEVER,
}
_MORE_BITS = 17
"""More bits than the sketches of common text have."""
ABLATIONS: Mapping[str, Sequence[Ablation]] = {
    "chain": (
        Ablation("spots: every word counts (distance 1)", {"scheme.distance": 1}),
        Ablation("spots: chains of 2 words", {"scheme.chain_length": 2}),
        Ablation("spots: chains of 4 words", {"scheme.chain_length": 4}),
        Ablation("pages with a single spot are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 spots", {"scheme.min_features": 30}),
    ),
    "spotsieve": (
        *_each("containment: at least {}", "scheme.min_containment", (0.55, 0.65)),
        *_each("fresh words: fewer than {}", "scheme.max_fresh_words", (50, 100)),
        Ablation("parts of longer pages are copies", {"policy.parts": "drop"}),
        Ablation("variants are kept", {"policy.variants": "keep"}),
        Ablation("text: every block is kept", instead=Replacement.EVERY_BLOCK),
        Ablation("text: the first card alone", instead=Replacement.FIRST_CARD_ALONE),
        *_each("shingles of {} words", "scheme.shingle_words", (2, 4, 5)),
        Ablation("pages with a single shingle are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 shingles", {"scheme.min_features": 30}),
        Ablation("candidates: no MinHash values", keys_off=(KeyKind.MINIMA,)),
        Ablation("candidates: no blocks", keys_off=(KeyKind.BLOCKS,)),
        Ablation("candidates: no title", keys_off=(KeyKind.TITLE,)),
        *_each("candidates: {} MinHash values", "scheme.minima", (4, 6, 12)),
        Ablation("memory: none, nothing is template text", rules=_NO_MEMORY),
        *_each("memory: template text from a share of {}", "scheme.template_share", (0.06, 0.09, 0.18)),
        Ablation("memory: template text by share alone", rules={"memory.MOST_TEMPLATE": _NEVER}),
        Ablation("memory: short pages have template text too", rules={"distinctive_text.LEAST_OWN": 0}),
        Ablation("common text: none", rules={"common_text.LEAST_HOSTS": _MORE_BITS}),
        Ablation("common text: no notices", rules={"common_text.NOTICE_BITS": _MORE_BITS}),
        Ablation("fresh words: do not count", rules={"containment.FRESH_RUN": _NEVER}),
        Ablation("fresh words: count in blocks of links", rules={"containment.LINK_BLOCK": 0.0}),
        Ablation("entries: 64 sampled shingles", rules={"learning.ENTRY_SAMPLES": 64}),
        Ablation("entries: 8 blocks", rules={"learning.ENTRY_BLOCKS": 8}),
        Ablation("estimates: from any number of shingles", rules={"containment._FEW_SHINGLES": 0}),
        Ablation("one host: no titles", instead=Replacement.NO_TITLES),
        _pairs("one host: other titles need no more", SAME_TITLE=-2.0),
        _pairs("one host: similar titles as other ones", SIMILAR_CAREFUL=CAREFUL),
        _pairs("one host: short texts under any title", SHORT=0),
        _pairs("one host: thin texts and fresh blocks under any title", CLOSE_TITLE=0.0),
        _pairs("one host: titles count in sure copies", SURE=2.0),
        _pairs("one host: no care for its first pages", FEW_PAGES=0),
        _pairs("one host: no shared word of its first pages is template text", TEMPLATE_WORDS=0),
        _pairs("one host: every shared word of its first pages may be template text", TEMPLATE_WORDS=_NEVER),
        _pairs("one host: main text speaks for a page from 20 words on", LEAST_MAIN_ON_HOST=20),
        _pairs("one host, two hosts: no care for thin texts", THIN=0),
        _pairs("one host, two hosts: other text beside main text needs no less", BESIDE=0.0),
        _pairs("one host: any fresh words beside the main text of its first pages", YOUNG_FRESH=1.0),
        _pairs("one host: edited copies among its first pages are novel", EDITED_BLOCKS=-1.0),
        _pairs("fresh words are limited by shares alone, and not by FRESH_TEXT words", FRESH_TEXT=_NEVER),
        _pairs("two hosts: much other text beside main text is left out", MOST_OUTSIDE=_NEVER, MOST_OWN=_NEVER),
        _pairs("two hosts: other text of a well-known host is left out", KNOWN_PAGES=_NEVER),
        _pairs("one host: links beside main text are left out", MOST_LINKS=_NEVER),
        _pairs("two hosts: common text never speaks for a page", WHOLE_SHARE=_NEVER),
        _pairs("two hosts: common text needs no more", NEARLY_ALL=0.0, NEARLY_NONE=1.0),
    ),
}
GROUPS: Mapping[str, Sequence[Ablation]] = {
    "spotsieve": (*_groups(FIRST_CARD, "first"), *_groups(SECOND_CARD, "second")),
}
"""Groups of the scorecards. Cards refitted with all groups separate their effect from that of the fit."""
