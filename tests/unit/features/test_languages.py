"""Languages: the frozen lists, their table, and the path that real text of 85 languages and scripts takes."""

import random

import numpy as np
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.sign.features import languages
from spotsieve.stream.sign.features.languages import (
    FIRST_GROUP,
    LONE_CHARACTER,
    MOST_WORDS,
    NO_WORD,
    groups,
    language_table,
    path_names,
    word_table,
)
from spotsieve.stream.sign.features.spots import DEFAULT_ANTECEDENTS, DEFAULT_STOP_WORDS
from spotsieve.stream.sign.text.characters import IDEOGRAPH, OPEN_IDEOGRAPH, class_and_folding, is_token
from spotsieve.stream.sign.text.hashing import hash_token
from tests.conftest import REPOSITORY
from tests.reference.languages import choose_path, word_index
from tests.reference.text import blocks_of

DECLARATION = REPOSITORY / "tests/fixtures/pages/declaration.txt"
LINES = [line.split(" ", 2) for line in DECLARATION.read_text("utf-8").splitlines() if not line.startswith("#")]
SPACED = [line for line in LINES if line[0] != "unspaced"]


def indexes_of(text: str) -> list[int]:
    """The word index of each token of a plain text, as the kernel notes them."""
    table = language_table()
    return [
        LONE_CHARACTER if is_lone(token) else word_index(table, hash_token(token.encode()))
        for block in blocks_of(text.encode(), markup=False)
        for token in block
    ]


def is_lone(token: str) -> bool:
    return len(token) == 1 and class_and_folding(token)[0] in (IDEOGRAPH, OPEN_IDEOGRAPH)


def path_of(indexes: list[int]) -> str:
    return path_names()[choose_path(indexes, language_table())]


def mixed(*shares: tuple[str, int]) -> list[int]:
    """Indexes of words, each so many times; "" is a word of no list, "中" a character that stands alone."""
    special = {"": NO_WORD, "中": LONE_CHARACTER}
    table = language_table()
    return [
        special[word] if word in special else word_index(table, hash_token(word.encode()))
        for word, count in shares
        for _ in range(count)
    ]


def test_there_are_lists_for_more_than_seventy_languages() -> None:
    found = [language for group in groups() for language in group.languages]
    assert len(set(found)) == len(found) >= 70
    assert len(groups()) <= 64


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_a_list_holds_single_tokens_each_once(group: languages.Group) -> None:
    words = group.antecedents + group.others
    assert len(set(words)) == len(words)
    assert [word for word in words if not is_token(word)] == []
    assert 12 <= len(group.antecedents) <= 80
    assert 90 <= len(words) <= 190 * len(group.languages)


def test_the_english_lists_are_the_papers_and_the_stop_words_of_spots() -> None:
    english = groups()[0]
    assert english.name == path_names()[FIRST_GROUP] == "en"
    assert english.antecedents == DEFAULT_ANTECEDENTS
    assert set(english.antecedents + english.others) == set(DEFAULT_STOP_WORDS)


def test_the_numbers_of_paths_in_stored_signatures_do_not_move() -> None:
    # A signature keeps the number: groups may be added at the end, not moved
    names = path_names()
    assert len(names) == 66
    assert [names.index(name) for name in ("und", "unspaced", "en", "de", "fr", "ru", "ar", "hi", "vi", "ko")] == [
        0,
        1,
        2,
        3,
        10,
        27,
        42,
        47,
        59,
        65,
    ]


@pytest.mark.parametrize(("path", "language", "text"), LINES, ids=[line[1] for line in LINES])
def test_real_text_takes_the_path_of_its_language(path: str, language: str, text: str) -> None:
    indexes = indexes_of(text)
    assert path_of(indexes) == path, language
    assert path_of(indexes * 3) == path
    if path != "unspaced":
        assert LONE_CHARACTER not in indexes


@pytest.mark.parametrize(("path", "language", "text"), LINES, ids=[line[1] for line in LINES])
def test_the_path_stays_when_one_word_in_ten_goes_or_is_another(path: str, language: str, text: str) -> None:
    indexes = indexes_of(text)
    chance = random.Random(language)
    for _ in range(40):
        assert path_of([index for index in indexes if chance.random() >= 0.1]) == path
        assert path_of([NO_WORD if chance.random() < 0.1 else index for index in indexes]) == path


@pytest.mark.parametrize(("path", "text"), [(line[0], line[2]) for line in SPACED], ids=[line[1] for line in SPACED])
def test_an_english_menu_of_a_third_of_the_page_does_not_decide(path: str, text: str) -> None:
    indexes = indexes_of(text)
    menu = indexes_of(
        "Home About us Contact Sign in to your account Terms of use Privacy and cookies All rights reserved"
    )
    assert path_of(indexes + (menu * 3)[: len(indexes) // 2]) == path


def test_the_masks_say_which_groups_have_a_word() -> None:
    table = language_table()
    for place, group in enumerate(groups()):
        for word in group.antecedents + group.others:
            index = word_index(table, hash_token(word.encode()))
            assert index >= 2, word
            assert int(table.stop_masks[index]) >> place & 1
            assert bool(int(table.antecedent_masks[index]) >> place & 1) == (word in group.antecedents)
    assert table.stop_masks[:2].tolist() == table.antecedent_masks[:2].tolist() == [0, 0]
    total = sum(len(group.antecedents + group.others) for group in groups())
    assert sum(int(mask).bit_count() for mask in table.stop_masks) == total


def test_words_of_no_list_are_not_found() -> None:
    table = language_table()
    for number in range(20_000):
        assert word_index(table, hash_token(f"x{number}q".encode())) == NO_WORD


def test_the_low_bits_of_a_token_do_not_matter_to_the_look_up() -> None:
    table = language_table()
    token = hash_token(b"the")
    assert word_index(table, token) == word_index(table, token | 0x3FFF) >= 2


@pytest.mark.parametrize("count", [1, 2, 3, 17, 500, 9000])
def test_a_table_finds_each_of_its_own_words(count: int) -> None:
    words = [f"w{number}" for number in range(count)]
    table = word_table(dict.fromkeys(words, 1), {words[0]: 1, "only": 1})
    found = [word_index(table, hash_token(word.encode())) for word in [*words, "only"]]
    assert found == list(range(2, count + 3))
    assert int((table.entries != np.uint64(2**64 - 1)).sum()) == count + 1
    assert (table.stop_masks[-1], table.antecedent_masks[-1]) == (0, 1)


def test_too_many_words_are_refused() -> None:
    with pytest.raises(SettingError, match=r"stop_words and antecedents must be at most 16382 .* got 16383"):
        word_table({f"w{number}": 1 for number in range(MOST_WORDS + 1)}, {})


def test_a_page_of_lone_characters_is_unspaced_only_above_a_half() -> None:
    assert path_of(mixed(("中", 51), ("the", 49))) == "unspaced"
    assert path_of(mixed(("中", 50), ("the", 50))) == "en"


def test_a_page_with_few_words_of_any_list_has_no_language() -> None:
    assert path_of([]) == "und"
    assert path_of(mixed(("would", 2))) == "und"
    assert path_of(mixed(("would", 3))) == "en"
    assert path_of(mixed(("would", 5), ("", 95))) == "en"
    assert path_of(mixed(("would", 5), ("", 96))) == "und"


def test_a_word_of_fewer_languages_weighs_more() -> None:
    table = language_table()
    shared, own = (word_index(table, hash_token(word.encode())) for word in ("de", "los"))
    assert table.weights[own] > 2 * table.weights[shared]


def test_equal_scores_go_to_the_first_group() -> None:
    assert path_of(mixed(("would", 4), ("wurde", 0), ("nicht", 4))) == "en"


def test_changed_lists_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "DIGEST", "0" * 64)
    with pytest.raises(RuntimeError, match="install the package again"):
        groups.__wrapped__()
