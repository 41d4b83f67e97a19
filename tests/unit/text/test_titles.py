"""The title of a page, however it is written: its first ten different words, and no part of any block."""

import numpy as np
import pytest

from spotsieve.stream.sign.features.sieve import SieveSettings, blocks_of, sieve_pages
from spotsieve.stream.sign.text.hashing import hash_token


def title_of(page: str, markup: bool = True) -> list[int]:
    buffer = np.frombuffer(page.encode(), np.uint8)
    found = sieve_pages(buffer, np.array([0, len(buffer)]), markup, SieveSettings())
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
