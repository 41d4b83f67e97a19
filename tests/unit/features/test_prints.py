"""The prints of a page: what is one, which are left out, and that no page can choose identities that take long."""

from itertools import count, islice

import numpy as np
import pytest

from spotsieve.stream.sign.features.block_fingerprints import CLASS_MASK, KEPT, NUMBER, identity_of, weight_of
from spotsieve.stream.sign.features.sieve import SievedPages, SieveSettings, sieve_pages
from tests.reference.sieve import chain_hash, columns_of
from tests.reference.spots import token_hash

STORY = "the council said on monday that the old bridge over the river will be closed for most of the summer "


def sieved(page: str, markup: bool = True) -> SievedPages:
    buffer = np.frombuffer(page.encode(), np.uint8)
    return sieve_pages(buffer, np.array([0, len(buffer)]), markup, SieveSettings())


def identities(page: str) -> set[int]:
    return set(identity_of(sieved(page).prints).tolist())


def test_blocks_that_differ_in_numbers_share_their_text_and_not_their_numbers() -> None:
    one, other = (
        sieved(f"<p>Only {price} euro, {left} left in stock</p>").prints for price, left in ((12, 3), (15, 2))
    )
    assert len(one) == len(other) == 2
    texts, numbers = ([part[(part & NUMBER != 0) == kind].tolist() for part in (one, other)] for kind in (False, True))
    assert texts[0] == texts[1]
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize(
    ("digit", "counts"), [("9", True), ("&#57;", True), ("９", False), ("٩", False), ("九", False)]
)
def test_a_number_has_an_ascii_digit(digit: str, counts: bool) -> None:
    prints = sieved(f"<p>é{digit}</p>").prints
    assert (prints & NUMBER != 0).any() == counts


def test_the_weight_is_the_class_s_and_numbers_are_no_text() -> None:
    prints = sieved("<p>" + "word " * 50 + "7 " * 5 + "</p>").prints
    assert sorted(weight_of(prints).tolist()) == [4, 48]
    assert (prints & CLASS_MASK).max() == 10


def test_equal_blocks_are_one_and_kept_if_any_is() -> None:
    story = f"<p>{STORY * 3}</p>"
    menu = "<nav><ul>" + "<li><a href=/>elsewhere on this fine site</a></li>" * 9 + "</ul></nav>"
    again = f"<nav><ul><li><a href=/>{STORY * 3}</a></li></ul></nav>"
    alone, twice = (
        sieved(f"{menu}<article>{story * 2}</article>"),
        sieved(f"{menu}{again}<article>{story * 2}</article>"),
    )
    assert len(alone.prints) == len(set(identity_of(alone.prints).tolist())) == 2
    assert alone.prints.tolist() == twice.prints.tolist()
    assert (alone.prints & KEPT != 0).sum() == 1


def test_short_links_are_left_out_where_six_others_stay() -> None:
    links = "".join(f"<li><a href=/>topic {word}</a></li>" for word in ("red", "green", "blue"))
    others = [f"<p>A sentence of its own about {word}</p>" for word in ("oak", "ash", "elm", "fir", "yew", "box")]
    assert len(identities(links + "".join(others[:5]))) == 8
    assert len(identities(links + "".join(others))) == 6


@pytest.mark.parametrize(("words", "expected"), [(101, 44), (102, 24), (251, 24), (252, 12)])
def test_a_page_with_less_text_has_more_prints(words: int, expected: int) -> None:
    page = "\n\n".join("a" * size for size in range(1, 51)) + "\n\n" + "word " * words
    found = sieved(page, markup=False)
    assert found.feature_counts[0] == 48 + words
    assert len(found.prints) == expected
    assert weight_of(found.prints).max() == (96 if words < 128 else 192)


def crowd(size: int) -> list[str]:
    """Words whose hashes, as texts of one token, begin with the same nine bits."""
    words = (f"w{chr(97 + number % 26)}" + "".join(chr(97 + int(d)) for d in str(number)) for number in count())
    return list(islice((word for word in words if chain_hash([token_hash(word)]) >> 55 == 5), size))


def test_a_page_whose_identities_are_crowded_gives_the_twins_prints() -> None:
    page = "".join(f"<p>{word}</p>" for word in crowd(40))
    expected = columns_of(page.encode(), True, SieveSettings()).prints
    assert sieved(page).prints.tolist() == expected
    assert len({identity >> 18 for identity in identities(page)}) == 1
