"""Fresh text: each rule with a pair of texts just inside and just outside, and the reference ../shared/data/adds.py."""

import importlib.util
import json
import lzma
import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from spotsieve.stream.research.scoring import load_truth
from spotsieve.stream.research.scoring.fresh_text import (
    ABSENT,
    UNKNOWN,
    FreshText,
    LostPage,
    MissedPage,
    PageGrams,
    contains,
    fresh_json,
    fresh_line,
    fresh_words,
    is_lost,
    measure,
    words_of,
)
from tests.fixtures.cpu_time import assert_cpu_grows
from tests.fixtures.long_cases import mostly_long


def words(count: int, name: str = "w") -> list[str]:
    """Different words of one text; another name gives another text."""
    return [f"{name}{number}" for number in range(count)]


def fresh(page: Sequence[str], other: Sequence[str]) -> int:
    return fresh_words(PageGrams.of(page), PageGrams.of(other))


def measured(pages: Sequence[Sequence[str]], originals: Sequence[int | None]) -> FreshText:
    return measure([PageGrams.of(page) for page in pages], originals)


def test_words_are_lower_case_and_keep_their_vowel_signs() -> None:
    assert " ".join(words_of("Don't stop, A_1: Å हिन्दी (نُقْطَة)!")) == "don t stop a_1 å हिन्दी نُقْطَة"


def test_every_character_of_a_script_without_spaces_begins_a_word_of_six() -> None:
    assert (
        " ".join(words_of("ab 東京都に住む人 c")) == "ab 東京都に住む 京都に住む人 都に住む人 に住む人 住む人 む人 人 c"
    )
    assert words_of("x東y") == ["x", "東", "y"]
    assert words_of("東・京") == ["東", "京"], "punctuation ends a run"
    assert words_of("สี่") == ["สี่", "ี่", "่"]


def test_a_run_of_ten_words_without_a_known_3_gram_is_fresh_and_a_run_of_nine_is_not() -> None:
    known = words(30)
    assert fresh([*known, *words(10, "x")], known) == 10
    assert fresh([*known, *words(9, "x")], known) == 0
    assert fresh([*known[:15], *words(10, "x"), *known[15:], *words(12, "y")], known) == 22
    assert fresh([*words(10, "x"), *known], known) == 10
    assert fresh(words(40, "x"), known) == 40


def test_replaced_words_are_not_fresh_even_if_every_fifth_word_is_replaced() -> None:
    known = words(60)
    assert fresh([f"x{place}" if place % 5 == 0 else word for place, word in enumerate(known)], known) == 0
    every_third = [f"x{place}" if place % 3 == 0 else word for place, word in enumerate(known)]
    assert fresh(every_third, known) == 60, "no 3-gram is left"


@pytest.mark.parametrize("length", [0, 1, 2])
def test_texts_without_a_3_gram_know_nothing(length: int) -> None:
    assert fresh(words(20), words(length)) == 20
    assert fresh(words(length), words(20)) == 0
    assert not contains(PageGrams.of(words(20)), PageGrams.of(words(length)))


def test_a_page_is_lost_from_forty_percent_and_twenty_fresh_words_on() -> None:
    assert is_lost(20, 50)
    assert not is_lost(19, 20)
    assert not is_lost(20, 51)
    assert is_lost(40, 100)
    assert not is_lost(39, 100)


def test_a_dropped_page_is_compared_with_its_original_only() -> None:
    known, added = words(30), words(20, "x")
    page = [*known, *added]
    assert measured([known, page], [None, 0]).lost == (LostPage(1, 0, 20, 50),)
    assert measured([known, page[:-1]], [None, 0]).lost == ()
    assert measured([known, page], [None, None]).lost == ()
    assert measured([known, added, page], [None, None, 0]).lost == (LostPage(2, 0, 20, 50),), "a list of two pages"


def test_a_page_with_fewer_than_twenty_words_is_not_judged() -> None:
    one, other = words(20), words(20, "x")
    assert measured([one, other], [None, 0]).lost == (LostPage(1, 0, 20, 20),)
    assert measured([one, one], [None, None]).missed == (MissedPage(1, 0),)
    for pages, originals in (([one, other[:19]], [None, 0]), ([one, one[:19]], [None, None])):
        found = measured(pages, originals)
        assert (found.judged, found.lost, found.missed, found.words_gone) == (1, (), (), 0)


def test_a_missed_page_is_contained_in_an_earlier_emitted_page() -> None:
    page = words(40)
    assert measured([page, page], [None, None]).missed == (MissedPage(1, 0),)
    assert measured([page, page, page], [None, 0, None]).missed == (MissedPage(2, 0),)
    assert measured([page, page, page], [None, None, None]).missed == (MissedPage(1, 0), MissedPage(2, 0))
    assert measured([page, page], [None, 0]).missed == ()
    assert measured([words(40, "x"), page, page], [None, 0, None]).missed == (), "the earlier copy was dropped"


def test_a_containing_page_is_at_most_twice_as_long() -> None:
    page = words(40)
    twice = [*page, *words(40, "x")]
    assert contains(PageGrams.of(twice), PageGrams.of(page))
    assert not contains(PageGrams.of([*twice, "end"]), PageGrams.of(page))
    assert measured([twice, page], [None, None]).missed == (MissedPage(1, 0),)
    assert measured([[*twice, "end"], page], [None, None]).missed == ()


def test_a_containing_page_has_85_percent_of_the_3_grams_and_leaves_nothing_fresh() -> None:
    known = words(102)  # 100 3-grams, and each replaced word changes three of them
    for replaced, missed in ((5, (MissedPage(1, 0),)), (6, ())):
        page = [f"x{place}" if place % 16 == 8 and place // 16 < replaced else word for place, word in enumerate(known)]
        assert fresh(page, known) == 0
        assert measured([known, page], [None, None]).missed == missed
    for added, missed in ((9, (MissedPage(1, 0),)), (10, ())):
        assert measured([known, [*known, *words(added, "x")]], [None, None]).missed == missed


def test_the_containing_page_is_found_among_many_pages_with_the_same_template() -> None:
    template = words(10, "t")
    pages = [[*template, *words(30, f"p{number}-")] for number in range(200)]
    found = measured([*pages, pages[150]], [None] * 201)
    assert found.missed == (MissedPage(200, 150),)


def test_words_gone_stand_in_no_emitted_page_earlier_or_later() -> None:
    known, added = words(30), words(20, "x")
    page = [*known, *added]
    assert measured([known, page], [None, 0]).words_gone == 20
    assert measured([known, page, added], [None, 0, None]).words_gone == 0
    assert measured([known, page, added[:10]], [None, 0, None]).words_gone == 10
    assert measured([known, page, page], [None, 0, 0]).words_gone == 40
    assert measured([known, known, page], [None, 0, 1]).words_gone == 20


def test_pages_without_a_verdict_and_absent_originals_are_neither_lost_nor_gone() -> None:
    one, other = words(30), words(30, "x")
    found = measured([one, other, other], [None, ABSENT, None])
    assert (found.pages, found.judged, found.dropped, found.absent, found.words_gone) == (3, 3, 1, 1, 0)
    assert "; 1 dropped pages have no original among the pages" in fresh_line(found)
    found = measured([one, other, other, one], [None, UNKNOWN, None, UNKNOWN])
    assert (found.pages, found.judged, found.missed) == (2, 2, ())
    assert measured([one, other], [UNKNOWN, 0]).lost == (LostPage(1, 0, 30, 30),), "its text is known"


def test_no_page_is_measured_too() -> None:
    assert fresh_json(measured([], [])) == dict.fromkeys(
        ("pages", "judged", "dropped", "absent", "lost", "missed", "words_gone"), 0
    )


def test_the_figures_are_one_line() -> None:
    known = words(30)
    found = measured([known, [*known, *words(20, "x")], known, ["short"]], [None, 0, None, None])
    assert fresh_line(found) == "lost by fresh text 1, missed 1, words gone 20; 3 of 4 pages judged"


def test_time_grows_with_the_text_and_not_with_pairs_of_equal_pages() -> None:
    page, long = PageGrams.of(words(60)), PageGrams.of(words(200_000))

    def measure_copies(count: int) -> None:
        found = measure([long, *[page] * count], [None, *[None if place % 2 else 0 for place in range(count)]])
        assert len(found.missed) == count // 2 - 1

    assert_cpu_grows(measure_copies, 500, 4_000, most=5 * 8)


@pytest.fixture(scope="module")
def adds(shared_data: Path) -> ModuleType:
    """../shared/data/adds.py"""
    spec = importlib.util.spec_from_file_location("shared_adds", shared_data / "adds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "pages"), mostly_long([("lists", 1_500), ("scripts", 100), ("lists", 5_033), ("scripts", 224)], 2)
)
def test_adds_py_counts_the_same(shared_data: Path, adds: ModuleType, name: str, pages: int) -> None:
    """The verdicts: some similar pairs and, for a quarter of the first pages, any earlier page."""
    truth, drawn = load_truth(shared_data / name), random.Random(1)
    ids = truth.ids[:pages]
    assert len(ids) == pages
    originals: list[int | None] = [None] * pages
    for pair in truth.pairs:
        if pair.later < pages:
            originals[pair.later] = pair.earlier
    for place in range(1, len(originals)):
        if drawn.random() < 0.25:
            originals[place] = drawn.randrange(place)
        elif drawn.random() < 0.75:
            originals[place] = None
    with lzma.open(shared_data / name / "texts.jsonl.xz", "rt", encoding="utf-8") as lines:
        texts = {row["id"]: row["text"] for row in map(json.loads, lines)}
    verdicts = [
        {"id": page, "duplicate_of": None if original is None else ids[original]}
        for page, original in zip(ids, originals, strict=True)
    ]
    theirs = adds.measure({page: adds.words_of(texts[page]) for page in ids}, verdicts, 0.4, 20)
    ours = measure([PageGrams.of(words_of(texts[page])) for page in ids], originals)
    assert [ids[one.page] for one in ours.lost] == [row[3] for row in theirs["lost"]]
    assert [ids[one.page] for one in ours.missed] == [row[3] for row in theirs["missed"]]
    assert (ours.judged, ours.words_gone) == (theirs["judged"], theirs["gone"])
    assert min(len(ours.lost), len(ours.missed), ours.words_gone) > 2
