"""Says what settings are worth on a crawl, by the labels of a review of it, and which of them to take.

The crawl is filtered again under each choice. A page that was judged a copy is rightly dropped, whatever original is
named; any other judged page is lost where it is dropped. Copies are known only among the pages that some value of the
threshold drops: recall is the share of those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.evaluation.choices import Choice, over_its_threshold
from spotsieve.stream.research.evaluation.trial import signed_alike
from spotsieve.stream.research.labelling.labels import Labels
from spotsieve.stream.research.labelling.population import choices_at_ends, judge_pages, signed_crawl
from spotsieve.stream.research.scoring.estimates import Estimate, estimate_share


@dataclass(frozen=True, slots=True)
class ChoiceEstimate:
    """What a choice is worth. dropped: pages of the crawl that it drops  outside: those that no review could draw

    precision, recall: None where no judged page tells them  lost: novel pages that it drops, in the whole crawl
    """

    choice: Choice
    dropped: int
    outside: int
    precision: Estimate | None
    recall: Estimate | None
    lost: Estimate | None

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where one is not known."""
        if self.precision is None or self.recall is None or not self.precision.value + self.recall.value:
            return 0.0
        return 2 * self.precision.value * self.recall.value / (self.precision.value + self.recall.value)


def threshold_choices(settings: Settings) -> list[Choice]:
    """The scheme of the settings at every value that its threshold is swept over, and at its own."""
    return over_its_threshold(settings, settings.scheme)


def estimate(
    inputs: Sequence[Input],
    settings: Settings,
    labels: Labels,
    choices: Sequence[Choice],
    told: Callable[[str], None] = lambda _: None,
) -> list[ChoiceEstimate]:
    """What each choice is worth. settings: those that were reviewed  told: is told what is done

    Raises InputError where the files are not those of the review, SettingError.
    """
    ends = [choice for choice in choices_at_ends(settings) if all(choice.digest != one.digest for one in choices)]
    dropped: dict[str, set[int]] = {}
    ids: list[str] = []
    for group in signed_alike([*choices, *ends]):
        signed = signed_crawl(inputs, group[0], keep=len(group) > 1)
        for choice in group:
            told(f"filtering {len(dropped) + 1} of {len(choices) + len(ends)}, {choice.name}")
            names, dropped[choice.digest] = list[str](), set[int]()
            for place, page, verdicts, row, _, _ in judge_pages(choice, signed):
                names.append(page.id)
                if verdicts.originals[row] is not None:
                    dropped[choice.digest].add(place)
            if not ids:
                ids = names
                places = _places(names, labels)
    frame = set[int]().union(*(dropped[choice.digest] for choice in choices_at_ends(settings)))
    return [_worth(choice, dropped[choice.digest], frame, places, labels) for choice in choices]


def recommend(found: Sequence[ChoiceEstimate], precision: float | None) -> ChoiceEstimate:
    """The choice with the greatest recall of those that reach a precision, or with the greatest F1.

    precision: the least that is wished; where none reaches it, the most precise choice is taken
    """

    def value(one: Estimate | None) -> float:
        return -1.0 if one is None else one.value

    if precision is None:
        return max(found, key=lambda one: (round(one.f1, 6), one.choice.own))
    good = [one for one in found if value(one.precision) >= precision]
    if good:
        return max(good, key=lambda one: (value(one.recall), one.choice.own))
    return max(found, key=lambda one: (value(one.precision), value(one.recall)))


def estimate_json(one: ChoiceEstimate) -> dict[str, Any]:
    """Every figure by its name."""

    def fields(share: Estimate | None) -> dict[str, float] | None:
        return None if share is None else share._asdict()

    return {
        "name": one.choice.name,
        "dropped": one.dropped,
        "outside": one.outside,
        "precision": fields(one.precision),
        "recall": fields(one.recall),
        "lost": fields(one.lost),
    }


def estimate_lines(found: Sequence[ChoiceEstimate]) -> list[str]:
    """A table for people: the titles, then a line for each choice; intervals are of 95 %."""
    rows = [["", "dropped", "precision", "", "recall", "", "lost", ""]]
    for one in found:
        row = [one.choice.name + (" (as set)" if one.choice.own and one.choice.setting else ""), f"{one.dropped:,}"]
        for share, digits in ((one.precision, 3), (one.recall, 3), (one.lost, 0)):
            if share is None:
                row += ["-", ""]
            else:
                row += [f"{share.value:.{digits}f}", f"{share.low:.{digits}f} to {share.high:.{digits}f}"]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def notes(found: Sequence[ChoiceEstimate], labels: Labels) -> list[str]:
    """What a person should know of these figures."""
    judged, copies, drawable = len(labels.later), int(labels.copy.sum()), int(labels.sample.sizes.sum())
    lines = [
        f"{judged:,} judged pairs ({copies:,} copies), {labels.skipped:,} skipped, of {drawable:,} that could be drawn",
        f"{labels.pages:,} pages; intervals of 95 %",
        "recall: of the copies among the pages that some value of the threshold drops",
    ]
    if labels.unjudged:
        lines.append(
            f"{sum(labels.unjudged.values()):,} pairs of {len(labels.unjudged)} strata have no label and do not count: "
            "judge more pairs"
        )
    lines += [
        f"{one.choice.name} drops {one.outside:,} pages that the review could not draw: its figures are of the others"
        for one in found
        if one.outside
    ]
    return lines


def _places(ids: Sequence[str], labels: Labels) -> list[int]:
    """The place of each judged page. Raises InputError where the files are others than those of the review."""
    places = dict[str, int]()
    for place, name in enumerate(ids):
        places.setdefault(name, place)
    absent = [name for name in labels.later if name not in places]
    then = "give the files that were reviewed, under the names that they had"
    if absent:
        rule = f"must be of pages of the files; {len(absent):,} of {len(labels.later):,} are not, such as {absent[0]!r}"
        raise InputError("--labels", rule, None, then)
    if len(ids) != labels.pages:
        raise InputError("FILES", f"must be those of the review, of {labels.pages:,} pages", len(ids), then)
    return [places[name] for name in labels.later]


def _worth(choice: Choice, dropped: set[int], frame: set[int], places: Sequence[int], labels: Labels) -> ChoiceEstimate:
    hit = np.array([place in dropped for place in places], np.bool_)
    precision = estimate_share(labels.copy, hit, labels.sample)
    recall = estimate_share(hit, labels.copy, labels.sample)
    counted = len(dropped & frame)
    lost = None
    if precision is not None:
        lost = Estimate(*(counted * (1 - share) for share in (precision.value, precision.high, precision.low)))
    return ChoiceEstimate(choice, len(dropped), len(dropped) - counted, precision, recall, lost)
