"""Finds the text of a page that its scripts would show: linked data, the state of a framework, other inline data.

    source          script
    JSON-LD         type="application/ld+json": the values of articleBody and text, or else of description
    __NEXT_DATA__   id="__NEXT_DATA__"
    __NUXT__        id="__NUXT_DATA__", or window.__NUXT__ = ...
    JSON            any other type="application/json"
    inline state    window.__INITIAL_STATE__ = {...}, JSON.parse("..."), self.__next_f.push([1, "..."])

The first source with enough prose gives the text; descriptions come last. It is put before the body, escaped, as the
paragraphs of an article: there no unclosed element of the page hides it, and different bodies stay different.

A page whose visible text is only the frame of an application, and whose scripts hold no prose, has no text of its own
(is_shell).
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.base.page import KERNEL_PADDING_BYTES, FilterReason, Page
from spotsieve.stream.sign.text.html.skips import find_byte
from spotsieve.stream.sign.text.machine import load_word
from spotsieve.stream.sign.text.prose import (
    MARKUP,
    Prose,
    count_words,
    parse_json,
    prose_of,
    strings_in,
    strings_in_code,
    unescape_html,
)

THIN_WORDS = 100
"""A page with this many visible words outside links keeps them as its text."""
LEAST_PROSE = 12
"""The fewest words that are the text of a page."""
_PADDING = bytes(KERNEL_PADDING_BYTES)
_LONGEST_TAG = 2048
_STATE_BYTES = 1024
"""The name of a state stands within the first bytes of its script."""

_LINKED, _NEXT, _NUXT, _JSON, _STATE = "JSON-LD", "__NEXT_DATA__", "__NUXT__", "JSON", "inline state"
_TYPE = re.compile(rb"""\btype\s*=\s*["']?\s*([^\s"'>;]+)""", re.IGNORECASE)
_ID = re.compile(rb"""\bid\s*=\s*["']?([^\s"'>]+)""", re.IGNORECASE)
_FRAMEWORKS = {b"__NEXT_DATA__": _NEXT, b"__NUXT_DATA__": _NUXT}
_STATE_NAME = re.compile(
    rb"__NUXT|__next_f\b|__[A-Z][A-Z0-9_]*__|__remixContext|__staticRouterHydrationData|__sveltekit"
    rb"|[iI]nitial_?(?:State|Data|Props|Store)|[pP]reloaded_?(?:State|Data)|JSON\.parse\(|globalContent"
)
_ASSIGNED = re.compile(r"=\s*(?=[{\[])")
_TEXTS, _DESCRIPTIONS = ("articleBody", "text"), ("description",)
_OTHER_THINGS = frozenset(
    "author brand creator founder image isPartOf location logo offers organizer potentialAction provider publisher "
    "seller sourceOrganization worksFor".split()
)
"""Properties whose values describe something else than the page."""
_SITES = re.compile(r"Organization|WebSite|Page\b|Blog\b|Person|Brand|Place|Business|Corporation|List\b|Image")
"""Types of linked data whose descriptions say nothing about the page. That of a WebPage is often the one of its site:
generators of sites put it on every page without one."""
_INVALID_TEXT = re.compile(r'"(articleBody|text)"\s*:\s*("(?:[^"\\]|\\.)*+"?)', re.DOTALL)
_BEGINNINGS = ("<!--", "//<![CDATA[", "// <![CDATA[", "/*<![CDATA[*/", "/* <![CDATA[ */", "<![CDATA[")
_ENDS = ("//-->", "-->", "//]]>", "// ]]>", "/*]]>*/", "/* ]]> */", "]]>")


class Script(NamedTuple):
    """A script that may hold text. source: of the table above  content: None if the page ends before the script"""

    source: str
    content: str | None


def read_script_text(page: Page, words: int) -> Page:
    """The page with the text of its scripts before its body, or exempt from judging if it has no text of its own.

    words: number of its visible words outside links. A page that keeps its visible text is returned unchanged.
    """
    if not page.markup or not page.judgeable or page.text_source or words >= THIN_WORDS:
        return page
    scripts, has_script = _scripts_in(page.body)
    if not has_script:
        return page
    for source, prose in _texts_of(scripts, words) if scripts else ():
        if prose.words >= LEAST_PROSE:
            paragraphs = "".join(f"<p>{html.escape(paragraph)}</p>\n" for paragraph in prose.paragraphs)
            text = f"<article>\n{paragraphs}</article>\n".encode("utf-8", "replace")
            return page._replace(body=text + page.body, text_source=source)
    if any(script.content is None for script in scripts) or (words <= SHELL_WORDS and is_shell(page.body, words)):
        return page._replace(filtered=FilterReason.SCRIPT_ONLY, judgeable=False)
    return page


def _texts_of(scripts: Sequence[Script], words: int) -> Iterator[tuple[str, Prose]]:
    """The sources with more prose than visible words, best first. words: as in read_script_text"""
    contents = dict[str, list[str]]()
    for script in scripts:
        if script.content is not None:
            contents.setdefault(script.source, []).append(script.content)
    linked = [(content, _linked_value(content)) for content in contents.get(_LINKED, ())]
    prose = prose_of(text for one in linked for text in _linked_texts(*one, _TEXTS))
    if prose.words > words:
        yield _LINKED, prose
    for source in (_NEXT, _NUXT, _JSON, _STATE):
        if source not in contents:
            continue
        prose = prose_of(text for content in contents[source] for text in _data_strings(content))
        # Such data often holds texts of the whole site, too: a page with some text of its own needs much more.
        if prose.words > (words if words <= SHELL_WORDS else 2 * words):
            yield source, prose
    if words <= SHELL_WORDS:
        prose = prose_of(text for one in linked for text in _linked_texts(*one, _DESCRIPTIONS))
        if prose.words > words:
            yield _LINKED, prose


def _scripts_in(body: bytes) -> tuple[list[Script], bool]:
    """The scripts that may hold text, outside comments, in order; and whether the page has any script."""
    found, has_script = find_scripts(np.frombuffer(body + _PADDING, np.uint8), len(body))
    scripts, behind = list[Script](), 0
    for at, start, closed in found.tolist():
        end = closed if closed >= 0 else len(body)
        if source := _source_of(body[at:start], body[start : min(start + _STATE_BYTES, end)]):
            comment = body.rfind(b"<!--", behind, at)
            if comment < 0 or body.find(b"-->", comment, at) >= 0:
                content = body[start:end].decode("utf-8", "replace") if closed >= 0 else None
                scripts.append(Script(source, content))
            behind = end
    return scripts, has_script


_OPEN_BYTES = len(b"<script")
_U64, _U56, _U48, _U32, _U16 = (np.uint64(2**bits - 1) for bits in (64, 56, 48, 32, 16))


def _word(text: bytes) -> np.uint64:
    """The first bytes of a text as load_word reads them."""
    return np.uint64(int.from_bytes(text[:8], "little"))


_OPEN, _CLOSE, _SRC = _word(b"<script"), _word(b"</script"), _word(b"src=")
_JSON_NAMES = _word(b"json"), _word(b"JSON"), _word(b"_DATA__")
_STATE_MARKS = _word(b"__"), _word(b"nitial"), _word(b"reloaded"), _word(b"JSON.parse("), _word(b"globalContent")
"""Each name of a state has one of them."""


@kernel
def find_scripts(page, size):
    """The scripts that may hold text, by their tags and the first bytes of their contents, in order.

    page: uint8[size + KERNEL_PADDING_BYTES]  size: int64
    -> int64[m, 3], the place of each tag, of its content, and of its end tag, which is -1 if the page ends before;
    and whether the page has any script: bool
    """
    found = np.empty((size // _OPEN_BYTES + 1, 3), np.int64)
    first = np.int64(page.ctypes.data)
    page_end = first + size
    count, at = 0, _find(first, page_end, _OPEN, _U56)
    has_script = at < page_end
    while at < page_end:
        limit = min(at + _LONGEST_TAG, page_end)
        start = find_byte(at, limit, np.uint8(62)) + 1
        if start > limit:
            at = _find(at + 1, page_end, _OPEN, _U56)
            continue
        closed = _find(start, page_end, _CLOSE, _U64)
        named, has_source = _read_tag(at, start)
        if named or (not has_source and _has_mark(start, min(start + _STATE_BYTES, closed))):
            found[count] = at - first, start - first, closed - first if closed < page_end else np.int64(-1)
            count += 1
        at = _find(closed, page_end, _OPEN, _U56)
    return found[:count], has_script


@part
def _find(address, end, word, mask):  # int64, int64, uint64, uint64 -> int64
    """The address of a word that begins with "<", or `end`. mask: the bits of the word that count"""
    address = find_byte(address, end, np.uint8(60))
    while address < end:
        if load_word(address) & mask == word:
            return address
        address = find_byte(address + 1, end, np.uint8(60))
    return end


@part
def _read_tag(address, end):  # int64, int64 -> (bool, bool)
    """Whether a tag may name data, and whether it has a src."""
    named, has_source = False, False
    while address < end:
        word = load_word(address)
        low = word & _U32
        named |= low == _JSON_NAMES[0] or low == _JSON_NAMES[1] or word & _U56 == _JSON_NAMES[2]
        has_source |= low == _SRC
        address += 1
    return named, has_source


@part
def _has_mark(address, end):  # int64, int64 -> bool
    """Whether one of _STATE_MARKS begins between two addresses."""
    while address < end:
        word = load_word(address)
        if (
            word & _U16 == _STATE_MARKS[0]
            or word & _U48 == _STATE_MARKS[1]
            or word == _STATE_MARKS[2]
            or word == _STATE_MARKS[3]
            or word == _STATE_MARKS[4]
        ):
            return True
        address += 1
    return False


def _source_of(tag: bytes, beginning: bytes) -> str:
    """The source of a script; "" for a script without data. beginning: the first bytes of its content"""
    if b"json" not in tag and b"_DATA__" not in tag and b"JSON" not in tag:
        return _state_of(tag, beginning)
    media_type, name = (found[1] if found else b"" for found in (_TYPE.search(tag), _ID.search(tag)))
    media_type = media_type.lower()
    if media_type == b"application/ld+json":
        return _LINKED
    if name in _FRAMEWORKS:
        return _FRAMEWORKS[name]
    return _JSON if media_type.endswith((b"/json", b"+json")) else ""


def _state_of(tag: bytes, beginning: bytes) -> str:
    state, media_type = _STATE_NAME.search(beginning), _TYPE.search(tag)
    if state is None or (media_type and b"javascript" not in media_type[1].lower() and media_type[1] != b"module"):
        return ""
    return _NUXT if b"NUXT" in state[0] else _STATE


def _data_strings(content: str) -> Iterator[str]:
    """The strings of a JSON text, or of JavaScript that assigns a value."""
    text = _unwrapped(content)
    assigned = None if text.startswith(("{", "[")) else _ASSIGNED.search(text)
    value = parse_json(text[assigned.end() if assigned else 0 :].rstrip("; \n"))
    return strings_in_code(text) if value is None else strings_in(value)


def _linked_value(content: str) -> object:
    text = _unwrapped(content).rstrip(";")
    return parse_json(unescape_html(text) if text.startswith(("{&quot;", "[{&quot;")) else text)


def _unwrapped(text: str) -> str:
    """The content of a script without the comment or CDATA section that hides it from old browsers."""
    text = text.strip()
    for beginning in _BEGINNINGS:
        text = text.removeprefix(beginning)
    for end in _ENDS:
        text = text.removesuffix(end)
    return text.strip()


def _linked_texts(content: str, value: object, properties: tuple[str, ...]) -> Iterator[str]:
    """The values of these properties in linked data, in order. value: of the content; None if it is not valid JSON"""
    if value is None:
        for found in _INVALID_TEXT.finditer(content):
            text = parse_json(found[2])
            if found[1] in properties and isinstance(text, str):
                yield text
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            if properties is _TEXTS or not any(map(_SITES.search, _strings_of(one.get("@type")))):
                for name in properties:
                    yield from _strings_of(one.get(name))
            waiting.extend(child for key, child in reversed(one.items()) if key not in _OTHER_THINGS)


def _strings_of(value: object) -> Iterator[str]:
    """The string, or the strings of the list, that a value is."""
    return (one for one in (value if isinstance(value, list) else (value,)) if isinstance(one, str))


SHELL_WORDS = 32
"""Most visible words, outside links, of a shell with an empty root element."""
_LOADING_WORDS, _WARNING_WORDS = 6, 12
"""Most visible words of a shell that says that it loads; outside links, of one that asks for JavaScript."""
_MENU_WORDS = 200
"""Most visible words of a shell with an empty root element, with those of its links."""

_FRAME = frozenset("button footer header nav select".split())
_ROOTS = frozenset("div main section span".split())
_IDS = (
    r"""id=["']?(?:root|app|application|__next|__nuxt|___gatsby|svelte|spa|mount|q-app|"""
    r"""(?:app|react|vue|main|page|site|spa)[-_]?(?:root|app|mount|container|main|shell))(?=["'\s>])"""
)
_ROOT_ID = re.compile(rf"\s{_IDS}", re.IGNORECASE)
_ROOT_NAME = re.compile(r"-(?:app|application|main|root|shell)\Z")
# Each begins with a literal, so searching for it is five times as fast.
_SOME_ROOT = (re.compile(_IDS.encode()), re.compile(rb"></[a-z]+-"))
_LETTER = re.compile(r"\w")
_JAVASCRIPT = re.compile(r"java\s?script|ジャバスクリプト|자바스크립트|джава\s?скрипт|جافا\s?سكريبت", re.IGNORECASE)
_LOADING = re.compile(
    r"loading|please wait|one moment|just a moment|chargement|patienter|\bladen\b|geladen|lädt|laadt|cargando|espere|"
    r"carregando|aguarde|caricamento|attend|загру|завантаж|подожд|зарежд|wczytyw|ładowan|načít|betölt|yükleni|bekle|"
    r"đang tải|memuat|laster|laddar|indlæs|ladataan|φόρτωσ|încarc|učitav|加载|载入|加載|載入|读取|讀取|読み込|ロード|"
    r"お待ち|로딩|로드|불러오|تحميل|بارگذاری|טוען|โหลด|लोड|লোড",
    re.IGNORECASE,
)


def is_shell(body: bytes, words: int) -> bool:
    """Whether an HTML page with scripts shows no text of its own. words: about the number of its words outside links

    An empty custom element may be a widget beside the text of the page, such as a toolbar. It is a root element if its
    name says so, or if no text of the page precedes it and little follows. Signs and invisible characters are no text.
    """
    if words > _WARNING_WORDS and not any(some.search(body) for some in _SOME_ROOT):
        return False
    source = body.decode("utf-8", "replace")
    pieces, warnings = list[tuple[str, bool, bool]](), list[str]()
    start, depth, root = 0, 0, ""
    in_link = has_text = has_root = has_widget = False
    for tag in MARKUP.finditer(source):
        text = source[start : tag.start()]
        start = tag.end()
        pieces.append((text, depth > 0, in_link))
        if text.strip():
            root = ""
            has_text = has_text or not (depth or in_link or _LETTER.search(unescape_html(text)) is None)
        name, ends = (tag["tag"] or "").lower(), bool(tag["end"])
        if name in _FRAME:
            depth = max(0, depth - 1) if ends else depth + 1
        in_link = not ends if name == "a" else in_link
        if (tag["unseen"] or "").lower() == "noscript":
            warnings.append(tag[0])
        if name:
            if ends and name == root:
                is_widget = "-" in name and _ROOT_NAME.search(name) is None
                has_root = has_root or not is_widget
                has_widget = has_widget or not (has_text or name.startswith("amp-"))
            is_root = not ends and ("-" in name or (name in _ROOTS and _ROOT_ID.search(tag[0]) is not None))
            root = name if is_root else ""
    pieces.append((source[start:], depth > 0, in_link))
    shown = _words_of(text for text, _, _ in pieces)
    content = _words_of(text for text, is_frame, _ in pieces if not is_frame)
    own = _words_of(text for text, is_frame, is_link in pieces if not (is_frame or is_link))
    total, words = count_words(shown), count_words(own)
    if not shown or (total <= _LOADING_WORDS and _LOADING.search(shown)):
        return True
    if total > _MENU_WORDS or words > SHELL_WORDS:
        return False
    if has_root or words > _WARNING_WORDS:
        return has_root
    if count_words(content) > SHELL_WORDS:
        return False
    return has_widget or any(_JAVASCRIPT.search(text) for text in (shown, *warnings))


def _words_of(pieces: Iterable[str]) -> str:
    return " ".join(unescape_html(" ".join(pieces)).split())
