"""Finds prose in the data of scripts: strings of several words in JSON values and in JavaScript.

A string with markup is read as HTML, and a string with JSON as JSON. URLs, class names, code and the labels of user
interfaces are no prose. Nothing is executed. Every pass takes time linear in the data.
"""

import html
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import orjson

LEAST_WORDS = 6
"""A shorter string is a label. Two characters of a script without spaces count as a word."""
DEEPEST_DATA = 2
"""JSON in a string of JSON is read up to this depth."""
_ODD_SHARE = 0.4
_MOST_DIGITS = 7
"""Decimal digits of the last character: 1114111."""

_SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_ODD = re.compile(r"\S*[{}\[\]<>=|\\^_$/\d]\S*|\S*\w[:.-]\w\S*|\S+;(?=\s|\Z)")
_CODE = re.compile(r"[{}<>=;|\\]")
_UNSEEN = r"script|style|noscript|template|iframe|svg|title|noembed|noframes"
MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<svg(?![\w-])[^<>]*+(?<=/)>"
    rf"|<(?P<unseen>{_UNSEEN})(?![\w-])[^<>]*+>.*?(?:</(?P=unseen)(?![\w-])[^<>]*+>|\Z)"
    r"""|<(?P<end>/?)(?P<tag>[a-z][a-z0-9-]*+)(?:[^<>"']|"[^"<]*+"|'[^'<]*+'|["'])*+>|<[!?/][^<>]*+>""",
    re.DOTALL | re.IGNORECASE,
)
"""A comment, an empty <svg/>, an element without visible text, or a tag. Linear: it stops at the next "<"."""
_DECIMAL_REFERENCE = re.compile("&#(?=[0-9])0*+([0-9]*+);?")
_LONG_DIGITS = re.compile("&#[0-9]{16}")
_INLINE = frozenset(
    "a abbr acronym annotation b bdi bdo big cite code data del dfn em font i ins kbd label mark math mfrac mi mn mo "
    "mrow ms msqrt msub msubsup msup mtext q s samp semantics small span strike strong sub sup time tt u var "
    "wbr".split()
)
_TAG = re.compile(r"<[a-z!/]", re.IGNORECASE)
_ENDS = re.compile(r"</(?:p|div|li|ul|ol|h[1-6]|section|article|blockquote)>|<br ?/?>", re.IGNORECASE)
_SPACE = re.compile(r"[^\S\n]+")

_SKIPPED = frozenset(
    "buildmanifest classname classnames cookieconsent consent css dictionary dictionaries env gdpr labels locale "
    "locales phrases query resources runtimeconfig script scripts strings style styles theme translation "
    "translations".split()
)
"""Keys of data about the site and not the page, in lower case without separators."""
_LITERAL = re.compile(
    r'"(?P<double>(?:[^"\\\n]|\\.)*+)(?P<closed>"?)'
    r"|'(?P<single>(?:[^'\\\n]|\\.)*+)'?"
    r"|`(?P<template>(?:[^`\\]|\\.)*+)`?"
    r"|//[^\n]*+|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\n", "t": " ", "b": " ", "f": " ", "v": " ", "0": " ", "\n": "", "\r": "", "\r\n": ""}


class Prose(NamedTuple):
    """Prose, in the order of the data. words: their number  paragraphs: plain text, each without line ends"""

    words: int
    paragraphs: tuple[str, ...]


def count_words(text: str) -> int:
    """The number of words of a text; two characters of a script without spaces count as one."""
    words = len(text.split())
    return words if text.isascii() else words + len(_SPACELESS.findall(text)) // 2


def unescape_html(text: str) -> str:
    """The text with its character references decoded, as html.unescape does.

    Python reads no number of thousands of digits (ValueError), so long decimal references are shortened before.
    """
    if _LONG_DIGITS.search(text):
        text = _DECIMAL_REFERENCE.sub(_short_reference, text)
    return html.unescape(text)


def _short_reference(reference: re.Match[str]) -> str:
    digits = reference[1]
    return f"&#{digits or 0};" if len(digits) <= _MOST_DIGITS else "\ufffd"


def parse_json(text: str) -> object:
    """The value of a JSON text; None if it is not JSON, or is nested too deeply."""
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        pass
    try:
        # Line ends within strings, and half surrogate pairs, occur in real pages; orjson rejects both.
        value: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def prose_of(strings: Iterator[str]) -> Prose:
    """The prose among strings. Repeats count once."""
    words, paragraphs, seen = 0, list[str](), set[str]()
    for string in strings:
        text = plain_text(string)
        if text in seen:
            continue
        seen.add(text)
        count = count_words(text)
        if count < LEAST_WORDS or not _is_prose(text):
            continue
        words += count
        paragraphs += [line for line in (line.strip() for line in text.split("\n")) if line]
    return Prose(words, tuple(paragraphs))


def plain_text(text: str) -> str:
    """The text without markup and character references; the tags of blocks become line ends."""
    if "<" in text and _TAG.search(text):
        text = MARKUP.sub(_line_end, text)
    if "&" in text:
        text = unescape_html(text)
        # The markup may have been escaped, and its references once more. A text about tags has no ends of paragraphs.
        if _ENDS.search(text):
            text = unescape_html(MARKUP.sub(_line_end, text))
    return _SPACE.sub(" ", text.replace("\r", "\n")).strip()


def _line_end(tag: re.Match[str]) -> str:
    return "" if (tag["tag"] or "").lower() in _INLINE else "\n"


def _is_prose(text: str) -> bool:
    words = text.split()
    if "://" in words[0] and len(words) == 1:
        return False
    if len(_CODE.findall(text)) * 50 > len(text):
        return False
    return sum(1 for word in words if _ODD.match(word)) < _ODD_SHARE * len(words) or len(words) < LEAST_WORDS


def strings_in(value: object, depth: int = 0) -> Iterator[str]:
    """The strings of a JSON value, in order, without those under keys of site data; JSON in a string is read too."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            inner = parse_json(one) if depth < DEEPEST_DATA and _looks_like_json(one) else None
            if isinstance(inner, dict | list):
                yield from strings_in(inner, depth + 1)
            elif inner is None:
                yield one
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            waiting.extend(child for key, child in reversed(one.items()) if not _is_site_data(key, child))


def _is_site_data(key: str, value: object) -> bool:
    name = key.replace("_", "").replace("-", "").lower()
    # The messages of a forum are a list, and those of an interface an object of texts by name.
    return name in _SKIPPED or "i18n" in name or (name in ("messages", "intl") and isinstance(value, dict))


def _looks_like_json(text: str) -> bool:
    start, end = text[:64].lstrip()[:2], text[-64:].rstrip()[-1:]
    return (start[:1] == "{" and end == "}") or (start[:1] == "[" and end == "]")


def strings_in_code(code: str, depth: int = 0) -> Iterator[str]:
    """The string literals of JavaScript, in order; JSON or code in a string is read too."""
    for found in _LITERAL.finditer(code):
        text = found["double"] or found["single"] or found["template"]
        if not text or len(text) < LEAST_WORDS:
            continue
        text = unescape_script(text)
        if depth < DEEPEST_DATA and _looks_like_json(text) and (value := parse_json(text)) is not None:
            yield from strings_in(value, depth + 1)
        elif depth < DEEPEST_DATA and text.count('":') + text.count('["') > 1 and not _TAG.match(text):
            yield from strings_in_code(text, depth + 1)  # The rows of a React server component.
        else:
            yield text


def unescape_script(text: str) -> str:
    """The text with the escapes of JavaScript and JSON decoded."""
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_character, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if not digits:
        return _ESCAPED.get(escape[4], escape[4])
    code = int(digits, 16)
    return chr(code) if code < 0x110000 else "\ufffd"
