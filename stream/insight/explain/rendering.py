"""Renders an explanation as lines for a terminal, as one self-contained HTML page, or as JSON.

The HTML page has no scripts and no outside resources. Jinja2 escapes every value. docs/guide.md lists the
fields of the JSON.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any

from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.base.terminal import Span, escape_control_characters
from spotsieve.stream.insight.explain.explanation import (
    CandidatePage,
    Explanation,
    Fate,
    HostFacts,
    PairThreshold,
    failed_thresholds,
    figure_text,
    host_sentence,
    key_name,
    length_sentence,
    threshold_text,
)
from spotsieve.stream.insight.explain.texts import BlockRole

if TYPE_CHECKING:
    from jinja2 import Template

    from spotsieve.stream.insight.explain.texts import Block, PageText, TextPair

INDENT = 13
MIN_COLUMNS = 40
MAX_NEAREST = 5
MAX_BLOCKS = 4
MAX_BLOCK_CHARACTERS = 70
MAX_RUNS = 3
MAX_RUN_CHARACTERS = 160
_FULL_WIDTH = 100.0
Line = list[Span]
_Row = tuple[str, str, str]
"""Label, text, style."""


def as_text(explanation: Explanation, columns: int = 98) -> Iterator[Line]:
    """The explanation as styled lines of at most `columns` characters (at least MIN_COLUMNS)."""
    for label, text, style in _rows(explanation):
        yield from _wrapped(label, text, style, max(columns, MIN_COLUMNS))


def _rows(explanation: Explanation) -> Iterator[_Row]:
    subject, context, original = explanation.subject, explanation.context, explanation.original
    score = "" if explanation.score is None else f" {explanation.score:.3f}"
    yield "page", subject.url or subject.id, "bold"
    style = {"duplicate": "bad", "novel": "good"}.get(explanation.kind, "mark")
    if context.trace is None:
        yield "verdict", "novel: the page is indexed in the state", "good"
    else:
        yield "verdict", f"{explanation.kind} ({explanation.reason.label}{score}): {explanation.reason.meaning}", style
    if original is not None:
        yield "original", original.url or original.id, "bold"
        yield "", original.id, "dim"
    other = explanation.other
    if other is not None and other.fate is not Fate.ORIGINAL:
        yield "compared", f"{other.name}: {other.fate.value}", "bold"
    if other is not None:
        yield from _decision(other, context.scheme, explanation.texts)
    yield from _measures(explanation)
    if explanation.recorded is not None:
        yield from _recorded(explanation)
    if subject.url:
        yield "id", subject.id, ""
    yield "found in", subject.source, "dim"
    yield from ((name, value, "") for name, value in explanation.facts.items())
    if explanation.texts is not None:
        yield from _fresh(explanation.texts)
        yield from _texts(explanation.texts)
    if other is not None:
        yield from _keys(other, context.scheme)
    yield from _lookups(explanation)
    yield from _nearest(explanation)
    for note in explanation.notes:
        yield "note", note, "mark"


def _recorded(explanation: Explanation) -> Iterator[_Row]:
    recorded = explanation.recorded
    assert recorded is not None
    score = "" if recorded.score is None else f" {recorded.score:.3f}"
    original = f" of {recorded.original_url or recorded.original}" if recorded.original else ""
    yield "recorded", f"{recorded.verdict} ({recorded.reason}{score}){original}", ""
    note = _recorded_note(explanation)
    if note:
        yield "", note, "mark"


def _recorded_note(explanation: Explanation) -> str:
    """How the recorded verdict differs from the explained one; empty if it does not."""
    recorded = explanation.recorded
    if recorded is None:
        return ""
    ids = recorded.id, explanation.subject.id
    # A page can have a page id in the one and its own name in the other.
    if ids[0] != ids[1] and (page_of_id(ids[0]) is None) == (page_of_id(ids[1]) is None):
        return f"It is the verdict of another page with this name, {recorded.id}."
    original = explanation.original
    if explanation.reason.label == "first_attempt":  # An indexed page, whose own verdict had another reason.
        same = recorded.verdict != "duplicate"
    else:  # A report has a beginning of a long id.
        same = (recorded.verdict, recorded.reason) == (explanation.kind, explanation.reason.label) and (
            original is None or original.id.startswith(recorded.original) or original.page_id == recorded.original
        )
    if same:
        return ""
    return "The verdict differs from the recorded one: the state or its settings have changed since."


def _decision(page: CandidatePage, scheme: str, texts: "TextPair | None") -> Iterator[_Row]:
    """The contained share and the fresh words, then every threshold."""
    if page.part is not None:
        exact = ("", "") if texts is None or texts.other is None else _exact(texts)
        rows = ("contained", page.part.containment, exact[0]), ("fresh words", page.part.fresh_words, exact[1])
        for label, threshold, by_texts in rows:
            value = f"{threshold.value:,.0f} in" if threshold.unit else f"{figure_text(threshold.value, '')} of"
            text = f"{value} the {page.part.name}, {threshold_text(threshold)}"
            yield label, text + by_texts, "" if threshold.reached else "bad"
    if page.proof:
        yield "decided by", ", ".join(key_name(kind, scheme) for kind in page.proof), ""
    for criterion in page.criteria:
        answer, style = ("yes", "good") if criterion.reached else ("no", "")
        yield "criterion", f"{criterion.name}: {answer}", style
        for threshold in criterion.thresholds:
            if threshold.is_trivial:
                continue
            sign = "+" if threshold.reached else "-"
            value = figure_text(threshold.value, threshold.unit)
            text = f"{sign} {threshold.name}: {value}, {threshold_text(threshold)}"
            yield "", text, "" if threshold.reached else "bad"


def _exact(texts: "TextPair") -> tuple[str, str]:
    """The two numbers over the texts themselves, beside the estimates of the judge."""
    containment, fresh = texts.containment, texts.fresh_words
    return (
        "" if containment is None else f" (over the texts: {figure_text(containment, '')})",
        "" if fresh is None else f" (over the texts: {figure_text(fresh, 'words')})",
    )


def _measures(explanation: Explanation) -> Iterator[_Row]:
    """Titles, length, how well the host is known, and other measurements of the pair."""
    host, other, texts = explanation.host, explanation.other, explanation.texts
    if texts is not None and texts.other is not None and (texts.page.title or texts.other.title):
        yield "titles", f'"{texts.page.title}"', ""
        yield "", f'"{texts.other.title}" on the other page', ""
    if host is not None:
        yield "length", length_sentence(host), ""
        yield "host", host_sentence(host), ""
    if other is not None and other.figures:
        label = {None: "preference", 0.0: "two hosts", 1.0: "one host"}[other.figures.get("one host")]
        yield from ((label, figures, "") for figures in [_figures(other)] if figures)


def _fresh(texts: "TextPair") -> Iterator[_Row]:
    """The fresh text of both pages."""
    for label, text in (("fresh text", texts.page), ("of the other", texts.other)):
        if text is None or not text.fresh:
            continue
        runs = sorted(text.fresh, key=lambda run: -run.words)
        for number, run in enumerate(runs[:MAX_RUNS]):
            yield "" if number else label, f'{run.words} words: "{_shortened(run.text, MAX_RUN_CHARACTERS)}"', "mark"
        if len(runs) > MAX_RUNS:
            rest = sum(run.words for run in runs[MAX_RUNS:])
            yield "", f"and {len(runs) - MAX_RUNS} more runs, {rest:,} words", "dim"


def _texts(texts: "TextPair") -> Iterator[_Row]:
    for label, text in (("main text", texts.page), ("of the other", texts.other)):
        if text is not None:
            source = f", of a script ({text.source})" if text.source else ""
            yield label, f"{text.main_words} of {text.words} words{source}", ""
            yield from _boilerplate(text)
    if texts.other is not None:
        examples = ", ".join(f'"{example}"' for example in texts.examples)
        such_as = f", such as {examples}" if examples else ""
        counts = f"{texts.page.shingles} different ones, {texts.page.shared} of them on the other page"
        yield "shingles", f"of {texts.shingle_words} words: {counts}{such_as}", ""
    if texts.other is not None and texts.jaccard is not None:
        own, others, shared = texts.page.shingles, texts.other.shingles, texts.page.shared
        yield "Jaccard", f"{shared} / ({own} + {others} - {shared}) = {texts.jaccard:.3f}, exactly", ""


def _boilerplate(text: "PageText") -> Iterator[_Row]:
    blocks = sorted((block for block in text.blocks if not block.main_text), key=lambda block: -block.words)
    for block in blocks[:MAX_BLOCKS]:
        yield " boilerplate", f'"{_excerpt(block)}" ({block.reason})', "dim"
    if len(blocks) > MAX_BLOCKS:
        yield "", f"and {len(blocks) - MAX_BLOCKS} more blocks", "dim"
    for label, role in ((" template", BlockRole.TEMPLATE), (" common", BlockRole.COMMON)):
        blocks = [block for block in text.blocks if block.role is role]
        if blocks:
            count = "1 block is" if len(blocks) == 1 else f"{len(blocks)} blocks are"
            yield label, f'{count} {role.value}, such as "{_excerpt(blocks[0])}"', "dim"


def _keys(page: CandidatePage, scheme: str) -> Iterator[_Row]:
    if page.keys:
        kinds = ", ".join(f"{count} {key_name(kind, scheme)}" for kind, count in page.keys.items())
        yield "common keys", kinds, ""


def _figures(page: CandidatePage) -> str:
    return "; ".join(f"{name} {figure_text(value, '')}" for name, value in page.figures.items() if name != "one host")


def _lookups(explanation: Explanation) -> Iterator[_Row]:
    trace = explanation.context.trace
    if trace is None:
        return
    kinds = [
        f"{counts.keys} {key_name(kind, explanation.context.scheme)} ({counts.hits} hits, {counts.postings} postings)"
        for kind, counts in trace.lookups.items()
    ]
    yield "lookups", "; ".join(kinds) or "none: the page has no keys, so it has no candidates", ""


def _nearest(explanation: Explanation) -> Iterator[_Row]:
    nearest = explanation.nearest
    if not nearest:
        if explanation.context.trace is not None and explanation.other is None:
            yield "candidates", "none: no other page has a key in common", ""
        return
    yield "candidates", f"{len(nearest)} more, the most similar first", ""
    for page in nearest[:MAX_NEAREST]:
        failed = failed_thresholds(page.nearest_criterion)
        yield "", page.name, "bold"
        yield "", f"  {page.score:.3f} {page.fate.value}{': ' + failed if failed and not page.accepted else ''}", "dim"


def _excerpt(block: "Block") -> str:
    return _shortened("".join(piece.text for piece in block.pieces), MAX_BLOCK_CHARACTERS)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def _wrapped(label: str, text: str, style: str, columns: int) -> Iterator[Line]:
    parts: Sequence[str] = textwrap.wrap(text, columns - INDENT, break_on_hyphens=False) or [""]
    for number, part in enumerate(parts):
        label_style = "dim" if label.startswith(" ") else "bold"
        yield [(f"{'' if number else label:<{INDENT}}", label_style), (part, style)]


def html_page(explanation: Explanation) -> str:
    """The explanation as an HTML document. Raises ImportError without jinja2."""
    template = html_template(__package__, "explanation.html")
    subject, other = explanation.subject, explanation.other
    sides = []
    if explanation.texts is not None:
        sides = [("The page", subject.url or subject.id, explanation.texts.page)]
        if other is not None and explanation.texts.other is not None:
            title = "The original" if other.fate is Fate.ORIGINAL else "The other page"
            sides.append((title, other.name, explanation.texts.other))
    return template.render(
        explanation=explanation,
        trace=explanation.context.trace,
        sides=sides,
        other=other,
        key_name=lambda kind: key_name(kind, explanation.context.scheme),
        failed_thresholds=failed_thresholds,
        threshold_text=threshold_text,
        figure_text=figure_text,
        host_sentence=host_sentence,
        length_sentence=length_sentence,
        exact=_exact,
        meter=_meter,
        recorded_note=_recorded_note(explanation),
    )


def _meter(threshold: PairThreshold) -> dict[str, float] | None:
    """The value and the needed value in percent of the meter's width; None for a condition or an empty scale."""
    scale = max(threshold.value, threshold.needed) if threshold.unit else 1.0
    if threshold.unit == "yes" or scale <= 0:
        return None
    value, needed = (min(max(number / scale, 0.0), 1.0) * _FULL_WIDTH for number in (threshold.value, threshold.needed))
    return {"value": round(value, 1), "needed": round(needed, 1)}


def html_template(package: str, name: str) -> "Template":
    """A template of a package, which escapes values and their control characters. Raises ImportError without jinja2."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_escape_text, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resources.files(package).joinpath(name).read_text("utf-8"))


def _escape_text(value: Any) -> Any:
    """Escape characters that reverse text or move a cursor. Markup stays unchanged: its type is not str."""
    return escape_control_characters(value) if type(value) is str else value


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation for machines. docs/guide.md lists the fields."""
    trace, original = explanation.context.trace, explanation.original
    scheme = explanation.context.scheme
    replaced = trace.verdicts.replaces[0] if trace else None
    return {
        "page": asdict(explanation.subject),
        "verdict": explanation.kind,
        "reason": explanation.reason.label,
        "meaning": explanation.reason.meaning,
        "score": None if explanation.score is None else round(explanation.score, 6),
        **_part_fields(explanation.other),
        "duplicate_of": original.id if original else None,
        "original_url": original.url if original else None,
        "replaces": replaced.id if replaced else None,
        "scheme": scheme,
        "state": explanation.context.directory or None,
        "known_pages": explanation.context.pages,
        "candidate_limit": trace.limit if trace else None,
        "recorded": asdict(explanation.recorded) if explanation.recorded else None,
        "keys": [
            {"kind": key_name(kind, scheme), **counts._asdict()}
            for kind, counts in (trace.lookups.items() if trace else ())
        ],
        "host": _host_fields(explanation.host),
        "compared_with": _candidate_fields(explanation.other, scheme) if explanation.other else None,
        "nearest": [_candidate_fields(page, scheme) for page in explanation.nearest],
        "texts": _text_fields(explanation.texts),
        "entry": explanation.facts or None,
        "notes": list(explanation.notes),
    }


def _part_fields(page: CandidatePage | None) -> dict[str, Any]:
    """The two numbers that decide, and the part of the page in which they were measured."""
    part = None if page is None else page.part
    return {
        "containment": None if part is None else round(part.containment.value, 6),
        "fresh_words": None if part is None else round(part.fresh_words.value, 1),
        "part": None if part is None else part.name,
    }


def _host_fields(host: HostFacts | None) -> dict[str, Any] | None:
    if host is None:
        return None
    counts = Counter(role.name.lower() for role in host.blocks.roles)
    return {
        "pages": host.pages,
        "limit": host.limit,
        "distinctive_words": host.distinctive_words,
        "main_words": host.main_words,
        "rare_title_words": host.rare_title_words,
        "blocks": len(host.blocks.roles),
        "template_blocks": counts["template"],
        "common_blocks": counts["common"],
    }


def _candidate_fields(page: CandidatePage, scheme: str) -> dict[str, Any]:
    return {
        "id": page.entry.id,
        "url": page.entry.url,
        "entry": page.number,
        "fate": page.fate.value,
        "accepted": page.accepted,
        "reason": page.reason.label if page.accepted else None,
        "score": round(page.score, 6),
        **_part_fields(page),
        "keys": {key_name(kind, scheme): count for kind, count in page.keys.items()},
        "decided_by": [key_name(kind, scheme) for kind in page.proof],
        "figures": {name: round(value, 6) for name, value in page.figures.items()},
        "criteria": [
            {
                "name": criterion.name,
                "reached": criterion.reached,
                "thresholds": [
                    asdict(threshold) | {"reached": threshold.reached, "shortfall": round(threshold.shortfall, 6)}
                    for threshold in criterion.thresholds
                ],
            }
            for criterion in page.criteria
        ],
    }


def _text_fields(texts: "TextPair | None") -> dict[str, Any] | None:
    if texts is None:
        return None
    figures = {"containment": texts.containment, "fresh_words": texts.fresh_words, "jaccard": texts.jaccard}
    return asdict(texts) | {name: value and round(value, 6) for name, value in figures.items()}
