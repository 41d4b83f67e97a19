"""The title of a page, however it is written: its first ten different words, and no part of any block."""

import numpy as np
import pytest

from spotsieve.stream.sign.features.sieve import SievedPages, SieveSettings, blocks_of, sieve_pages
from spotsieve.stream.sign.text.hashing import hash_token


def sieved(page: str, markup: bool = True) -> SievedPages:
    buffer = np.frombuffer(page.encode(), np.uint8)
    return sieve_pages(buffer, np.array([0, len(buffer)]), markup, SieveSettings())


def title_of(page: str, markup: bool = True) -> list[int]:
    found = sieved(page, markup)
    assert found.title_bounds.tolist() == [0, len(found.titles)]
    return list(map(int, found.titles))


def words(*normalised: str) -> list[int]:
    return sorted(hash_token(word.encode()) >> 48 for word in normalised)


TITLES = {
    "<title>Blue lamp</title>": ("blue", "lamp"),
    "<TITLE lang=en\n>Blue\n lamp</Title\t>": ("blue", "lamp"),
    "<title>Blue Blue bLUE</title>": ("blue",),
    "<title>Caf&eacute; &amp; b&#97;r</title>": ("café", "bar"),
    "<title>Straße Ünder 漢字 ไท</title>": ("strasse", "ünder", "漢", "字", "ไ", "ท"),
    "<title>a <b>blue</b> lamp</title>": ("a", "b", "blue", "lamp"),
    "<title>a <!-- blue --> lamp</title>": ("a", "blue", "lamp"),
    "<title></title><title>second</title>": (),
    "<title>first</title><title>second</title>": ("first",),
    "<svg><title>icon</title></svg><title>page</title>": ("page",),
    "<math><title>sum</title></math>": (),
    "<svg><title>icon</svg><title>page</title>": ("page",),
    "<svg><style>x<title>icon</svg><title>page</title>": ("page",),
    "<p>text": (),
    "<title>never closed<p>the page": ("never", "closed", "p", "the", "page"),
    "<title>almost</title": ("almost", "title"),
    "<title/>open": (),
    "<title/>open</title>": ("open",),
    f"<title>{'y' * 70} {'z' * 20} x</title>": ("y" * 70, "z" * 20, "x"),
    f"<title>{'long ' * 30}short</title>": ("long", "short"),
}


@pytest.mark.parametrize("page", TITLES)
def test_the_title_is_the_first_one_outside_svg_and_math(page: str) -> None:
    assert title_of(page) == words(*TITLES[page])


def test_ten_different_words_of_a_hundred_are_kept() -> None:
    assert title_of("<title>" + " ".join(f"w{number // 2}" for number in range(100)) + "</title>") == words(
        *(f"w{number}" for number in range(10))
    )


def test_plain_text_has_no_title() -> None:
    assert title_of("<title>Blue lamp</title>", markup=False) == []


def test_a_title_stays_out_of_the_blocks() -> None:
    (block,) = blocks_of(b"<p>be<title>Blue &amp; lamp</title>fore", True)
    assert block.tokens == ("before",)


HEADLINE = "Old bridge reopens after repairs"
SITES = ("The Mill Post", "Daily Bugle", "Nachrichten aus Wörgl", "日本経済", "A & B News")


def headline_of(title: str) -> int:
    (found,) = sieved(f"<title>{title}</title><p>text").headline.tolist()
    return int(found)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    "divider", [" | ", "|", " - ", " – ", " &#8211; ", " &raquo; ", " :: ", " « ", "\n-\n", "&nbsp;·&nbsp;"]
)
def test_a_headline_is_the_same_on_every_site(site: str, divider: str) -> None:
    alone = headline_of(HEADLINE)
    assert alone > 0
    assert headline_of(f"{HEADLINE}{divider}{site}") == headline_of(f"{site}{divider}{HEADLINE}") == alone
    assert headline_of(f"{HEADLINE}{divider}{site}{divider}News") == alone


@pytest.mark.parametrize(
    "title", ["Bed & breakfast by the river", "A + B of the river", "Twenty-one rivers of the north"]
)
def test_these_signs_do_not_divide_a_title(title: str) -> None:
    words = title.split()
    assert headline_of(title) == headline_of(" ".join(reversed(words)))
    assert headline_of(title) == headline_of(f"{title} | site")


def test_a_title_without_a_long_part_is_a_headline_as_a_whole() -> None:
    assert headline_of("Contact us | Mill Post") == headline_of("Contact us Mill Post") != headline_of("Contact us")
    assert headline_of("") == headline_of(" | - ") == 0
