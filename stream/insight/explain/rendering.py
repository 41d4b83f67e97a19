"""Writes an explanation for a terminal: lines of styled parts, in the order in which a person asks.

Writes an explanation as one self-contained HTML page, without scripts or outside resources; foreign text is escaped.

Jinja2 escapes whatever goes into the template.
"""

import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from spotsieve.stream.base.terminal import Span, escape_control_characters
from spotsieve.stream.insight.explain.explanation import (
    CandidatePage,
    Explanation,
    Fate,
    PairThreshold,
    failed_thresholds,
    figure_text,
    key_name,
    threshold_text,
)

if TYPE_CHECKING:
    from spotsieve.stream.insight.explain.texts import Block, PageText

INDENT = 13
SHOWN_NEAREST = 5
SHOWN_BLOCKS = 4
SHOWN_LETTERS = 70
Line = list[Span]


def as_text(explanation: Explanation, columns: int = 98) -> Iterator[Line]:
    """The lines of an explanation. columns: how wide they may be"""
    for label, text, style in _rows(explanation):
        yield from _labelled(label, text, style, max(columns, 40))


_Row = tuple[str, str, str]


def _rows(explanation: Explanation) -> Iterator[_Row]:
    asked, compared, original = explanation.asked, explanation.compared, explanation.original
    score = "" if explanation.score is None else f" {explanation.score:.3f}"
    yield "page", asked.url or asked.id, "bold"
    if asked.url:
        yield "id", asked.id, ""
    yield "found in", asked.known_from, "dim"
    style = {"duplicate": "bad", "novel": "good"}.get(explanation.kind, "mark")
    if compared.told is None:
        yield "verdict", "novel: the state let it through", "good"
    else:
        yield "verdict", f"{explanation.kind} ({explanation.reason.label}{score}): {explanation.reason.meaning}", style
    if original is not None:
        yield "original", original.url or original.id, "bold"
        yield "", original.id, "dim"
    if explanation.recorded is not None:
        yield from _recorded(explanation)
    yield from ((name, value, "") for name, value in explanation.facts.items())
    if explanation.texts is not None:
        yield from _texts(explanation)
    if explanation.other is not None:
        if explanation.other.fate is not Fate.ORIGINAL:
            yield "beside", f"{_name(explanation.other)}: {explanation.other.fate.value}", "bold"
        yield from _pair(explanation.other, compared.scheme)
    yield from _keys(explanation)
    yield from _host(explanation)
    yield from _nearest(explanation)
    for note in explanation.notes:
        yield "note", note, "mark"


def _recorded(explanation: Explanation) -> Iterator[_Row]:
    recorded = explanation.recorded
    assert recorded is not None
    score = "" if recorded.score is None else f" {recorded.score:.3f}"
    of = f" of {recorded.original_url or recorded.original}" if recorded.original else ""
    yield "it was told", f"{recorded.verdict} ({recorded.reason}{score}){of}", ""
    same = (recorded.verdict, recorded.reason) == (explanation.kind, explanation.reason.label)
    if not same and explanation.reason.label != "first_attempt":
        yield (
            "",
            "What is known now gives another verdict: the state has learned since, or its settings changed.",
            "mark",
        )


def _texts(explanation: Explanation) -> Iterator[_Row]:
    texts = explanation.texts
    assert texts is not None
    for label, one in (("kept text", texts.page), ("of the other", texts.other)):
        if one is not None:
            title = f'; title "{one.title}"' if one.title else ""
            yield label, f"{one.kept_words} of {one.words} words{title}", ""
            yield from _left_out(one)
    if texts.other is not None:
        examples = ", ".join(f'"{example}"' for example in texts.examples)
        counts = f"{texts.page.shingles} on the page, {texts.other.shingles} on the other, {texts.shared} on both"
        such = f", such as {examples}" if examples else ""
        yield "shingles", f"of {texts.shingle_words} words: {counts}{such}", ""
        sizes = f"{texts.page.shingles} + {texts.other.shingles} - {texts.shared}"
        yield "Jaccard", f"{texts.shared} / ({sizes}) = {texts.jaccard:.3f}, exactly", ""


def _left_out(text: "PageText") -> Iterator[_Row]:
    blocks = sorted((block for block in text.blocks if not block.kept), key=lambda block: -block.words)
    for block in blocks[:SHOWN_BLOCKS]:
        yield "  left out", f'"{_words(block)}" ({block.reason})', "dim"
    if len(blocks) > SHOWN_BLOCKS:
        yield "", f"and {len(blocks) - SHOWN_BLOCKS} more blocks", "dim"
    template = [block for block in text.blocks if block.template]
    if template:
        yield "  template", f'{len(template)} blocks are template of the host, such as "{_words(template[0])}"', "dim"


def _pair(page: CandidatePage, scheme: str) -> Iterator[_Row]:
    if page.keys:
        kinds = ", ".join(f"{count} {key_name(kind, scheme)}" for kind, count in page.keys.items())
        yield "same keys", kinds, ""
    if page.proof:
        yield "decided by", ", ".join(key_name(kind, scheme) for kind in page.proof), ""
    if page.figures:
        hosts = {None: "kept by", 0.0: "two hosts"}.get(page.figures.get("one host"), "one host")
        yield hosts, _figures(page), ""
    for way in page.ways:
        yield "if", way.name + (": yes" if way.reached else ": no"), "good" if way.reached else ""
        for bar in way.bars:
            if bar.asks_nothing:
                continue
            sign = "+" if bar.reached else "-"
            text = f"{sign} {bar.name}: {figure_text(bar.had, bar.unit)}, {threshold_text(bar)}"
            yield "", text, "" if bar.reached else "bad"
        if way.reached:
            break


def _figures(page: CandidatePage) -> str:
    told = [
        f"{name} {figure_text(value, 'words' if name.startswith('words') else '')}"
        for name, value in page.figures.items()
        if name != "one host"
    ]
    return "; ".join(told)


def _keys(explanation: Explanation) -> Iterator[_Row]:
    told = explanation.compared.told
    if told is None:
        return
    kinds = [
        f"{looked.keys} {key_name(kind, explanation.compared.scheme)} ({looked.met} met, {looked.postings} pages)"
        for kind, looked in told.looked.items()
    ]
    yield "looked under", "; ".join(kinds) or "no key: it meets no page", ""


def _host(explanation: Explanation) -> Iterator[_Row]:
    host = explanation.host
    if host is None:
        return
    if not host.pages:
        yield "its host", "no page is known of it, so nothing is known to be its template", ""
        return
    pages = f"{host.pages} page{'s' * (host.pages != 1)} taught it"
    taught = f"{pages}; what stands on more than {host.limit:g} of them is template"
    template = f"{sum(host.prints.values())} of the page's {len(host.prints)} listed blocks"
    yield "its host", f"{taught}: {template}, {host.template_share:.0%} of its kept text", ""


def _nearest(explanation: Explanation) -> Iterator[_Row]:
    nearest = explanation.nearest
    if not nearest:
        if explanation.compared.told is not None and explanation.other is None:
            yield "nearest", "it shares no key with any other page", ""
        return
    yield "others met", f"{len(nearest)}, the nearest first", ""
    for page in nearest[:SHOWN_NEAREST]:
        failed = failed_thresholds(page.nearest_way)
        why = f"{page.fate.value}{': ' + failed if failed and not page.accepted else ''}"
        yield "", f"{_name(page)}", "bold"
        yield "", f"  {page.score:.3f} {why}", "dim"


def _name(page: CandidatePage) -> str:
    return page.entry.url or page.entry.id


def _words(block: "Block") -> str:
    text = "".join(piece.text for piece in block.pieces)
    return text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS].rsplit(" ", 1)[0] + " ..."


def _labelled(label: str, text: str, style: str, columns: int) -> Iterator[Line]:
    parts: Sequence[str] = textwrap.wrap(text, columns - INDENT, break_on_hyphens=False) or [""]
    for place, part in enumerate(parts):
        yield [(f"{'' if place else label:<{INDENT}}", "bold" if not label.startswith(" ") else "dim"), (part, style)]


_FULL = 100.0


def html_page(explanation: Explanation) -> str:
    """The page."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_finalize, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(resources.files(__package__).joinpath("explanation.html").read_text("utf-8"))
    other = explanation.other
    sides = []
    if explanation.texts is not None:
        title = "The original" if other is not None and other.fate is Fate.ORIGINAL else "The page beside it"
        sides = [("The page", explanation.asked.url or explanation.asked.id, explanation.texts.page)]
        if other is not None and explanation.texts.other is not None:
            sides.append((title, other.entry.url or other.entry.id, explanation.texts.other))
    return template.render(
        explanation=explanation,
        told=explanation.compared.told,
        means=explanation.reason.meaning,
        sides=sides,
        other=other,
        key_name=lambda kind: key_name(kind, explanation.compared.scheme),
        failed_by=failed_thresholds,
        needs=threshold_text,
        shown=figure_text,
        part=_part,
        original=Fate.ORIGINAL,
    )


def _part(bar: PairThreshold) -> dict[str, float] | None:
    """How a bar is drawn: what there is and what is needed, in hundredths of its width; None for what is no amount."""
    most = max(bar.had, bar.needed) if bar.unit else 1.0
    if bar.unit == "yes" or most <= 0:
        return None
    had, needed = (min(max(value / most, 0.0), 1.0) * _FULL for value in (bar.had, bar.needed))
    return {"had": round(had, 1), "needed": round(needed, 1)}


def _finalize(value: Any) -> Any:
    """What may turn text around or move a cursor is escaped."""
    return escape_control_characters(value) if type(value) is str else value
