"""Canonically and compatibly equivalent texts have the same tokens, in every script."""

import unicodedata
from functools import cache
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spotsieve.stream.sign.text import characters
from spotsieve.stream.sign.text.batch import POINTS_PER_BYTE, SPELLED_BYTES, TOKENS_PER_BYTE, TRACE_BYTES
from spotsieve.stream.sign.text.characters import SEPARATOR, class_and_folding, is_token, normalised
from tests.conftest import REPOSITORY
from tests.fixtures.cpu_time import assert_cpu_grows
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.text import blocks_of

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
DECLARATION = REPOSITORY / "tests/fixtures/pages/declaration.txt"
TEXTS = dict(line.split(" ", 2)[1:] for line in DECLARATION.read_text("utf-8").splitlines() if not line.startswith("#"))
MARKS = [one for one in map(chr, range(0x110000)) if unicodedata.combining(one)]
IGNORABLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0f\u034f\u180e\U000e0100"

hangul = st.sampled_from([*map(chr, range(0x1100, 0x1200)), *map(chr, range(0x3131, 0x318F)), "한", "가", "각"])
kana = st.sampled_from("かがはばぱウヴｶﾞﾊﾟｱー゛\u3099\u309a\u1025\u1026\u102e")
indic = st.sampled_from("कक़\u093cय़য়ো\u09c7\u09be\u09d7ெொ\u0bbeේෝ\u0dcfේ\u0dca\u094d")
latin = st.sampled_from("aeiouIİısſßǰẛﬁﬀǆ²½①Ａ１ x")
marks = st.sampled_from(MARKS)


@cache
def every_character() -> list[str]:
    """The characters that a token can have, or that another form of a text replaces."""
    return [
        chr(code_point)
        for code_point in range(0x110000)
        # Later versions of Unicode assign more characters
        if class_and_folding(chr(code_point))[0] != SEPARATOR
        or unicodedata.normalize("NFKD", chr(code_point)) != chr(code_point)
    ]


def texts_of_every_character() -> st.SearchStrategy[str]:
    """Texts of all characters; composites, marks and some scripts are more frequent."""
    composites = [one for one in every_character() if unicodedata.normalize("NFKD", one) != one]
    frequent = (st.sampled_from(composites), marks, marks, hangul, kana, indic, latin)
    return st.text(st.one_of(st.sampled_from(every_character()), *frequent), max_size=14)


texts = st.deferred(texts_of_every_character)


def words_of(text: str) -> list[str]:
    return [word for block in tokens_of(text.encode(), False) for word in block]


@settings(max_examples=700, deadline=None)
@given(texts)
@example("e\u0302\u0301\u0323 \u1ec7\u0301")
@example("か\u0323\u3099 カ\u0345\u3099")
@example("\u1100\u1161\u11a8\u11a8 가\u0301\u11a8")
def test_every_form_of_a_text_has_its_tokens(text: str) -> None:
    words = words_of(text)
    assert words == [word for block in blocks_of(text.encode(), False) for word in block]
    for form in FORMS:
        assert words_of(unicodedata.normalize(form, text)) == words, form
    assert words_of(" ".join(words)) == words
    assert all(map(is_token, words))


@settings(max_examples=300, deadline=None)
@given(texts, st.lists(st.tuples(st.integers(0, 14), st.sampled_from(IGNORABLE)), max_size=4))
def test_characters_without_width_change_no_token(text: str, ignorable: list[tuple[int, str]]) -> None:
    other = text
    for place, character in ignorable:
        other = other[:place] + character + other[place:]
    assert words_of(other) == words_of(text)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_case_changes_no_token(text: str) -> None:
    # The table's exception: an iota subscript outside a word is dropped, and its case folding is a letter
    kept = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).replace("\u0345", ""))
    assert words_of(kept.casefold()) == words_of(kept)


def test_every_character_has_the_tokens_of_its_folding() -> None:
    characters_to_read = every_character()
    texts = [characters_to_read, [class_and_folding(one)[1] for one in characters_to_read]]
    texts += [[unicodedata.normalize(form, one) for one in characters_to_read] for form in FORMS]
    first, *others = (tokens_of("\n\n".join(f"x{one}y" for one in text).encode(), False) for text in texts)
    assert len(first) == len(characters_to_read)
    for other in others:
        assert [(one, another) for one, another in zip(first, other, strict=True) if one != another] == []


@pytest.mark.parametrize(("language", "text"), TEXTS.items(), ids=TEXTS.keys())
def test_real_text_has_the_same_tokens_in_every_form(language: str, text: str) -> None:
    words = words_of(text)
    for form in FORMS:
        assert words_of(unicodedata.normalize(form, text)) == words, form
    capitals = unicodedata.normalize("NFC", text.upper())
    assert words_of(capitals.casefold()) == words_of(capitals)
    if language not in ("tr", "az", "el", "lt"):
        assert words_of(capitals) == words
    assert [word for word in words if not is_token(word)] == []
    assert words_of(normalised(text)) == words


@pytest.mark.parametrize("form", FORMS)
def test_text_cut_at_any_byte_is_read_as_the_reference_reads_it(form: Form) -> None:
    text = unicodedata.normalize(form, "Tiếng Việt ﬁn 한글 क़ ガ Ёж ½ ΐ ᾴ ﷺ ① e\u0301\u0323 i\u0307 \U0001d15e").encode()
    for cut in range(len(text) + 1):
        assert tokens_of(text[:cut], False) == blocks_of(text[:cut], False)
        assert tokens_of(text[cut:], True) == blocks_of(text[cut:], True)


HOSTILE = {
    "one mark": "\u0301",
    "two marks out of order": "\u0301\u0323",
    "all marks": "".join(MARKS),
    "marks backwards": "".join(sorted(MARKS, key=unicodedata.combining, reverse=True)),
    "iota subscripts": "\u0345",
    "dots above": "\u0307",
    "Hangul finals": "\u11a8",
    "composites": "\u1f82",
    "decomposed vowels": "\u1ec7\u0301\u0323",
    "kana marks": "\u3099",
    "Indic vowels": "\u09c7\u09be",
    "long expansions": "\ufdfa",
    "letters of long expansions": "\ufdf2",
    "many ideographs": "\u3316",
    "ligatures": "\ufb03",
    "letters with two marks": "\u0390",
}


STARTED = sorted(
    ((start, name) for start in "aiか" for name in HOSTILE),
    key=lambda case: case[0] != "a" and case not in {("i", "dots above"), ("か", "kana marks"), ("か", "one mark")},
)
"""All pieces behind one letter, and letters that a piece joins, are first."""
FIRST = len(HOSTILE) + 3


@pytest.mark.parametrize(("start", "name"), mostly_long(STARTED, FIRST))
def test_20_000_marks_are_read_as_the_reference_reads_them(start: str, name: str) -> None:
    piece = HOSTILE[name]
    text = (start + piece * (20_000 // len(piece))).encode()
    assert tokens_of(text, True) == blocks_of(text, True)


@pytest.mark.parametrize(("start", "name"), mostly_long(STARTED, FIRST))
def test_the_time_of_marks_is_linear(start: str, name: str) -> None:
    piece = HOSTILE[name]
    texts = {size: (start + piece * (size // len(piece))).encode() for size in (100_000, 1_000_000)}
    assert_cpu_grows(lambda size: tokens_of(texts[size], False), 100_000, 1_000_000, most=40, extra=0.05)


def test_the_arrays_of_a_scan_have_room_for_every_character() -> None:
    for character in every_character():
        size = len(character.encode())
        words = [word for block in blocks_of(character.encode(), False) for word in block]
        _, folded = class_and_folding(character)
        # Separators and ideographs end a word, so only the longest part of a folding counts
        longest = max(
            "".join(one if class_and_folding(one)[0] != SEPARATOR else " " for one in folded).split(" "), key=len
        )
        decomposed = unicodedata.normalize("NFD", longest)
        assert len(words) <= TOKENS_PER_BYTE * size
        assert sum(len(word.encode()) + 1 for word in words) <= TRACE_BYTES * size
        if class_and_folding(longest[:1] or " ")[0] not in (characters.IDEOGRAPH, characters.OPEN_IDEOGRAPH):
            # Syllables of Hangul are always composed again
            spelled = longest if "\u1100" <= decomposed[:1] < "\u1200" else decomposed
            assert len(spelled.encode()) <= SPELLED_BYTES * size, hex(ord(character))
            assert len(decomposed) <= POINTS_PER_BYTE * size, hex(ord(character))
