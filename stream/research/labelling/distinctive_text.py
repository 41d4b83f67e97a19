"""Reads the distinctive text of sampled pages, and writes other text into a real page in its place.

Distinctive text is the main text of a page by the default scheme, without paragraphs on many pages of its host. Pages
of a sample are compared by it, and copies are planted into it.

Writing leaves all other characters of the page unchanged. If only some words of a paragraph differ, only these are
replaced. Otherwise the paragraph keeps its tags and the new text is placed outside of its links, so that a page never
becomes one link.
"""

import heapq
import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import xxhash

from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.files.verdict_lines import line_id
from spotsieve.stream.sign.features.shown_text import (
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
"""A paragraph on more than this share of a host's pages, and on more than HOST_PAGES pages, is template text."""
HOST_PAGES = 2
FEWEST_WORDS = 20
"""The least words of distinctive text of a page in a sample. With fewer a person cannot recognize a copy."""
MOST_ALIKE = 20
"""The most pages of a sample with the same text."""
_PARAGRAPH_BREAK = "</p>\n<p>"
_PLAIN_BREAK = "\n\n"


@dataclass(frozen=True)
class OwnPage:
    """A page of the sample.

    own: the paragraphs of its distinctive text
    digest: the digest of all its words
    """

    page: Page
    shown: ShownText
    own: tuple[Paragraph, ...]
    digest: int

    @property
    def texts(self) -> list[str]:
        """Its distinctive text, by paragraphs."""
        return [self.shown.text[one.start : one.end] for one in self.own]

    @property
    def host(self) -> str:
        """The host of its URL."""
        return host_of(self.page.url)

    @cached_property
    def words(self) -> int:
        """The number of words of its distinctive text."""
        return sum(len(one.words) for one in self.own)


class PageSample:
    """The pages with the smallest digests of all pages read. Pages with the same text are sampled or left together.

    pages: pages read so far
    repeated: pages with the id of an earlier one, which are left out
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._seed, self._bound = most, seed, 1 << 64
        self._heap: list[tuple[int, int, Page]] = []
        self._names = set[str]()
        self._alike = Counter[int]()
        self.pages = self.repeated = 0

    def add(self, pages: Sequence[Page]) -> None:
        """Add pages. A page with the id of an earlier one is counted and left out."""
        for page, digest in zip(pages, _digests(pages, self._seed), strict=True):
            self.pages += 1
            name = line_id(page)
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
        """The sampled pages, in the order in which they were read."""
        return [page for _, _, page in sorted(self._heap, key=lambda one: one[1])]


def read_own(pages: Sequence[Page]) -> list[OwnPage]:
    """The pages with enough distinctive text, in order."""
    texts = [(page, read_text(page.body, page.markup)) for page in pages]
    pages_read = [(page, shown, paragraphs_of(shown, page)) for page, shown in texts]
    digests = _digests(pages, 0)
    pages_of_host = Counter(host_of(page.url) for page in pages)
    pages_with = Counter[tuple[str, tuple[str, ...]]]()
    for page, _, paragraphs in pages_read:
        pages_with.update({(host_of(page.url), _forms(one)) for one in paragraphs})
    own_pages = []
    for (page, shown, paragraphs), digest in zip(pages_read, digests, strict=True):
        host = host_of(page.url)
        most = max(HOST_PAGES, HOST_SHARE * pages_of_host[host])
        own = tuple(one for one in paragraphs if one.kept and pages_with[host, _forms(one)] <= most)
        own_page = OwnPage(page, shown, own, digest)
        if own_page.words >= FEWEST_WORDS:
            own_pages.append(own_page)
    return own_pages


class Shingles:
    """Numbers the shingles of three words of texts, in the order of their first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, str], int] = {}

    def of(self, texts: Sequence[str]) -> frozenset[int]:
        """The shingles of one text, given by its consecutive paragraphs."""
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
    tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
    return [
        xxhash.xxh3_64_intdigest(tokens.hashes[first:last].tobytes(), seed=seed)
        for first, last in pairwise(tokens.bounds.tolist())
    ]


def write_into(target: OwnPage, texts: Sequence[str], title: str | None = None) -> str:
    """The source of the page with these paragraphs in place of its distinctive text.

    Paragraphs are replaced one by one. The last paragraph of the page gets all remaining texts, and paragraphs without
    a new text become empty.

    title: replaces the title of the page; None keeps it
    """
    paragraph_break = _PARAGRAPH_BREAK if target.page.markup else _PLAIN_BREAK
    places = len(target.own)
    new_texts = (
        [*texts[: places - 1], paragraph_break.join(texts[places - 1 :])] if len(texts) > places else list(texts)
    )
    new_texts += [""] * (places - len(new_texts))
    source = target.shown.source
    changes = [
        change for one, text in zip(target.own, new_texts, strict=True) for change in _changes(target, one, text)
    ]
    span = title_span(source) if title is not None and target.page.markup else None
    if span is not None and title is not None:
        changes.append((*span, html.escape(title, quote=False)))
    # Replace from the end to the beginning, so that offsets stay valid.
    for start, end, new in sorted(changes, reverse=True):
        source = source[:start] + new + source[end:]
    return source


def _changes(target: OwnPage, paragraph: Paragraph, text: str) -> list[tuple[int, int, str]]:
    """The replacements in the source for a paragraph: (start, end, new text)."""
    before = target.shown.text[paragraph.start : paragraph.end]
    if text == before:
        return []
    return _word_changes(target, paragraph, text) or [_paragraph_change(target, paragraph, text)]


def _word_changes(target: OwnPage, paragraph: Paragraph, text: str) -> list[tuple[int, int, str]]:
    """The replacements of the differing words.

    Empty if the paragraphs differ in more than words, or if a differing word is encoded otherwise in the source.
    """
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


def _paragraph_change(target: OwnPage, paragraph: Paragraph, text: str) -> tuple[int, int, str]:
    """The replacement of the whole text of a paragraph. Its tags are kept."""
    shown, markup = target.shown, target.page.markup
    first, last = shown.origins[paragraph.start], _end_in_source(target, paragraph)
    if not markup:
        return first, last, text
    new = _PARAGRAPH_BREAK.join(html.escape(part, quote=False) for part in text.split(_PARAGRAPH_BREAK))
    tags = tags_in(shown.source[first:last])
    links = [number for number, tag in enumerate(tags) if tag.lower().startswith(("<a ", "<a>", "</a"))]
    place = links[0] + 1 if links and tags[links[0]].startswith("</") else 0
    return first, last, "".join([*tags[:place], new, *tags[place:]])


def _end_in_source(target: OwnPage, paragraph: Paragraph) -> int:
    """The end of a paragraph in the source. Its last character may be a reference such as &amp;."""
    shown, last = target.shown, target.shown.origins[paragraph.end - 1]
    reference = REFERENCE.match(shown.source, last) if target.page.markup else None
    return reference.end() if reference else last + 1
