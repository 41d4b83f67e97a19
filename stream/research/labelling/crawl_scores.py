"""Scores verdicts on the pages of files without labels, by fresh text.

The pages are filtered in memory, from an empty state, or their verdicts are read from verdict lines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.evaluation.choices import Choice
from spotsieve.stream.research.labelling.page_texts import crawl_texts
from spotsieve.stream.research.labelling.population import VerdictLine, judge_choices, recorded_originals
from spotsieve.stream.research.scoring.fresh_text import FreshText, fresh_json, fresh_line, measure

EXAMPLES = 5
"""The most lost pages and the most missed pages that the text names."""


@dataclass(frozen=True, slots=True)
class CrawlScore:
    """The verdicts on a crawl by fresh text. ids: the ids of its pages in their order"""

    ids: Sequence[str]
    fresh: FreshText


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
    return {"fresh_text": fresh_json(fresh), "lost": lost, "missed": missed}


def crawl_lines(score: CrawlScore) -> list[str]:
    """The numbers as lines, the lost pages with the most fresh words, and the first missed pages."""
    ids, fresh = score.ids, score.fresh
    lines = [f"pages     {fresh.dropped:,} of {fresh.pages:,} dropped", f"text      {fresh_line(fresh)}"]
    lost = sorted(fresh.lost, key=lambda one: (-one.fresh, one.page))[:EXAMPLES]
    lines += [
        f"  lost    {ids[one.page]}: {one.fresh:,} of {one.words:,} words, original {ids[one.original]}" for one in lost
    ]
    lines += [f"  missed  {ids[one.page]}: contained in {ids[one.earlier]}" for one in fresh.missed[:EXAMPLES]]
    return lines
