"""Estimates precision and recall of settings on a crawl, from the labels of a review, and recommends settings.

The crawl is filtered again with each choice of settings. If a page was judged a copy, it is correctly dropped, with any
original. If another judged page is dropped, it is lost. Copies are known only among the pages that some value of the
threshold drops, so recall is the share of these copies.

Without labels, verdicts on the pages of files are scored by fresh text. The pages are filtered in memory, from an empty
state, or their verdicts are read from verdict lines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.terminal import table_lines
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.evaluation.choices import Choice
from spotsieve.stream.research.labelling.labels import Labels
from spotsieve.stream.research.labelling.page_texts import crawl_texts
from spotsieve.stream.research.labelling.population import (
    VerdictLine,
    choices_at_ends,
    first_places,
    judge_choices,
    recorded_originals,
)
from spotsieve.stream.research.scoring.comparison import fresh_lines
from spotsieve.stream.research.scoring.estimates import Estimate, estimate_share
from spotsieve.stream.research.scoring.fresh_text import FreshText, fresh_json, fresh_line, measure


@dataclass(frozen=True, slots=True)
class ChoiceEstimate:
    """The estimated quality of a choice on the crawl.

    dropped: the number of dropped pages of the crawl
    outside: dropped pages among them that the review could not draw
    precision, recall: None if there is no judged page for them
    lost: the estimated number of dropped novel pages in the whole crawl
    fresh: the verdicts on the whole crawl by fresh text, without labels
    """

    choice: Choice
    dropped: int
    outside: int
    precision: Estimate | None
    recall: Estimate | None
    lost: Estimate | None
    fresh: FreshText

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if one is unknown."""
        if self.precision is None or self.recall is None or not self.precision.value + self.recall.value:
            return 0.0
        return 2 * self.precision.value * self.recall.value / (self.precision.value + self.recall.value)


def estimate(
    inputs: Sequence[Input],
    settings: Settings,
    labels: Labels,
    choices: Sequence[Choice],
    on_step: Callable[[str], None] = lambda _: None,
) -> list[ChoiceEstimate]:
    """The estimates of each choice.

    settings: the settings of the review
    on_step: called with a text before each choice is filtered
    Raises InputError if the files are not the files of the review, SettingError.
    """
    ends = [choice for choice in choices_at_ends(settings) if all(choice.digest != one.digest for one in choices)]
    on_step("reading the texts of the pages")
    ids, texts = crawl_texts(inputs, settings)
    places = _places(ids, labels)
    judged = judge_choices(inputs, [*choices, *ends], len(ids), on_step)
    originals = {choice.digest: found for choice, found in judged}
    dropped = {
        digest: {place for place, original in enumerate(found) if original is not None}
        for digest, found in originals.items()
    }
    frame = set[int]().union(*(dropped[choice.digest] for choice in choices_at_ends(settings)))
    return [
        _estimate_choice(
            choice, dropped[choice.digest], frame, places, labels, measure(texts, originals[choice.digest])
        )
        for choice in choices
    ]


def recommend(estimates: Sequence[ChoiceEstimate], precision: float | None) -> ChoiceEstimate:
    """The choice with the greatest recall among the choices that reach a precision, or with the greatest F1.

    precision: the least precision; if no choice reaches it, the most precise choice is recommended. None: use F1
    """

    def value(one: Estimate | None) -> float:
        return -1.0 if one is None else one.value

    if precision is None:
        return max(estimates, key=lambda one: (round(one.f1, 6), one.choice.own))
    precise = [one for one in estimates if value(one.precision) >= precision]
    if precise:
        return max(precise, key=lambda one: (value(one.recall), one.choice.own))
    return max(estimates, key=lambda one: (value(one.precision), value(one.recall)))


def estimate_json(one: ChoiceEstimate) -> dict[str, Any]:
    """Every figure by its JSON name."""

    def fields(share: Estimate | None) -> dict[str, float] | None:
        return None if share is None else share._asdict()

    return {
        "name": one.choice.name,
        "dropped": one.dropped,
        "outside": one.outside,
        "precision": fields(one.precision),
        "recall": fields(one.recall),
        "lost": fields(one.lost),
        "fresh_text": fresh_json(one.fresh),
    }


def estimate_lines(estimates: Sequence[ChoiceEstimate], width: int | None = None) -> list[str]:
    """The lines of the table: the titles, then a line for each choice with its 95 % intervals."""
    rows = [["", "dropped", "precision", "", "recall", "", "lost", ""]]
    for one in estimates:
        row = [_shown_name(one.choice), f"{one.dropped:,}"]
        for share, digits in ((one.precision, 3), (one.recall, 3), (one.lost, 0)):
            if share is None:
                row += ["-", ""]
            else:
                row += [f"{share.value:.{digits}f}", f"{share.low:.{digits}f} to {share.high:.{digits}f}"]
        rows.append(row)
    return table_lines(rows, width)


def fresh_text_lines(estimates: Sequence[ChoiceEstimate], width: int | None = None) -> list[str]:
    """The lines of the table of fresh text, which needs no labels: the titles, then a line for each choice."""
    return fresh_lines({_shown_name(one.choice): one.fresh for one in estimates}, width)


def _shown_name(choice: Choice) -> str:
    return choice.name + (" (as set)" if choice.own and choice.setting else "")


def notes(estimates: Sequence[ChoiceEstimate], labels: Labels) -> list[str]:
    """The notes to the table, as lines for people."""
    judged, copies, drawable = len(labels.later), int(labels.copy.sum()), int(labels.sample.sizes.sum())
    lines = [
        f"{judged:,} judged pairs ({copies:,} copies), {labels.skipped:,} skipped, of {drawable:,} pairs in the strata",
        f"{labels.pages:,} pages; 95 % intervals",
        "recall: the share of the copies among the pages that some value of the threshold drops",
    ]
    if labels.unjudged:
        lines.append(
            f"{sum(labels.unjudged.values()):,} pairs of {len(labels.unjudged)} strata without a label do not count: "
            "judge more pairs"
        )
    lines += [
        f"{one.choice.name} drops {one.outside:,} pages that the review could not draw; its figures leave these out"
        for one in estimates
        if one.outside
    ]
    return lines


def _places(ids: Sequence[str], labels: Labels) -> list[int]:
    """The place of each judged page among the pages. Raises InputError if the files are not the files of the review."""
    places = first_places(ids)
    absent = [name for name in labels.later if name not in places]
    next_step = "name the reviewed files by the same names as in the review"
    if absent:
        rule = (
            f"must have labels of pages in the files; {len(absent):,} of {len(labels.later):,} labelled pages are not "
            f"in the files, such as {absent[0]!r}"
        )
        raise InputError("--labels", rule, None, next_step)
    if len(ids) != labels.pages:
        rule = f"must be the files of the review, with {labels.pages:,} pages"
        raise InputError("FILES", rule, len(ids), next_step)
    return [places[name] for name in labels.later]


def _estimate_choice(
    choice: Choice, dropped: set[int], frame: set[int], places: Sequence[int], labels: Labels, fresh: FreshText
) -> ChoiceEstimate:
    """The estimates of one choice.

    dropped: places of the pages that it drops
    frame: places of the pages that the review could draw
    places: places of the judged pages
    fresh: its verdicts by fresh text
    """
    hit = np.array([place in dropped for place in places], np.bool_)
    precision = estimate_share(labels.copy, hit, labels.sample)
    recall = estimate_share(hit, labels.copy, labels.sample)
    counted = len(dropped & frame)
    lost = None
    if precision is not None:
        lost = Estimate(*(counted * (1 - share) for share in (precision.value, precision.high, precision.low)))
    return ChoiceEstimate(choice, len(dropped), len(dropped) - counted, precision, recall, lost, fresh)


EXAMPLES = 5
"""The most lost pages and the most missed pages that the text names."""


@dataclass(frozen=True, slots=True)
class CrawlScore:
    """The verdicts on a crawl by fresh text. ids: the ids of its pages in their order"""

    ids: Sequence[str]
    fresh: FreshText

    @property
    def skipped(self) -> int:
        """The number of pages that are not counted: they have no recorded verdict, or the id of an earlier page."""
        return len(self.ids) - self.fresh.pages


def score_choices(
    inputs: Sequence[Input], settings: Settings, choices: Sequence[Choice], on_step: Callable[[str], None]
) -> dict[str, CrawlScore]:
    """The score of each choice by its name, in the order of the choices.

    on_step: called with a text before each step
    Raises InputError for a file that cannot be read, and if there is no page of text.
    """
    on_step("reading the texts of the pages")
    ids, texts = crawl_texts(inputs, settings)
    judged = judge_choices(inputs, choices, len(ids), on_step)
    found = {choice.name: CrawlScore(ids, measure(texts, originals)) for choice, originals in judged}
    return {choice.name: found[choice.name] for choice in choices}


def score_recorded(inputs: Sequence[Input], settings: Settings, verdicts: Mapping[str, VerdictLine]) -> CrawlScore:
    """The score of recorded verdicts by page id. Raises InputError if no page of the files has a verdict."""
    ids, texts = crawl_texts(inputs, settings)
    return CrawlScore(ids, measure(texts, recorded_originals(ids, verdicts, "--read-verdicts")))


def crawl_json(score: CrawlScore) -> dict[str, Any]:
    """The numbers, and every lost and missed page by its id."""
    ids, fresh = score.ids, score.fresh
    lost = [
        {"id": ids[one.page], "duplicate_of": ids[one.original], "fresh": one.fresh, "words": one.words}
        for one in fresh.lost
    ]
    missed = [{"id": ids[one.page], "contained_in": ids[one.earlier]} for one in fresh.missed]
    return {"fresh_text": fresh_json(fresh), "skipped": score.skipped, "lost": lost, "missed": missed}


def crawl_lines(score: CrawlScore) -> list[str]:
    """The numbers as lines, the lost pages with the most fresh words, and the first missed pages."""
    ids, fresh = score.ids, score.fresh
    lines = [f"pages     {fresh.dropped:,} of {fresh.pages:,} dropped", f"text      {fresh_line(fresh)}"]
    if score.skipped:
        what = "pages were skipped: they have no verdict, or an earlier page has their id"
        lines.append(f"  {score.skipped:,} {what}")
    lost = sorted(fresh.lost, key=lambda one: (-one.fresh, one.page))[:EXAMPLES]
    lines += [
        f"  lost    {ids[one.page]}: {one.fresh:,} of {one.words:,} words, original {ids[one.original]}" for one in lost
    ]
    lines += [f"  missed  {ids[one.page]}: contained in {ids[one.earlier]}" for one in fresh.missed[:EXAMPLES]]
    return lines
