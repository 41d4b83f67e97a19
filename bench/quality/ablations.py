"""The table of ablations: for each scheme, the rules that are switched off or changed one at a time.

A row is a name and what differs from the default. A scheme without rows has no ablation table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, SECOND_CARD


class Replacement(Enum):
    """Replacements of a part that no setting switches off."""

    EVERY_BLOCK = "every block is kept"
    FIRST_CARD_ALONE = "the first card's sums decide"
    NO_TITLES = "no page has a title"
    NO_SITES = "the hosts of one site are strangers"


@dataclass(frozen=True, slots=True)
class Ablation:
    """One changed rule. overrides: dotted setting to value  instead: replacement of a part of the scheme

    rules: constants of the judge, "module.NAME" to value; the kernel is compiled anew with them
    only_novel_teach: no copy teaches its host anything
    without: groups of the scorecards that are left out; the cards are fitted anew
    keys_off: kinds of keys under which pages are neither looked up nor filed
    """

    name: str
    overrides: Mapping[str, object] = field(default_factory=dict)
    instead: Replacement | None = None
    rules: Mapping[str, float] = field(default_factory=dict)
    only_novel_teach: bool = False
    without: tuple[str, ...] = ()
    keys_off: tuple[KeyKind, ...] = ()


def _groups(card: Mapping[str, int], name: str) -> list[Ablation]:
    """An ablation for each group of a card."""
    return [Ablation(f"{name} card without: {group}", without=(group,)) for group in list(card)[:-1]]


_NEVER = 1e9
"""A threshold that nothing reaches."""


def _bar(setting: str, default: float) -> list[Ablation]:
    """A threshold of the rule for one host, lower and higher by 0.05."""
    name = setting.replace("_", " ")
    return [
        Ablation(f"one host: {name} {value}", {f"scheme.{setting}": value})
        for value in (round(default - 0.05, 2), round(default + 0.05, 2))
    ]


_NO_MEMORY = {
    "memory.LEAST_TEMPLATE": _NEVER,
    "memory.MOST_TEMPLATE": _NEVER,
    "memory.LEAST_COMMON": _NEVER,
    "memory.MOST_COMMON": _NEVER,
}
_NO_SKETCH = {"pairs.ROOM_FOR_SKETCH": _NEVER, "pairs.ROOM_IF_AGREED": _NEVER, "pairs.ALL_TEMPLATE_JACCARD": 2.0}
ABLATIONS: Mapping[str, Sequence[Ablation]] = {
    "chain": (
        Ablation("spots: every word counts (distance 1)", {"scheme.distance": 1}),
        Ablation("spots: chains of 2 words", {"scheme.chain_length": 2}),
        Ablation("spots: chains of 4 words", {"scheme.chain_length": 4}),
        Ablation("pages with a single spot are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 spots", {"scheme.min_features": 30}),
    ),
    "spotsieve": (
        Ablation("text: every block is kept", instead=Replacement.EVERY_BLOCK),
        Ablation("text: the first card alone", instead=Replacement.FIRST_CARD_ALONE),
        Ablation("shingles of 2 words", {"scheme.shingle_words": 2}),
        Ablation("shingles of 4 words", {"scheme.shingle_words": 4}),
        Ablation("shingles of 5 words", {"scheme.shingle_words": 5}),
        Ablation("pages with a single shingle are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 shingles", {"scheme.min_features": 30}),
        Ablation("candidates: no smallest hashes", keys_off=(KeyKind.MINIMA,)),
        Ablation("candidates: no prints", keys_off=(KeyKind.PRINTS,)),
        Ablation("candidates: no title", keys_off=(KeyKind.TITLE,)),
        Ablation("candidates: 4 smallest hashes", {"scheme.minima": 4}),
        Ablation("candidates: 6 smallest hashes", {"scheme.minima": 6}),
        Ablation("candidates: 12 smallest hashes", {"scheme.minima": 12}),
        Ablation("memory: none, nothing is template", rules=_NO_MEMORY),
        Ablation("memory: template from 3 %", {"scheme.template_share": 0.03}),
        Ablation("memory: template from 6 %", {"scheme.template_share": 0.06}),
        Ablation("memory: template from 10 %", {"scheme.template_share": 0.1}),
        Ablation("memory: only novel pages teach", only_novel_teach=True),
        Ablation(
            "memory: all pages teach, sure copies and the same bytes too",
            rules={"pairs.SURE": 2.0},
            keys_off=(KeyKind.BODY,),
        ),
        Ablation("one host: prints of kept blocks alone", rules={"distinctive_text._LEFT_OUT_TENTHS": 0}),
        Ablation("one host: no sketches", rules=_NO_SKETCH),
        Ablation("one host: no guard against accidents", rules={"pairs.SURPRISE": _NEVER}),
        Ablation("one host: no titles", instead=Replacement.NO_TITLES),
        Ablation("one host: no rule for print versions", rules={"pairs.CONTAINED": _NEVER}),
        Ablation("one host, two hosts: no rule for injected lists", rules={"pairs.HELD": _NEVER}),
        Ablation("one host: no rule for equal titles", rules={"pairs.EQUAL": _NEVER}),
        Ablation("one host: no care for tiny texts", rules={"pairs.TINY_CARE": 0.0}),
        Ablation("one host: no care for its first pages", rules={"pairs.FEW_PAGES": 0}),
        *_bar("min_alike", 0.5),
        *_bar("other_title_min_alike", 0.8),
        *_bar("no_title_min_alike", 0.6),
        Ablation("two hosts: any share may be template", rules={"pairs.LEAST_OWN": 0.0}),
        Ablation("two hosts: short texts as others", rules={"pairs.THIN": 0}),
        Ablation("two hosts: those of one site as others", instead=Replacement.NO_SITES),
    ),
}
SKETCHES: Mapping[str, Sequence[Ablation]] = {
    "spotsieve": [
        Ablation(f"{bits} bits", {"scheme.sketch_bits": bits}) for bits in (64, 128, 256, 512, 768, 1024, 2048)
    ]
}
"""The confirmation of near copies, in a separate table: figures against bytes per page."""
GROUPS: Mapping[str, Sequence[Ablation]] = {
    "spotsieve": (*_groups(FIRST_CARD, "first"), *_groups(SECOND_CARD, "second")),
}
"""Groups of the scorecards. Cards refitted with all groups separate their effect from that of the fit."""
