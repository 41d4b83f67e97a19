"""One article in two forms of Unicode is a duplicate, and two articles stay novel, in many languages."""

import unicodedata
from collections.abc import Callable
from typing import Literal

import pytest

from spotsieve import CrawledPage, Deduplicator
from tests.conftest import REPOSITORY
from tests.fixtures.long_cases import mostly_long

DECLARATION = REPOSITORY / "tests/fixtures/pages/declaration.txt"
LINES = [line.split(" ", 2) for line in DECLARATION.read_text("utf-8").splitlines() if not line.startswith("#")]
TEXTS = {language: text for _, language, text in LINES}
DECOMPOSING = [language for language, text in TEXTS.items() if unicodedata.normalize("NFD", text) != text]


def wide(text: str) -> str:
    """The text in full-width letters and digits."""
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)


def hyphenated(text: str) -> str:
    """The text with a soft hyphen inside each long word."""
    return " ".join(word[:3] + "\u00ad" + word[3:] if len(word) > 5 else word for word in text.split(" "))


def ligatures(text: str) -> str:
    """The text with the ligatures of a PDF."""
    return text.replace("ffi", "\ufb03").replace("fi", "\ufb01").replace("fl", "\ufb02").replace("ff", "\ufb00")


def mathematical(text: str) -> str:
    """The text in bold mathematical letters, as posts in social networks use them."""
    return "".join(chr(0x1D41A + ord(one) - ord("a")) if "a" <= one <= "z" else one for one in text)


def jamo(text: str) -> str:
    """The text with the leading letters of its syllables from the compatibility block, decomposed."""
    return unicodedata.normalize("NFD", text).replace("\u1112", "\u314e").replace("\u1100", "\u3131")


def nukta(text: str) -> str:
    """The text with letters that no normal form has: a consonant with its nukta in one."""
    return text.replace("\u0921\u093c", "\u095c").replace("\u092b\u093c", "\u095e").replace("\u091c\u093c", "\u095b")


def half_width(text: str) -> str:
    """The text with half-width katakana, whose voiced marks are characters of their own."""
    table = {unicodedata.normalize("NFKC", chr(code)): chr(code) for code in range(0xFF66, 0xFF9E)}
    return "".join(table.get(one, one) for one in unicodedata.normalize("NFD", text)).replace("\u3099", "\uff9e")


def html(text: str, title: str, site: str) -> str:
    menu = "<nav><a href=/>Home</a> <a href=/n>News</a></nav>" if site == "one" else "<ul><li><a href=/1>Menu</a></ul>"
    return f"<!doctype html><title>{title}</title><body>{menu}<h1>{title}</h1><p>{text}</p>"


def verdicts(first: str | bytes, second: str | bytes, types: tuple[str | None, str | None] = (None, None)) -> list[str]:
    pages = [
        CrawledPage("a", "https://one.example/a", first, types[0]),
        CrawledPage("b", "https://two.example/b", second, types[1]),
    ]
    with Deduplicator() as seen:
        return [verdict.kind for verdict in seen.add_many(pages)]


def halves(text: str) -> tuple[str, str]:
    """Two articles: the first and the second half of a text, at a blank where it has some."""
    middle = text.find(" ", len(text) // 2)
    middle = middle if middle > 0 else len(text) // 2
    return text[:middle], text[middle:]


def test_there_are_texts_of_more_than_thirty_languages_that_nfd_changes() -> None:
    assert len(DECOMPOSING) > 30
    assert {"vi", "ko", "el", "pl", "tr", "bn", "ja", "ru", "ar", "de"} <= set(DECOMPOSING)


@pytest.mark.parametrize(
    ("form", "language"),
    mostly_long([(form, language) for form in ("NFD", "NFKD") for language in DECOMPOSING], len(DECOMPOSING) + 5),
)
def test_an_article_in_another_form_is_a_duplicate(form: Literal["NFD", "NFKD"], language: str) -> None:
    text = unicodedata.normalize("NFC", TEXTS[language])
    other = unicodedata.normalize(form, text)
    assert verdicts(html(text, "x", "one"), html(other, "y", "two")) == ["novel", "duplicate"]
    assert verdicts(html(other, "x", "one"), html(text, "y", "two")) == ["novel", "duplicate"]


@pytest.mark.parametrize("language", DECOMPOSING)
def test_two_articles_in_two_forms_are_novel(language: str) -> None:
    first, second = halves(TEXTS[language])
    pages = (
        html(unicodedata.normalize("NFC", first), "x", "one"),
        html(unicodedata.normalize("NFD", second), "y", "two"),
    )
    assert verdicts(*pages) == ["novel", "novel"]


@pytest.mark.parametrize(
    ("language", "change"),
    [
        ("en", wide),
        ("en", hyphenated),
        ("ro", ligatures),
        ("hi", nukta),
        ("en", mathematical),
        ("de", hyphenated),
        ("de", str.casefold),
        ("el", str.casefold),
        ("vi", wide),
        ("ru", hyphenated),
        ("ko", jamo),
        ("ja", half_width),
    ],
)
def test_an_article_in_compatible_characters_is_a_duplicate(language: str, change: Callable[[str], str]) -> None:
    text = unicodedata.normalize("NFC", TEXTS[language])
    assert change(text) != text
    assert verdicts(html(text, "x", "one"), html(change(text), "y", "two")) == ["novel", "duplicate"]


@pytest.mark.parametrize("character", ["\u200b", "\u200c", "\u200d", "\ufeff", "\u2060", "\ufe0f", "\u034f"])
def test_characters_without_width_inside_words_change_no_verdict(character: str) -> None:
    text = TEXTS["pl"]
    other = " ".join(word[:2] + character + word[2:] for word in text.split(" "))
    assert verdicts(html(text, "x", "one"), html(other, "y", "two")) == ["novel", "duplicate"]


def windows_1258(text: str) -> bytes:
    """Vietnamese as windows-1258 writes it: letters with their first mark, and the tones as marks of their own."""
    written = []
    for one in unicodedata.normalize("NFC", text):
        decomposed = unicodedata.normalize("NFD", one)
        tone = "".join(mark for mark in decomposed if mark in "\u0300\u0301\u0303\u0309\u0323")
        letter = "".join(part for part in decomposed if part not in tone)
        written.append(unicodedata.normalize("NFC", letter) + tone)
    return "".join(written).encode("cp1258")


def test_a_page_in_windows_1258_is_a_copy_of_the_page_in_utf_8() -> None:
    page = windows_1258(html(TEXTS["vi"], "y", "two"))
    types = (None, "text/html; charset=windows-1258")
    assert verdicts(html(TEXTS["vi"], "x", "one"), page, types) == ["novel", "duplicate"]
    first, second = halves(TEXTS["vi"])
    page = windows_1258(html(second, "y", "two"))
    assert verdicts(html(first, "x", "one"), page, types) == ["novel", "novel"]


@pytest.mark.parametrize(
    ("is_text", "language"),
    mostly_long([(is_text, language) for is_text in (False, True) for language in DECOMPOSING], len(DECOMPOSING) + 5),
)
def test_an_article_that_was_encoded_twice_is_a_copy_and_two_such_articles_are_novel(
    is_text: bool, language: str
) -> None:
    def doubled(text: str) -> str | bytes:
        twice = text.encode().decode("latin-1")
        return twice if is_text else twice.encode()

    assert verdicts(html(TEXTS[language], "x", "one"), doubled(html(TEXTS[language], "y", "two"))) == [
        "novel",
        "duplicate",
    ]
    first, second = halves(TEXTS[language])
    assert verdicts(doubled(html(first, "x", "one")), doubled(html(second, "y", "two"))) == ["novel", "novel"]
