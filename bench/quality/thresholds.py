"""Lists the thresholds that are swept and cross-validated: for each scheme, settings that change only the judging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from spotsieve.stream.sign.fingerprints.permuted_tables import MAX_DISTANCE_BITS, possible_tables

MOST_TABLES = 70


@dataclass(frozen=True, slots=True)
class AxisStep:
    """One value of an axis: its place on the plot, and its settings."""

    value: float
    overrides: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Axis:
    """One threshold. swept: steps of the plot  tried: steps that cross-validation chooses from, the strictest first"""

    name: str
    swept: Sequence[AxisStep]
    tried: Sequence[AxisStep] = ()


def axis(setting: str, swept: Sequence[float], tried: Sequence[float] = ()) -> Axis:
    """An axis of one setting."""
    steps = ([AxisStep(value, {setting: value}) for value in values] for values in (swept, tried))
    return Axis(setting, *steps)


_DISTANCES = [
    AxisStep(
        k, {"scheme.max_distance_bits": k, "scheme.tables": max(n for n in possible_tables(k) if n <= MOST_TABLES)}
    )
    for k in range(MAX_DISTANCE_BITS + 1)
]
AXES: Mapping[str, Sequence[Axis]] = {
    "chain": (Axis("scheme.max_distance_bits", _DISTANCES, _DISTANCES),),
    "spotsieve": (
        axis("scheme.min_containment", (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8), (0.7, 0.65, 0.6, 0.55, 0.5)),
        axis("scheme.max_fresh_words", (0, 50, 100)),
        axis("scheme.template_share", (0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.25), (0.06, 0.12, 0.18)),
    ),
}


def choices(axes: Sequence[Axis]) -> list[dict[str, object]]:
    """Every combination of the steps to try, as overrides; one empty choice without any threshold."""
    tried = [axis.tried for axis in axes if axis.tried]
    return [{name: value for step in steps for name, value in step.overrides.items()} for steps in product(*tried)]
