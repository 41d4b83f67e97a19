"""Owns the table of ablations: for each scheme, the rules that are switched off or changed one at a time.

A row is a name and the settings that differ from the default. A scheme without rows has no ablation table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ablation:
    """One rule changed. overrides: dotted setting to value."""

    name: str
    overrides: Mapping[str, object]


ABLATIONS: Mapping[str, Sequence[Ablation]] = {
    "chain": (
        Ablation("spots: every word counts (distance 1)", {"spots.distance": 1}),
        Ablation("spots: chains of 2 words", {"spots.chain_length": 2}),
        Ablation("spots: chains of 4 words", {"spots.chain_length": 4}),
        Ablation("pages with a single spot are judged", {"scheme.min_features": 1}),
        Ablation("pages need 30 spots", {"scheme.min_features": 30}),
    ),
}
