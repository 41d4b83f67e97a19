"""Writes text into a real page in place of its own: all other bytes of the page stay as they are.

Where a paragraph keeps its words but for some, only these are exchanged. A paragraph that is replaced keeps its tags
and loses its text; the new text stands outside of its links, so that no page becomes one link.
"""

import html
from collections.abc import Sequence

from spotsieve.stream.explain.shown_text import REFERENCE, Paragraph, tags_in, title_span, words_of
from spotsieve.stream.labelling.sample.own_text import OwnPage

_NEXT = "</p>\n<p>"
_NEXT_PLAIN = "\n\n"


def write_into(target: OwnPage, texts: Sequence[str], title: str | None = None) -> str:
    """The page with these paragraphs in place of its own text. title: of its head, None to leave it

    Paragraphs go one to one; the last one takes what is left, and what has no text any more is emptied.
    """
    parts = _next_to(target.page.markup)
    places = len(target.own)
    given = [*texts[: places - 1], parts.join(texts[places - 1 :])] if len(texts) > places else list(texts)
    given += [""] * (places - len(given))
    source = target.shown.source
    changes = [change for one, text in zip(target.own, given, strict=True) for change in _changes(target, one, text)]
    span = title_span(source) if title is not None and target.page.markup else None
    if span is not None and title is not None:
        changes.append((*span, html.escape(title, quote=False)))
    # From the end to the beginning, so that places stay true.
    for start, end, new in sorted(changes, reverse=True):
        source = source[:start] + new + source[end:]
    return source


def _next_to(markup: bool) -> str:
    return _NEXT if markup else _NEXT_PLAIN


def _changes(target: OwnPage, paragraph: Paragraph, text: str) -> list[tuple[int, int, str]]:
    """What to exchange in the source for a paragraph: (start, end, new)."""
    before = target.shown.text[paragraph.start : paragraph.end]
    if text == before:
        return []
    return _word_changes(target, paragraph, text) or [_whole(target, paragraph, text)]


def _word_changes(target: OwnPage, paragraph: Paragraph, text: str) -> list[tuple[int, int, str]]:
    """The words that differ, where nothing else does and each of them stands in the source as it is shown."""
    new = words_of(text)
    if len(new) != len(paragraph.words):
        return []
    shown, changes, start, before = target.shown, list[tuple[int, int, str]](), paragraph.start, 0
    for old, word in zip(paragraph.words, new, strict=True):
        if shown.text[start : old.start] != text[before : word.start]:
            return []
        start, before = old.end, word.end
        was, is_now = shown.text[old.start : old.end], text[word.start : word.end]
        if was == is_now:
            continue
        first, last = shown.origins[old.start], shown.origins[old.end - 1] + 1
        if shown.source[first:last] != was:
            return []
        changes.append((first, last, is_now))
    return changes if shown.text[start : paragraph.end] == text[before:] else []


def _whole(target: OwnPage, paragraph: Paragraph, text: str) -> tuple[int, int, str]:
    """The whole text of a paragraph, whose tags are kept."""
    shown, markup = target.shown, target.page.markup
    first, last = shown.origins[paragraph.start], _end_in_source(target, paragraph)
    if not markup:
        return first, last, text
    new = _NEXT.join(html.escape(part, quote=False) for part in text.split(_NEXT))
    tags = tags_in(shown.source[first:last])
    links = [number for number, tag in enumerate(tags) if tag.lower().startswith(("<a ", "<a>", "</a"))]
    place = links[0] + 1 if links and tags[links[0]].startswith("</") else 0
    return first, last, "".join([*tags[:place], new, *tags[place:]])


def _end_in_source(target: OwnPage, paragraph: Paragraph) -> int:
    """Where the last character of a paragraph ends, which may be written as a reference such as &amp;."""
    shown, last = target.shown, target.shown.origins[paragraph.end - 1]
    reference = REFERENCE.match(shown.source, last) if target.page.markup else None
    return reference.end() if reference else last + 1
