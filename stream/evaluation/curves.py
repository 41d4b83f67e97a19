"""The curves of a set: for each scheme the points over the values of its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spotsieve.stream.evaluation.choices import Choice
from spotsieve.stream.evaluation.judging import SetResult
from spotsieve.stream.scoring.comparison import SchemeResult
from spotsieve.stream.settings.schemes import SCHEME_SETTINGS


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the table as a point of its curve."""

    choice: Choice
    scored: SchemeResult

    @property
    def value(self) -> Any:
        """The value of the swept setting; None if nothing is swept."""
        return self.choice.value

    @property
    def precision(self) -> float | None:
        """The precision of pages; None if no page was reported."""
        return self.scored.scores.pages.retrieval.precision

    @property
    def recall(self) -> float | None:
        """The recall of pages; None if the set has no duplicate."""
        return self.scored.scores.pages.retrieval.recall

    @property
    def f1(self) -> float | None:
        """F1 of pages."""
        return self.scored.scores.pages.retrieval.f1


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of a scheme, in the order of its setting's values.

    number: of its colour and marker, which is the same in every plot of the same schemes
    setting, unit: of the swept setting, "" if nothing is swept
    """

    name: str
    number: int
    setting: str
    unit: str
    points: Sequence[Point]

    @property
    def own(self) -> Point | None:
        """The point of the given settings; None if they are not among the swept values."""
        return next((point for point in self.points if point.choice.own), None)

    @property
    def best(self) -> Point | None:
        """The point with the greatest F1, or the middle one of several; None if no point has an F1."""
        most = max((point.f1 for point in self.points if point.f1 is not None), default=None)
        equal = [point for point in self.points if point.f1 == most]
        return equal[len(equal) // 2] if most is not None else None


def curves_of(outcome: SetResult) -> list[Curve]:
    """The curves of a set, in the order of its table."""
    by_curve: dict[str, list[Point]] = {}
    for choice in outcome.choices:
        by_curve.setdefault(choice.curve, []).append(Point(choice, outcome.scored[choice.name]))
    registered = list(SCHEME_SETTINGS)
    known = all(name in registered for name in by_curve)
    return [
        Curve(name, registered.index(name) if known else place, *_swept(points[0].choice), points)
        for place, (name, points) in enumerate(by_curve.items())
    ]


def _swept(choice: Choice) -> tuple[str, str]:
    """The name of the swept setting, without its section if that is the scheme's, and its unit."""
    *sections, name = choice.setting.split(".")
    model: Any = choice.settings
    for section in sections:
        model = getattr(model, section)
    if not name:
        return "", ""
    extra = type(model).model_fields[name].json_schema_extra
    unit = str(extra["unit"]) if isinstance(extra, dict) else ""
    return choice.setting.removeprefix("scheme."), unit
