"""The text kernel's plain-Python reference_kernel: HTML or plain text to blocks of tokens, one character at a time."""

import html.entities
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.text.batch import MOST_SIGNATURE_LINES
from spotsieve.stream.sign.text.characters import (
    EXPANDED,
    IDEOGRAPH,
    IGNORED,
    JOINING,
    MARK,
    OPEN_IDEOGRAPH,
    SEPARATOR,
    WORD,
    class_and_folding,
)
from spotsieve.stream.sign.text.html import elements

BLANKS = "\t\n\f\r "
NAME_ENDS = BLANKS + "/>"
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
ALPHANUMERIC = LETTERS | frozenset("0123456789")
# Foreign content (HTML standard, 13.2.6.5): where HTML goes on in svg and math, and which start tags end them
POINTS = {"svg": ("foreignobject", "desc", "title"), "math": ("mi", "mo", "mn", "ms", "mtext")}
BREAKOUT = frozenset(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var".split()
)
DEEPEST_FOREIGN = 16
KINDS = {name: kind for kind, names in elements.ELEMENTS.items() for name in names}
# What the HTML standard makes of &#128; to &#159;: windows-1252, where it has a character
WINDOWS_1252 = {
    code: bytes([code]).decode("windows-1252") if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(code)
    for code in range(128, 160)
}
_EMPTY_LINE = re.compile(r"(?:\A|\n)(?:[\x00-\x20]?\n|[\x00-\x20]\Z)")
_CONTROLS = "".join(map(chr, range(33)))
_SIGNATURE = re.compile(r"--[\x00-\x20]{0,2}")
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_CLASSES: dict[str, tuple[int, str]] = {}


def blocks_of(page: bytes, markup: int) -> list[list[str]]:
    """The normalised tokens of a page, block by block; what tests.fixtures.pages.page_tokens.tokens_of must return."""
    text = page.decode("utf-8", "replace")
    words = Words()
    if markup:
        Scanner(text, words, markup == Markup.XML).run()
    else:
        # a blank line holds nothing above U+0020
        for line in text_of_plain(text).split("\n"):
            if all(character <= " " for character in line):
                words.end_block()
            else:
                for character in line:
                    words.read(character)
                words.end_word()
    words.end_block()
    return words.blocks


def text_of_plain(page: str) -> str:
    """Plain text; of a message without its header and its signature (RFC 5322, 2.1; RFC 3676, 4.3)."""
    header, *rest = _EMPTY_LINE.split(re.sub(r"\Afrom [^\n]*(?:\n|\Z)", "", page, flags=re.IGNORECASE), maxsplit=1)
    names = set[str]()
    for line in header.split("\n"):
        name, colon, _ = line.partition(":")
        if line[:1] in (" ", "\t") and names:
            continue
        if not colon or not name or not all("!" <= character <= "~" for character in name):
            return page
        names.add(name.translate(_ASCII_LOWER))
    if not rest or not {"from", "subject"} <= names:
        return page
    lines = rest[0].rstrip(_CONTROLS).split("\n")
    for place in range(len(lines) - 1, max(-1, len(lines) - 2 - MOST_SIGNATURE_LINES), -1):
        if _SIGNATURE.fullmatch(lines[place]):
            above = "\n".join(lines[:place])
            return above if above.strip(_CONTROLS) else "\n".join(lines)
    return "\n".join(lines)


def title_of(page: bytes, markup: int) -> list[str]:
    """The normalised tokens of a page's title: of the first <title> outside svg and math."""
    return [word for part in title_parts_of(page, markup) for word in part]


def title_parts_of(page: bytes, markup: int) -> list[list[str]]:
    """The normalised tokens of each part of a title. '|' divides parts, and so do signs alone between blanks."""
    scanner = Scanner(page.decode("utf-8", "replace"), Words(), markup == Markup.XML)
    scanner.run()
    title, kinds, ends = scanner.title or "", "", [0]
    while ends[-1] < len(title):
        characters, length = character_reference(title, ends[-1]) if title[ends[-1]] == "&" else (title[ends[-1]], 1)
        kinds += _kind_in_title(characters[0])
        ends.append(ends[-1] + length)
    parts, start = list[list[str]](), 0
    for divider in [*re.finditer(r"\||(?<= )-+(?= )", kinds), None]:
        words = Words()
        escapable_text(title[ends[start] : ends[divider.start()] if divider else len(title)], words)
        words.end_block()
        parts.append([word for block in words.blocks for word in block])
        start = divider.end() if divider else 0
    return parts


def _kind_in_title(character: str) -> str:
    """'|' for itself, a space for a blank, '-' for a sign that may divide a title, otherwise 'a'."""
    if character == "|":
        return "|"
    if character <= " " or character == "\u00a0":
        return " "
    return "-" if class_and_folding(character)[0] == SEPARATOR and character not in "&+" else "a"


@dataclass
class Concealed:
    """A foreign element whose text is not shown, how many roots and points are open, how often it is open in itself."""

    name: str
    depth: int
    times: int = 1


class Words:
    """Characters become words, words blocks."""

    def __init__(self) -> None:
        self.blocks: list[list[str]] = []
        self.block: list[str] = []
        self.word = ""
        self.alone = False
        self.hidden = False

    def read(self, character: str) -> None:
        if self.hidden:
            return
        known = _CLASSES.get(character)
        if known is None:
            known = _CLASSES[character] = class_and_folding(character)
        kind, folded = known
        if kind == EXPANDED:
            for one in folded:
                self.read(one)
            return
        if kind == IGNORED or (kind == MARK and not self.word):
            return
        if kind != MARK and (self.alone or kind not in (WORD, JOINING)):
            self.end_word()
        if kind in (IDEOGRAPH, OPEN_IDEOGRAPH):
            self.alone = True
        if kind != SEPARATOR:
            self.word += folded

    def end_word(self) -> None:
        if self.word:
            word = composed(self.word)
            self.block.append(word[0] if self.alone else word)
            self.word, self.alone = "", False

    def end_block(self) -> None:
        if not self.hidden:
            self.end_word()
            if self.block:
                self.blocks.append(self.block)
                self.block = []


def composed(word: str) -> str:
    """A folded word in NFC; the dot above an i is dropped, and an iota subscript becomes an iota."""
    kept, base = [], ""
    for character in unicodedata.normalize("NFD", word):
        base = base if unicodedata.combining(character) else character
        if not (character == "\u0307" and base == "i"):
            kept.append("\ue345" if character == "\u0345" else character)
    # A private character does not compose with the letter, as an iota subscript does
    return unicodedata.normalize("NFC", "".join(kept)).replace("\ue345", "ι")


class Scanner:
    """The HTML standard's tokenizer (13.2.5), as far as it decides what is text."""

    def __init__(self, text: str, words: Words, xml: bool) -> None:
        self.text = text
        self.xml = xml
        self.at = 0
        self.attributes: dict[str, str] = {}
        self.empty = False
        self.unclosed: set[str] = set()
        self.words = words
        self.foreign: list[str] = []
        self.links = 0
        self.concealed: list[Concealed] = []
        self.templates = 0
        self.title: str | None = None

    def run(self) -> None:
        text, words = self.text, self.words
        while self.at < len(text):
            character = text[self.at]
            if character == "<":
                self.markup()
            elif character == "&":
                self.reference()
            else:
                if character != "\0":
                    words.read(character)
                self.at += 1
        words.end_word()
        words.hidden = False

    def markup(self) -> None:
        text, at = self.text, self.at
        following = text[at + 1 : at + 2]
        if following in LETTERS:
            self.tag(at + 1, closing=False)
        elif following == "/" and text[at + 2 : at + 3] in LETTERS:
            self.tag(at + 2, closing=True)
        elif text.startswith("<!--", at):
            self.comment(at + 4)
        elif self.has_cdata() and text.startswith("<![CDATA[", at):
            end = self.find("]]>", at + 9)
            for character in text[at + 9 : end]:
                self.words.read(character)
            self.at = end + 3
        elif following in ("!", "?") or (following == "/" and at + 2 < len(text)):
            self.at = self.find(">", at + 2) + 1
        else:
            self.words.read("<")
            self.at += 1

    def has_cdata(self) -> bool:
        return self.xml or self.foreign[-1:] not in ([], ["foreignobject"])

    def find(self, wanted: str, start: int) -> int:
        place = self.text.find(wanted, start)
        return len(self.text) if place < 0 else place

    def comment(self, start: int) -> None:
        for abrupt in (">", "->"):
            if self.text.startswith(abrupt, start):
                self.at = start + len(abrupt)
                return
        self.at = min(self.find("-->", start) + 3, self.find("--!>", start) + 4)

    def reference(self) -> None:
        characters, length = character_reference(self.text, self.at)
        for character in characters:
            self.words.read(character)
        self.at += length

    def tag(self, start: int, closing: bool) -> None:
        text = self.text
        at = start
        while at < len(text) and text[at] not in NAME_ENDS:
            at += 1
        name = text[start:at].translate(_ASCII_LOWER)
        self.at, self.attributes, self.empty = read_attributes(text, at)
        if self.at > len(text):
            # the page ends inside the tag: it is none
            return
        self.element(name, closing)

    def element(self, name: str, closing: bool) -> None:
        words = self.words
        kind = self.kind_of(name, closing)
        if kind not in (elements.INLINE, elements.HIDDEN, elements.SCRIPT):
            words.end_word()
        if self.is_empty_xml(kind, closing):
            if kind == elements.BLOCK:
                words.end_block()
            return
        if (self.foreign or kind == elements.FOREIGN) and self.foreign_element(name, kind, closing):
            return
        if kind == elements.BLOCK:
            words.end_block()
        if kind <= elements.BREAK:
            return
        if kind == elements.TEMPLATE:
            shadow = self.attributes.get("shadowrootmode", "").translate(_ASCII_LOWER) in ("open", "closed")
            if closing or self.templates or not shadow:
                self.templates = max(0, self.templates + (-1 if closing else 1))
            self.hide()
        elif not closing:
            self.raw_text(kind, name)

    def kind_of(self, name: str, closing: bool) -> int:
        """The kind of a tag; in XML, the title of an entry and the end tag of any title are blocks."""
        if self.xml and name == "title" and not self.foreign:
            return elements.BLOCK if closing or (self.title is not None and not self.empty) else elements.HIDDEN
        return KINDS.get(name, elements.INLINE)

    def is_empty_xml(self, kind: int, closing: bool) -> bool:
        """Whether this is an empty-element tag of XML. In svg and math the slash counts in HTML too."""
        return self.xml and self.empty and not closing and kind != elements.FOREIGN and not self.in_foreign()

    def in_foreign(self) -> bool:
        return self.foreign[-1:] in (["svg"], ["math"])

    def hide(self) -> None:
        self.words.hidden = self.templates > 0 or bool(self.concealed)

    def keep_context(self) -> None:
        """Hears that the outermost root of foreign content may begin here."""

    def restore_context(self) -> None:
        """Hears that foreign content ends here, and all that was opened in it."""

    def foreign_element(self, name: str, kind: int, closing: bool) -> bool:
        """Follow a tag in svg or math; whether that is all there is to do."""
        before, inside = list(self.foreign), self.in_foreign()
        opens = not closing and not self.empty
        if not before:
            self.links = 0
            self.keep_context()
        if closing:
            self.foreign_end(name, kind)
        else:
            self.foreign_start(name, opens)
        if name == "template" and closing and inside and self.templates:
            own = self.concealed and self.concealed[0].name == name
            self.foreign = self.foreign if own else []
        if before and not self.foreign:
            self.restore_context()
        ended = False
        for one in list(self.concealed):
            same = name == one.name and inside and self.foreign == before and len(before) == one.depth
            one.times += same * (opens - closing)
            if len(self.foreign) < one.depth or one.times == 0:
                self.concealed = []
                ended = self.foreign == before
        self.hide()
        if kind == elements.FOREIGN or (ended and closing and kind > elements.BREAK):
            return True
        if not inside or kind <= elements.BREAK or not (self.in_foreign() or name == "title"):
            return False
        self.words.end_word()
        shown = (elements.TEXTAREA, elements.XMP, elements.PLAINTEXT)
        if opens and kind not in shown and not self.concealed:
            self.concealed = [Concealed(name, len(self.foreign))]
            self.hide()
        return True

    def foreign_start(self, name: str, opens: bool) -> None:
        if name in BREAKOUT:
            self.leave_foreign()
            return
        innermost = self.foreign[-1] if self.foreign else ""
        if self.in_foreign() and name == "a":
            self.links += opens
        roots = name in ("svg", "math") and (name == innermost or not self.in_foreign())
        points = name in POINTS.get(innermost, ())
        if opens and (roots or points) and len(self.foreign) < DEEPEST_FOREIGN:
            self.foreign.append(name)

    def foreign_end(self, name: str, kind: int) -> None:
        if name in ("svg", "math", *POINTS["svg"], *POINTS["math"]):
            if name in self.foreign:
                while self.foreign.pop() != name:
                    pass
        elif name in BREAKOUT or kind in (elements.BLOCK, elements.BREAK):
            self.leave_foreign()
        elif name == "a" and self.in_foreign():
            if self.links == 0:
                self.leave_foreign()
            self.links = max(0, self.links - 1)

    def leave_foreign(self) -> None:
        while self.in_foreign():
            self.foreign.pop()

    def raw_text(self, kind: int, name: str) -> None:
        # the slash counts even at the end of an unquoted value
        bare = kind < elements.TEXTAREA and (self.text[self.at - 2] == "/" or name == "noscript")
        if bare and name in self.unclosed:
            return
        start = self.at
        end = self.raw_text_end(kind, name)
        if bare and end == len(self.text):
            # without an end tag, the author meant no content
            self.unclosed.add(name)
            return
        if name == "title" and not self.foreign and self.title is None:
            self.title = self.text[start:end]
        if kind == elements.TEXTAREA:
            escapable_text(self.text[start:end], self.words)
            self.words.end_word()
        elif kind in (elements.XMP, elements.PLAINTEXT):
            for character in self.text[start:end]:
                self.words.read(character)
            self.words.end_word()
        self.at = end

    def raw_text_end(self, kind: int, name: str) -> int:
        if kind == elements.PLAINTEXT:
            return len(self.text)
        if kind == elements.SCRIPT:
            return script_end(self.text, self.at)
        return raw_end(self.text, self.at, name)


def escapable_text(text: str, words: Words) -> None:
    """Read text in which character references count, and tags do not."""
    at = 0
    while at < len(text):
        characters, length = character_reference(text, at) if text[at] == "&" else (text[at], 1)
        for character in characters:
            words.read(character)
        at += length


def read_attributes(text: str, at: int) -> tuple[int, dict[str, str], bool]:
    """(behind the '>' of a tag whose name ends at `at`, its attributes, whether it closes itself).

    Beyond the text where the tag has no '>'.
    """
    attributes: dict[str, str] = {}
    nowhere = len(text) + 1, attributes, False

    def skip(wanted: Callable[[str], bool]) -> str:
        nonlocal at
        start = at
        while at < len(text) and wanted(text[at]):
            at += 1
        return text[start:at]

    while at < len(text):
        between = skip(lambda character: character in BLANKS or character == "/")
        if at >= len(text):
            return nowhere
        if text[at] == ">":
            return at + 1, attributes, between.endswith("/")
        first = text[at]
        at += 1
        name = (first + skip(lambda character: character not in NAME_ENDS and character != "=")).translate(_ASCII_LOWER)
        skip(lambda character: character in BLANKS)
        value = ""
        if text[at : at + 1] == "=":
            at += 1
            skip(lambda character: character in BLANKS)
            quote = text[at : at + 1]
            if quote in ("'", '"'):
                start, at = at + 1, text.find(quote, at + 1) + 1
                if at == 0:
                    return nowhere
                value = text[start : at - 1]
            else:
                value = skip(lambda character: character not in BLANKS and character != ">")
        attributes.setdefault(name, value)
    return nowhere


def raw_end(text: str, start: int, name: str) -> int:
    """The '<' of the first end tag of that name."""
    lowered = text.translate(_ASCII_LOWER)
    at = lowered.find("</" + name, start)
    while at >= 0:
        behind = text[at + 2 + len(name) : at + 3 + len(name)]
        if behind and behind in NAME_ENDS:
            return at
        at = lowered.find("</" + name, at + 1)
    return len(text)


def script_end(text: str, at: int) -> int:
    """The '<' of the end tag that closes a script, by the script data states: plain, escaped, double escaped."""
    state = "plain"

    def tag_at(opening: str) -> bool:
        behind = text[at + len(opening) : at + len(opening) + 1]
        found = text[at : at + len(opening)].translate(_ASCII_LOWER) == opening
        return found and bool(behind) and behind in NAME_ENDS

    while at < len(text):
        if state == "plain":
            if tag_at("</script"):
                return at
            if text.startswith("<!--", at):
                state = "escaped"
                at += 2
                continue
        elif text.startswith("-->", at):
            state = "plain"
            at += 3
            continue
        elif state == "escaped":
            if tag_at("</script"):
                return at
            if tag_at("<script"):
                state = "double"
        elif tag_at("</script"):
            state = "escaped"
        at += 1
    return len(text)


def character_reference(text: str, at: int) -> tuple[str, int]:
    """(characters, length) of the character reference at '&'; ('&', 1) where it is none."""
    if text.startswith("#", at + 1):
        return _numeric_reference(text, at)
    end = at + 1
    while end < len(text) and text[end] in ALPHANUMERIC:
        end += 1
    for stop in range(min(end + 1, at + 1 + 33), at + 1, -1):
        found = html.entities.html5.get(text[at + 1 : stop])
        if found is not None:
            return found, stop - at
    return "&", 1


def _numeric_reference(text: str, at: int) -> tuple[str, int]:
    start = at + 2
    digits, base = "0123456789", 10
    if text[start : start + 1] in ("x", "X"):
        start += 1
        digits, base = "0123456789abcdefABCDEF", 16
    end = start
    while end < len(text) and text[end] in digits:
        end += 1
    if end == start:
        return "&", 1
    # more digits than 5000 are above the last code point unless they are zeros
    significant = text[start:end].lstrip("0")
    code = int(significant or "0", base) if len(significant) < 10 else 0x110000
    length = end - at + (text[end : end + 1] == ";")
    if code in WINDOWS_1252:
        return WINDOWS_1252[code], length
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return "\ufffd", length
    return chr(code), length
