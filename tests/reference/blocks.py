"""What stands around each block, by the letter of stream/sign/text/html/elements.py: the reference for what the
scanner notes.
"""

from collections import Counter
from dataclasses import dataclass

from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.text.html import elements
from tests.reference.text import Scanner, Words, text_of_plain

LEADS = {name: lead for lead, names in elements.LEADS.items() for name in names}


@dataclass(frozen=True)
class Noted:
    """A block: its tokens, how many begin in links, the numbers of the sections open around it, its lead."""

    tokens: tuple[str, ...]
    links: int
    sections: frozenset[int]
    lead: int


def noted_blocks_of(page: bytes, markup: int) -> list[Noted]:
    """The blocks of a page; of plain text, what stands between blank lines."""
    text = page.decode("utf-8", "replace")
    words = NotedWords()
    if markup:
        _NotingScanner(text, words, markup == Markup.XML).run()
    else:
        for line in text_of_plain(text).split("\n"):
            if all(character <= " " for character in line):
                words.end_block()
            words.lead = elements.LEAD_PLAIN
            for character in line:
                words.read(character)
            words.end_word()
    words.end_block()
    return words.noted()


@dataclass(frozen=True)
class _BlockEnd:
    """A block as it ended: its tokens, and how many tags came before its end."""

    tokens: tuple[str, ...]
    tags: int
    lead: int


class NotedWords(Words):
    """Words that know where they began."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[_BlockEnd] = []
        self.before = 0
        # of every token of the page
        self.linked: list[bool] = []
        self.in_link = self.word_linked = False
        # how many tokens came before the first block tag in the open link
        self.link_edge: int | None = None
        self.depths: Counter[int] = Counter()
        # how deep each section is open after every tag
        self.history: list[Counter[int]] = [Counter()]
        self.lead = elements.LEAD_BODY

    def read(self, character: str) -> None:
        before = self.word
        super().read(character)
        if self.word and not before:
            self.word_linked = self.in_link

    def end_word(self) -> None:
        if self.word:
            self.linked.append(self.word_linked)
        super().end_word()
        # a character may end a word and begin the next one
        self.word_linked = self.in_link

    def end_block(self) -> None:
        if self.hidden:
            return
        self.end_word()
        if self.block:
            self.ended.append(_BlockEnd(tuple(self.block), len(self.history), self.lead))
            self.before += len(self.block)
        super().end_block()

    def end_unclosed_link(self) -> None:
        """A link without an end tag ends at the first block tag in it."""
        if self.in_link and self.link_edge is not None:
            self.linked[self.link_edge :] = [False] * (len(self.linked) - self.link_edge)
            self.in_link = self.word_linked = False

    def noted(self) -> list[Noted]:
        """The blocks. A section without an end tag is around no block."""
        self.end_unclosed_link()
        unclosed, found = self.history[-1].copy(), list[Noted]()
        last, tags = len(self.linked), len(self.history)
        for block in reversed(self.ended):
            while tags >= block.tags:
                tags -= 1
                unclosed &= self.history[tags]
            depths = self.history[block.tags - 1]
            sections = {section for section, depth in depths.items() if depth > unclosed[section]}
            first = last - len(block.tokens)
            found.append(Noted(block.tokens, sum(self.linked[first:last]), frozenset(sections), block.lead))
            last = first
        return found[::-1]


class _NotingScanner(Scanner):
    """Takes note of every tag that stays: not of those in templates."""

    words: NotedWords

    def keep_context(self) -> None:
        words = self.words
        self.context = words.in_link, words.link_edge, words.depths.copy(), words.lead

    def restore_context(self) -> None:
        words = self.words
        words.in_link, words.link_edge, depths, words.lead = self.context
        words.depths = depths.copy()
        words.history.append(depths)

    def element(self, name: str, closing: bool) -> None:
        kind = self.kind_of(name, closing)
        empty_xml = self.is_empty_xml(kind, closing)
        empty = empty_xml or (self.empty and not closing and self.in_foreign())
        super().element(name, closing)
        words = self.words
        if words.hidden:
            return
        if name == "a" and not empty:
            self.link(closing)
        for section, names in enumerate(elements.SECTIONS):
            if name in names and not empty_xml:
                deeper = words.depths[section] + (-1 if closing else 1)
                words.depths[section] = min(max(deeper, 0), elements.DEEPEST_SECTION)
        words.history.append(words.depths.copy())
        if kind == elements.BLOCK:
            words.lead = elements.AFTER if closing or empty_xml else LEADS.get(name, elements.LEAD_OTHER)
            if words.link_edge is None:
                words.link_edge = len(words.linked)

    def link(self, closing: bool) -> None:
        words = self.words
        if closing:
            words.in_link = False
            return
        if not self.foreign:
            words.end_unclosed_link()
        words.in_link = "href" in self.attributes or "xlink:href" in self.attributes
        words.link_edge = None
