"""Reads the pages of a sample: of each its own text, by which it is compared and into which copies are planted.

Own text is what the default scheme keeps of a page, without the paragraphs that stand on many pages of its host.

Writes text into a real page in place of its own: all other bytes of the page stay as they are.

Where a paragraph keeps its words but for some, only these are exchanged. A paragraph that is replaced keeps its tags
and loses its text; the new text stands outside of its links, so that no page becomes one link.
"""

import heapq
import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import xxhash

from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.insight.explain.shown_text import (
    REFERENCE,
    Paragraph,
    ShownText,
    paragraphs_of,
    read_text,
    tags_in,
    title_span,
    words_of,
)
from spotsieve.stream.sign.text.tokens import extract_tokens

HOST_SHARE = 0.15
"""A paragraph on more than this share of a host's pages, and on more than HOST_PAGES, is its template."""
HOST_PAGES = 2
FEWEST_WORDS = 20
"""Pages with less own text take no part: nobody could say what is a copy of them."""
MOST_ALIKE = 20
"""Of pages with one text no more are taken."""


@dataclass(frozen=True)
class OwnPage:
    """A page of the sample. own: the paragraphs of its own text  digest: of all its words"""

    page: Page
    shown: ShownText
    own: tuple[Paragraph, ...]
    digest: int

    @property
    def texts(self) -> list[str]:
        """Its own text, by paragraphs."""
        return [self.shown.text[one.start : one.end] for one in self.own]

    @property
    def host(self) -> str:
        """The host of its address."""
        return host_of(self.page.url)

    @cached_property
    def words(self) -> int:
        """Words of its own text."""
        return sum(len(one.words) for one in self.own)


class PageSample:
    """The pages with the smallest digests of all that were read: pages with one text are taken or left together."""

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._seed, self._bound = most, seed, 1 << 64
        self._heap: list[tuple[int, int, Page]] = []
        self._names = set[str]()
        self._alike = Counter[int]()
        self.pages = self.repeated = 0

    def add(self, pages: Sequence[Page]) -> None:
        """Read more pages. Those with the id of an earlier one are counted, and left."""
        for page, digest in zip(pages, _digests(pages, self._seed), strict=True):
            self.pages += 1
            name = id_of(page)
            self.repeated += name in self._names
            if name in self._names or digest >= self._bound or self._alike[digest] >= MOST_ALIKE:
                continue
            self._names.add(name)
            self._alike[digest] += 1
            heapq.heappush(self._heap, (-digest, self.pages, page))
            while len(self._heap) > self._most:
                self._bound = -self._heap[0][0]
                while self._heap and -self._heap[0][0] == self._bound:
                    heapq.heappop(self._heap)

    def taken(self) -> list[Page]:
        """The pages, in the order in which they were read."""
        return [page for _, _, page in sorted(self._heap, key=lambda one: one[1])]


def id_of(page: Page) -> str:
    """The page's own name, or its page id as text."""
    return page.label or page_id_text(page.source, page.partition, page.offset)


def read_own(pages: Sequence[Page]) -> list[OwnPage]:
    """The pages with enough own text, in order."""
    read = [(page, read_text(page.body, page.markup)) for page in pages]
    found = [(page, shown, paragraphs_of(shown, page)) for page, shown in read]
    digests = _digests(pages, 0)
    of_host = Counter(host_of(page.url) for page in pages)
    on_host = Counter[tuple[str, tuple[str, ...]]]()
    for page, _, paragraphs in found:
        on_host.update({(host_of(page.url), _forms(one)) for one in paragraphs})
    own_pages = []
    for (page, shown, paragraphs), digest in zip(found, digests, strict=True):
        host = host_of(page.url)
        most = max(HOST_PAGES, HOST_SHARE * of_host[host])
        own = tuple(one for one in paragraphs if one.kept and on_host[host, _forms(one)] <= most)
        made = OwnPage(page, shown, own, digest)
        if made.words >= FEWEST_WORDS:
            own_pages.append(made)
    return own_pages


class Shingles:
    """The sets of three words in a row of texts, as numbers, which are given as texts are met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, str], int] = {}

    def of(self, texts: Sequence[str]) -> frozenset[int]:
        """Those of one text, whose paragraphs follow each other."""
        numbers, forms = self._numbers, [word.form for text in texts for word in words_of(text)]
        threes = zip(forms, forms[1:], forms[2:], strict=False)
        return frozenset(numbers.setdefault(three, len(numbers)) for three in threes)


def _forms(paragraph: Paragraph) -> tuple[str, ...]:
    return tuple(word.form for word in paragraph.words)


def _digests(pages: Sequence[Page], seed: int) -> list[int]:
    """A digest of all words of each page."""
    if not pages:
        return []
    batch = lay_out(pages)
    tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
    return [
        xxhash.xxh3_64_intdigest(tokens.hashes[first:last].tobytes(), seed=seed)
        for first, last in pairwise(tokens.bounds.tolist())
    ]


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
