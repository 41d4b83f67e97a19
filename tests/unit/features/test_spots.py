"""Spots as the paper defines them, and as the kernel finds them."""

from itertools import pairwise

import numpy as np
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.sign.features.spots import (
    DEFAULT_ANTECEDENTS,
    DEFAULT_STOP_WORDS,
    MAX_WORDS,
    SpotModel,
    SpotSettings,
    extract_spots,
)
from spotsieve.stream.sign.text.machine import PADDING
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.lexbor import DATA, pages_of
from tests.reference.spots import chains_of, spot_hash
from tests.reference.text import blocks_of

# The example of sec. 3 of the paper
RALLY = (
    "at a rally to kick off a weeklong campaign for the south carolina primary obama tried to set the record straight "
    "from an attack circulating widely on the internet that is designed to play into prejudices against muslims and "
    "fears of terrorism"
)


def spots_of(pages: list[bytes], settings: SpotSettings, markup: bool = True) -> list[list[int]]:
    buffer = np.frombuffer(b"".join(pages), dtype=np.uint8)
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in pages])]).astype(np.int64)
    found = extract_spots(buffer, bounds, markup, SpotModel(settings))
    assert found.token_counts.tolist() == [sum(map(len, blocks_of(page, markup))) for page in pages]
    assert found.block_counts.tolist() == [len(blocks_of(page, markup)) for page in pages]
    cuts = found.spot_bounds.tolist()
    return [found.spots[start:end].tolist() for start, end in pairwise(cuts)]


def test_the_paper_s_example_gives_the_paper_s_spots() -> None:
    settings = SpotSettings(("a", "an", "the", "is"), DEFAULT_STOP_WORDS, distance=1, chain_length=2)
    expected = "a:rally:kick a:weeklong:campaign the:south:carolina the:record:straight an:attack:circulating"
    expected += " the:internet:designed is:designed:play"
    chains = chains_of([RALLY.split()], settings)
    assert " ".join(":".join(chain) for chain in chains) == expected
    assert spots_of([RALLY.encode()], settings) == [[spot_hash(chain) for chain in chains]]


def test_chains_of_three_take_the_second_fourth_and_sixth_word() -> None:
    settings = SpotSettings(("the",), ("the", "of"))
    chains = chains_of(["the a1 a2 a3 a4 a5 a6 a7".split()], settings)
    assert chains == [("the", "a2", "a4", "a6")]
    assert chains_of(["the a1 of a3 a4 a5 a6 a7".split()], settings) == [("the", "a3", "a5", "a7")]


def test_a_chain_is_cut_off_where_its_block_ends_and_needs_one_word() -> None:
    settings = SpotSettings(("the",), ("the", "of"))
    page = b"<p>the a1 a2 a3</p><p>b1 the b2</p><p>the of of</p>"
    expected = [("the", "a2")]
    assert chains_of(blocks_of(page, True), settings) == expected
    assert spots_of([page], settings) == [[spot_hash(chain) for chain in expected]]


def test_long_runs_of_stop_words_are_skipped_from_every_place() -> None:
    settings = SpotSettings(("the",), ("the", "of"), chain_length=4)
    page = ("the of " * 40 + "a " + "the of the " * 30 + "b c the the d ") * 3
    expected = [spot_hash(chain) for chain in chains_of([page.split()], settings)]
    assert spots_of([page.encode()], settings) == [expected]


def test_an_antecedent_may_have_a_spot_distance_of_its_own() -> None:
    settings = SpotSettings(("the", "is:1", "a:3"), ("the", "is", "a", "of"), chain_length=2)
    chains = chains_of(["the w1 w2 is w3 w4 a w5 of of w6 w7 w8".split()], settings)
    assert chains == [("is", "w3", "w4"), ("the", "w2", "w3"), ("a", "w6")]
    page = ("the w1 w2 is w3 w4 a w5 of of w6 w7 w8 " * 300).encode()
    expected = [spot_hash(chain) for chain in chains_of([page.decode().split()], settings)]
    assert spots_of([page, b"<p>a b c d</p>", page], settings) == [expected, [spot_hash(("a", "d"))], expected]
    alone = SpotSettings(("is:1",), ("the", "is", "a", "of"), chain_length=2)
    assert spots_of([page], alone) == [[spot for spot in expected if spot == spot_hash(("is", "w3", "w4"))]]


def test_repeated_spots_are_kept() -> None:
    settings = SpotSettings(("the",), ("the",), distance=1, chain_length=1)
    (spots,) = spots_of([b"the cat the cat the dog"], settings)
    assert spots[0] == spots[1] != spots[2]


def test_an_antecedent_that_is_no_stop_word_may_stand_in_a_chain() -> None:
    settings = SpotSettings(("says", "the"), ("the",), distance=1, chain_length=1)
    chains = [("the", "says"), ("says", "cat")]
    assert spots_of([b"the says cat"], settings) == [[spot_hash(chain) for chain in chains]]


def test_spot_hashes_never_change() -> None:
    assert spot_hash(("the", "south", "carolina")) == GOLDEN_SPOT
    assert spots_of([b"The South Carolina"], SpotSettings(distance=1)) == [[GOLDEN_SPOT]]


GOLDEN_SPOT = 0xF1D54C663AB56829


def test_the_order_of_a_chain_matters() -> None:
    assert len({spot_hash(chain) for chain in [("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("a", "b")]}) == 4


def test_the_batch_a_page_comes_in_never_matters() -> None:
    pages = [RALLY.encode(), b"", b"<p>the cat is on the mat</p>" * 30, b"<", b"the &", "é ".encode() * 50, b"a" * 200]
    together = spots_of(pages, SpotSettings())
    assert together == [spots_of([page], SpotSettings())[0] for page in pages]
    buffer = np.frombuffer(b"".join(pages) + bytes(PADDING), dtype=np.uint8)
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in pages])]).astype(np.int64)
    padded = extract_spots(buffer, bounds, np.ones(len(pages), dtype=np.bool_), SpotModel(SpotSettings()))
    assert padded.spots.tolist() == [spot for spots in together for spot in spots]


def test_html_and_plain_pages_may_share_a_batch() -> None:
    page = b"<p>the cat is on &eacute; the mat</p>\n\n<b>the</b> dog"
    buffer, bounds = np.frombuffer(page * 2, dtype=np.uint8), np.array([0, len(page), 2 * len(page)])
    found = extract_spots(buffer, bounds, np.array([True, False]), SpotModel(SpotSettings()))
    assert found.token_counts.tolist() == [sum(map(len, tokens_of(page, markup))) for markup in (True, False)]


def test_an_empty_batch_has_no_spots() -> None:
    found = extract_spots(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), True, SpotModel(SpotSettings()))
    assert (len(found), len(found.spots), found.spot_bounds.tolist()) == (0, 0, [0])


def test_more_spots_than_expected_are_all_kept() -> None:
    settings = SpotSettings(("the",), (), distance=1, chain_length=1)
    (spots,) = spots_of([b"the " * 5000], settings)
    assert len(spots) == 4999


@pytest.mark.parametrize("count", [1, 2, 3, 50, 3000])
def test_word_lists_of_any_length_are_told_apart(count: int) -> None:
    words = tuple(f"w{number}" for number in range(count))
    antecedents = tuple(f"{word}:{1 + place % 3}" for place, word in enumerate(words[: count // 2 + 1]))
    settings = SpotSettings(antecedents, words[count // 3 :], chain_length=2)
    blocks = [[f"w{number * 7919 % (2 * count)}" for number in range(500)]]
    expected = [spot_hash(chain) for chain in chains_of(blocks, settings)]
    assert spots_of([" ".join(blocks[0]).encode()], settings) == [expected]


def test_real_pages_give_the_spots_of_the_reference() -> None:
    if not (DATA / "news" / "pages.jsonl.xz").exists():
        pytest.skip("../shared/data/news is not beside the repository: the labelled pages are not part of it")
    pages = [page for number, (_, page) in enumerate(pages_of("news")) if number % 400 == 0]
    settings = SpotSettings()
    expected = [[spot_hash(chain) for chain in chains_of(blocks_of(page, True), settings)] for page in pages]
    assert spots_of(pages, settings) == expected


def test_the_default_antecedents_are_stop_words() -> None:
    assert set(DEFAULT_ANTECEDENTS) <= set(DEFAULT_STOP_WORDS)
    assert len(set(DEFAULT_STOP_WORDS)) == len(DEFAULT_STOP_WORDS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"antecedents": ()}, "antecedents must name at least one word"),
        ({"antecedents": ("The",)}, "antecedents must be single tokens in lower case"),
        ({"antecedents": ("The:3",)}, "antecedents must be single tokens in lower case"),
        ({"antecedents": ("the:0",)}, "whole numbers in 1..100, got 'the:0'; write for example the:3, or the alone"),
        ({"antecedents": ("the:",)}, "antecedents must have spot distances that are whole numbers in 1..100"),
        ({"antecedents": ("the:101",)}, "antecedents must have spot distances that are whole numbers in 1..100"),
        ({"antecedents": ("the:3:1",)}, "antecedents must have spot distances that are whole numbers in 1..100"),
        ({"antecedents": ("the", "the:3")}, "one spot distance for each word, got 'the:3'; leave out the:2 or this"),
        ({"stop_words": ("the:3",)}, "stop_words must be single tokens in lower case"),
        ({"stop_words": ("don't",)}, 'got "don\'t"; write the parts as words of their own'),
        ({"stop_words": ["the"]}, "stop_words must be a tuple of words"),
        ({"stop_words": ("a",) * (MAX_WORDS + 1)}, "stop_words must be at most 8000 words, got 8001"),
        ({"distance": 0}, "distance must be a whole number in 1..100, got 0"),
        ({"chain_length": 101}, "chain_length must be a whole number in 1..100, got 101"),
        ({"chain_length": True}, "chain_length must be a whole number in 1..100, got True"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as refused:
        SpotSettings(**settings)  # type: ignore[arg-type]  # the point of the test
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("buffer", "bounds", "error"),
    [
        (np.zeros(4, dtype=np.int8), np.array([0, 4]), TypeError),
        (np.zeros(4, dtype=np.uint8), np.array([0, 4], dtype=np.int32), TypeError),
        (np.zeros(4, dtype=np.uint8), np.array([0, 5]), ValueError),
        (np.zeros(4, dtype=np.uint8), np.array([0, 3, 2]), ValueError),
        (np.zeros(4, dtype=np.uint8), np.array([-1, 3]), ValueError),
    ],
)
def test_arrays_of_another_kind_are_refused(buffer: object, bounds: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        extract_spots(buffer, bounds, True, SpotModel(SpotSettings()))  # type: ignore[arg-type]  # the point of the test
