"""The table of ablations: for each scheme, the rules that are switched off or changed one at a time.

A row is a name and what differs from the default. A scheme without rows has no ablation table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spotsieve.stream.features.scorecard import FIRST_CARD, SECOND_CARD
from spotsieve.stream.verdict import FoundBy


class Instead(Enum):
    """What takes the place of a part that no setting switches off."""

    EVERY_BLOCK = "every block is kept"
    FIRST_CARD_ALONE = "the first card's sums decide"
    NO_LADDER = "no block is kept for want of others"
    NO_TEMPLATE = "no page has anything of a template"
    EXACT_JACCARD = "multisets of shingles are compared, not sketches"


@dataclass(frozen=True, slots=True)
class Ablation:
    """One rule changed. overrides: dotted setting to value  instead: of a part of the scheme

    without: groups of the scorecards that are left out; the cards are fitted anew
    keys_off: kinds of keys under which pages are neither looked up nor filed
    """

    name: str
    overrides: Mapping[str, object] = field(default_factory=dict)
    instead: Instead | None = None
    without: tuple[str, ...] = ()
    keys_off: tuple[FoundBy, ...] = ()


def _groups(card: Mapping[str, int], name: str) -> list[Ablation]:
    """Each group of a card left out."""
    return [Ablation(f"{name} card without: {group}", without=(group,)) for group in list(card)[:-1]]


_NONE = 1e-6
"""A bar that everything clears; bars must be above 0."""
_BAR = "scheme.same_host_min_jaccard"

ABLATIONS: Mapping[str, Sequence[Ablation]] = {
    "chain": (
        Ablation("spots: every word counts (distance 1)", {"scheme.distance": 1}),
        Ablation("spots: chains of 2 words", {"scheme.chain_length": 2}),
        Ablation("spots: chains of 4 words", {"scheme.chain_length": 4}),
        Ablation("pages with a single spot are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 spots", {"scheme.min_features": 30}),
    ),
    "spotsieve": (
        Ablation("text: every block is kept", instead=Instead.EVERY_BLOCK),
        Ablation("text: the first card alone", instead=Instead.FIRST_CARD_ALONE),
        Ablation("text: no ladder", instead=Instead.NO_LADDER),
        Ablation("shingles of 2 words", {"scheme.shingle_words": 2}),
        Ablation("shingles of 4 words", {"scheme.shingle_words": 4}),
        Ablation("shingles of 5 words", {"scheme.shingle_words": 5}),
        Ablation("pages with a single shingle are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 shingles", {"scheme.min_features": 30}),
        Ablation("candidates: no tables", keys_off=(FoundBy.TABLES,)),
        Ablation("candidates: no smallest hashes", keys_off=(FoundBy.MINIMA,)),
        Ablation(
            "candidates: 4 tables for k = 3 instead",
            {"scheme.max_distance_bits": 3, "scheme.tables": 4},
            keys_off=(FoundBy.MINIMA,),
        ),
        Ablation("candidates: no digest of the kept text", keys_off=(FoundBy.TEXT,)),
        Ablation("candidates: 4 smallest hashes", {"scheme.minima": 4}),
        Ablation("candidates: 6 smallest hashes", {"scheme.minima": 6}),
        Ablation("candidates: 12 smallest hashes", {"scheme.minima": 12}),
        Ablation("candidates: 16 smallest hashes", {"scheme.minima": 16}),
        Ablation("candidates: no key of the host", keys_off=(FoundBy.HOST,)),
        Ablation("one host: judged as two hosts are", {_BAR: 0.32}, instead=Instead.NO_TEMPLATE),
        Ablation("one host: Jaccard alone, no template", instead=Instead.NO_TEMPLATE),
        Ablation("one host: Jaccard >= 0.6 alone", {_BAR: 0.6}, instead=Instead.NO_TEMPLATE),
        Ablation("one host: what is left without the template alone, no Jaccard", {_BAR: _NONE}),
        Ablation("one host: nothing presumed of a first page", {"scheme.presumed_template": 0.0}),
    ),
}
SKETCHES: Mapping[str, Sequence[Ablation]] = {
    "spotsieve": (
        *(Ablation(f"{bits} bits", {"scheme.sketch_bits": bits}) for bits in (64, 128, 256, 512, 768, 1024)),
        Ablation("exact Jaccard of multisets", instead=Instead.EXACT_JACCARD),
    )
}
"""What a near copy is confirmed by: a table of its own, figures against bytes a page."""
GROUPS: Mapping[str, Sequence[Ablation]] = {
    "spotsieve": (*_groups(FIRST_CARD, "first"), *_groups(SECOND_CARD, "second")),
}
"""Groups of the scorecards, whose effect is told apart from that of the fit: beside them the cards fitted with all."""
