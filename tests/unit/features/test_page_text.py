"""Packed blocks and sampled shingles of odd pages: the reference implementation's, whatever the page was built for."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.stream.base.page_text import KEPT, MAIN_SAMPLES, MOST_BLOCKS, REST_SAMPLES, WIDE
from spotsieve.stream.sign.features.sieve import SievedPages, SieveSettings, blocks_of, sieve_pages
from tests.fixtures.cpu_time import assert_cpu_grows
from tests.fixtures.long_cases import mostly_long
from tests.reference.page_text import chain_hash
from tests.reference.sieve import columns_of
from tests.reference.spots import K0, K1, K2, K3, K4, SEED, token_hash

STORY = "the council said on monday that the old bridge over the river will be closed for most of the summer "
WORDS = [f"{first}{second}{third}" for first in "bdfklmnp" for second in "aeiou" for third in "rstvxz"]
MENU = "<nav><ul>" + "<li><a href=/>elsewhere on this fine site</a></li>" * 9 + "</ul></nav>"


def identity_of(block: np.uint64) -> int:
    return int(block) >> 24


def words_of(block: np.uint64) -> int:
    exponent, mantissa = divmod(int(block) >> 8 & 255, 16)
    return mantissa if exponent == 0 else (mantissa + 16) << exponent - 1


def hash_of(sample: np.uint64) -> int:
    return int(sample) >> 32


def position_of(sample: np.uint64) -> int:
    return int(sample) >> 16 & 65_535


def place_of(sample: np.uint64) -> int:
    return int(sample) >> 4 & 4095


def width_of(sample: np.uint64) -> int:
    return int(sample) & 15


def sieved(page: str, markup: bool = True, **settings: int) -> SievedPages:
    buffer = np.frombuffer(page.encode(), np.uint8)
    return sieve_pages(buffer, np.array([0, len(buffer)]), markup, SieveSettings(**settings))


def drawn(size: int, seed: int = 1) -> list[str]:
    return random.Random(seed).choices(WORDS, k=size)


def fold(left: NDArray[np.uint64], right: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The high half of each 128-bit product xor the low half."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    (a, b), (c, d) = (left >> half, left & low), (right >> half, right & low)
    middle = (b * d >> half) + (a * d & low) + (b * c & low)
    high = a * c + (a * d >> half) + (b * c >> half) + (middle >> half)
    return np.asarray(high ^ left * right)


def crowd(size: int) -> list[str]:
    """Words whose hashes, as texts of one token, begin with the same nine bits."""
    numbers = np.arange(700 * size)
    words = np.zeros((len(numbers), 16), np.uint8)
    words[:, 0], words[:, 1] = ord("w"), ord("a") + numbers % 26
    digits = numbers.astype("S8").view(np.uint8).reshape(-1, 8)
    words[:, 2:10] = np.where(digits > 0, digits + (ord("a") - ord("0")), 0)
    first, second = words.view("<u8").T
    k0, k1, k2, k3, k4, seed = map(np.uint64, (K0, K1, K2, K3, K4, SEED))
    token = fold(fold(first ^ k0, second ^ seed) ^ k1, k2) & ~np.uint64(3)
    chain = fold(fold(token ^ k4, seed ^ k3) ^ k1, k2)
    found = [bytes(word).rstrip(b"\0").decode() for word in words[chain >> np.uint64(55) == 5][:size]]
    assert len(found) == size
    assert {chain_hash([token_hash(word)]) >> 55 for word in found} == {5}
    return found


PAGES = {
    "empty": "",
    "equal blocks": f"{MENU}<article>{f'<p>{STORY * 3}</p>' * 400}</article>" * 3,
    "20,000 tiny blocks": "\n\n".join(f"w{number}" for number in range(20_000)),
    "20,000 equal blocks": "a\n\n" * 20_000,
    "blocks of many sizes": "\n\n".join(" ".join(drawn(number * 7919 % 23 + 1, number)) for number in range(1_500)),
    "one long block": " ".join(drawn(70_000)),  # More words than a sample has places.
    "one long block of one word": "again " * 20_000,
    "main text far behind": "\n\n".join(" ".join(drawn(700, number)) for number in range(120)),
    "Chinese": "<p>" + "橋は夏の間閉鎖されると議会が発表した。" * 200,
    "Thai and Khmer": "<p>" + "".join(random.Random(3).choices("กขคงจฉชซฌญกขភមយរលវសហ", k=9_000)),
    "letter-spaced": "<p>" + " ".join(" ".join(drawn(3_000)).replace(" ", "")),
    "letter-spaced Greek": "<p>" + " ".join(random.Random(4).choices("αβγδεζηθικλ", k=3_000)),
    "digits only": "<table>" + "".join(f"<tr><td>{one} <td>{one * 7 % 10}" for one in range(900)),
    "tables of single digits": "<pre>" + " ".join(random.Random(5).choices("0123456789", k=5_000)),
    "crowded hashes": "".join(f"<p>{word}</p>" for word in crowd(300)),
    "repeats in both strata": f"{MENU * 2}<p>{STORY * 9}</p><a href=/>{STORY * 4}{' '.join(drawn(400))}</a>",
    "long text and a long menu": "".join(f"<li><a href=/>{' '.join(drawn(4, n))}</a></li>" for n in range(900))
    + f"<p>{' '.join(drawn(2_000))}</p>" * 2,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("markup", mostly_long([True, False], 1))
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_odd_pages_give_the_blocks_and_samples_of_the_reference(page: str, markup: bool) -> None:
    settings = {"shingle_words": len(page) % 5 + 1, "salt": len(page) * 0x9E3779B97F4A7C15 % 2**64}
    for chosen in ({}, settings) if len(page) < 100_000 else ({},):
        found, expected = sieved(page, markup, **chosen), columns_of(page.encode(), markup, SieveSettings(**chosen))
        assert found.blocks.tolist() == expected.packed
        assert found.samples.tolist() == expected.samples
        assert found.feature_counts.tolist() == [expected.features]


@pytest.mark.parametrize("shingle_words", [1, 2, 4, 8, 15])
def test_samples_and_features_do_not_depend_on_the_length_of_phrases(shingle_words: int) -> None:
    page = f"{MENU}<p>{STORY * 3}</p><p>{' '.join('abcdefghijklmnop')}</p><p>Two words"
    usual, other = sieved(page), sieved(page, shingle_words=shingle_words)
    assert other.samples.tolist() == usual.samples.tolist()
    assert other.feature_counts.tolist() == usual.feature_counts.tolist()
    assert other.minima.tolist() != usual.minima.tolist()


def test_the_salt_changes_identities_and_digests_of_numbers_and_nothing_else() -> None:
    page = f"<title>One</title>{MENU}<p>{STORY * 3}</p><p>In 2024 it cost 12 or 13 coins of gold or of silver</p>" * 2
    plain, salted = sieved(page), sieved(page, salt=7)
    low = np.uint64(0xFFFF)
    assert (plain.blocks & low).tolist() == (salted.blocks & low).tolist()
    assert not set((plain.blocks >> np.uint64(24)).tolist()) & set((salted.blocks >> np.uint64(24)).tolist())
    for name in ("samples", "minima", "titles", "feature_counts"):
        assert getattr(plain, name).tolist() == getattr(salted, name).tolist()


def test_blocks_that_differ_in_numbers_share_their_identity_and_not_their_digest() -> None:
    one, other = (
        sieved(f"<p>Only {price} euro, {left} left in stock</p>").blocks for price, left in ((12, 3), (15, 2))
    )
    assert identity_of(one[0]) == identity_of(other[0])
    assert one[0] & np.uint64(0xFF0000) != other[0] & np.uint64(0xFF0000)
    assert not sieved("<p>Only a few euro, a few left in stock</p>").blocks[0] & np.uint64(0xFF0000)


@pytest.mark.parametrize(
    ("digit", "counts"), [("9", True), ("&#57;", True), ("９", True), ("①", True), ("٩", False), ("九", False)]
)
def test_a_number_has_an_ascii_digit(digit: str, counts: bool) -> None:
    (block,) = sieved(f"<p>é{digit}é</p>").blocks[:1]
    assert bool(block & np.uint64(0xFF0000)) == counts


def test_equal_blocks_are_one_and_kept_if_any_is() -> None:
    story = f"<p>{STORY * 3}</p>"
    again = f"<nav><ul><li><a href=/>{STORY * 3}</a></li></ul></nav>"
    alone, twice = sieved(f"{MENU}<article>{story * 2}</article>"), sieved(f"{MENU}{again}<article>{story}</article>")
    assert len(alone.blocks) == len(twice.blocks) == 2
    assert [bool(block & KEPT) for block in twice.blocks] == [False, True]
    assert twice.samples.tolist() == alone.samples.tolist()
    assert alone.feature_counts.tolist() == twice.feature_counts.tolist() == [len(STORY.split()) * 3 - 2]


def test_blocks_of_single_characters_have_long_shingles() -> None:
    for text, wide in (
        ("b c d e f g h i j", True),
        ("橋は夏の間閉鎖されるの", True),
        ("b c d even five old red", False),
    ):
        found = sieved(f"<p>{text}</p>")
        assert [bool(block & WIDE) for block in found.blocks] == [wide], text
        assert {width_of(sample) for sample in found.samples} == {8 if wide else 3}


def test_shingles_never_cross_blocks() -> None:
    together, apart = sieved("<p>one two three four five six</p>"), sieved("<p>one two three</p><p>four five</p><p>six")
    assert [hash_of(sample) for sample in apart.samples][:1] == [hash_of(sample) for sample in together.samples][:1]
    assert [width_of(sample) for sample in apart.samples] == [3, 2, 1]
    assert [position_of(sample) for sample in apart.samples] == [0, 3, 5]
    assert [place_of(sample) for sample in apart.samples] == [0, 1, 2]


def test_a_page_of_many_blocks_lists_the_longest_and_the_words_of_all_others() -> None:
    sizes = [number * 7919 % 31 + 1 for number in range(3_000)]
    page = "\n\n".join(" ".join([f"block{number}"] * size) for number, size in enumerate(sizes))
    found = sieved(page, markup=False)
    assert len(found.blocks) == MOST_BLOCKS
    listed = sorted(sizes)[-(MOST_BLOCKS - 1) :]
    assert sorted(words_of(block) for block in found.blocks[:-1]) == listed
    rest = sum(sizes) - sum(listed)
    assert identity_of(found.blocks[-1]) == 0
    assert rest * 15 / 16 < words_of(found.blocks[-1]) <= rest
    assert max(place_of(sample) for sample in found.samples) < MOST_BLOCKS - 1
    places = [block.place for block in blocks_of(page.encode(), False)]
    assert [place for place in places if place is not None] == list(range(MOST_BLOCKS - 1))


def test_the_samples_are_the_smallest_hashes_and_say_where_they_stand() -> None:
    words = drawn(3_000)
    found = sieved(" ".join(words), markup=False)
    assert len(found.samples) == MAIN_SAMPLES
    for sample in found.samples:
        first = position_of(sample)
        assert chain_hash([token_hash(word) for word in words[first : first + 3]]) >> 32 == hash_of(sample)
    every = {chain_hash([token_hash(word) for word in words[at : at + 3]]) >> 32 for at in range(len(words) - 2)}
    assert sorted(hash_of(sample) for sample in found.samples) == sorted(every)[:MAIN_SAMPLES]


def test_a_long_menu_has_a_sample_of_its_own_size_and_no_hash_of_the_main_text() -> None:
    found = sieved(PAGES["long text and a long menu"])
    kept = [bool(found.blocks[place_of(sample)] & KEPT) for sample in found.samples]
    assert (kept.count(True), kept.count(False)) == (MAIN_SAMPLES, REST_SAMPLES)
    assert len({hash_of(sample) for sample in found.samples}) == len(kept)


def test_a_place_of_a_block_is_none_for_repeats() -> None:
    page = f"<p>{STORY}</p><p>another text of some words</p><p>{STORY}</p><p>the last one</p>"
    assert [block.place for block in blocks_of(page.encode(), True)] == [0, 1, None, 2]


HEAVY = {
    "one block of a million words": "again " * 1_000_000,
    "one block of a million different words": " ".join(f"w{number}" for number in range(1_000_000)),
    "a million equal blocks": "a\n\n" * 1_000_000,
    "a million single letters": "a b c d " * 250_000,
    "crowded blocks": "\n\n".join(" ".join([word] * (number % 7 + 1)) for number, word in enumerate(crowd(2_000) * 50)),
}


@pytest.mark.parametrize("page", HEAVY.values(), ids=HEAVY)
def test_heavy_pages_take_linear_time(page: str) -> None:
    assert_cpu_grows(lambda size: sieved(page[:size], markup=False), len(page) // 16, len(page), 3 * 16, extra=0.01)
