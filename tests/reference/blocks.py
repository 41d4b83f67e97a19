"""What stands around each block, by the letter of stream/sign/text/html/elements.py: the twin of what the scanner
notes.
"""

from collections import Counter
from dataclasses import dataclass

from spotsieve.stream.sign.text.html import elements
from tests.reference.text import KINDS, Scanner, Words

LEADS = {name: lead for lead, names in elements.LEADS.items() for name in names}


@dataclass(frozen=True)
class Noted:
    """A block: its tokens, how many begin in links, the numbers of the sections open around it, its lead."""

    tokens: tuple[str, ...]
    links: int
    sections: frozenset[int]
    lead: int


def noted_blocks_of(page: bytes, markup: bool) -> list[Noted]:
    """The blocks of a page; of plain text, what stands between blank lines."""
    text = page.decode("utf-8", "replace")
    words = NotedWords()
    if markup:
        _NotingScanner(text, words).run()
    else:
        for line in text.split("\n"):
            if all(character <= " " for character in line):
                words.end_block()
            words.lead = elements.LEAD_PLAIN
            for character in line:
                words.read(character)
            words.end_word()
    words.end_block()
    return words.noted


class NotedWords(Words):
    """Words that know where they began."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Noted] = []
        self.linked: list[bool] = []
        self.in_link = self.word_linked = False
        self.depths: Counter[int] = Counter()
        self.lead = elements.LEAD_BODY

    def read(self, character: str) -> None:
        before = self.word
        super().read(character)
        if self.word and not before:
            self.word_linked = self.in_link
        if len(self.block) > len(self.linked):
            # a character that stands alone
            self.linked.append(self.in_link)

    def end_word(self) -> None:
        if self.word:
            self.linked.append(self.word_linked)
        super().end_word()

    def end_block(self) -> None:
        if self.hidden:
            return
        self.end_word()
        if self.block:
            sections = frozenset(section for section, depth in self.depths.items() if depth)
            self.noted.append(Noted(tuple(self.block), sum(self.linked), sections, self.lead))
        self.linked = []
        super().end_block()


class _NotingScanner(Scanner):
    """Takes note of every tag that stays: not of those in templates."""

    words: NotedWords

    def keep_context(self) -> None:
        words = self.words
        self.context = words.in_link, words.depths.copy(), words.lead

    def restore_context(self) -> None:
        words = self.words
        words.in_link, words.depths, words.lead = self.context

    def element(self, name: str, closing: bool) -> None:
        super().element(name, closing)
        words = self.words
        if words.hidden:
            return
        if name == "a":
            words.in_link = not closing
        for section, names in enumerate(elements.SECTIONS):
            if name in names:
                deeper = words.depths[section] + (-1 if closing else 1)
                words.depths[section] = min(max(deeper, 0), elements.DEEPEST_SECTION)
        if KINDS.get(name) == elements.BLOCK:
            words.lead = elements.AFTER if closing else LEADS.get(name, elements.LEAD_OTHER)
