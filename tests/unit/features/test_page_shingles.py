"""Tokens and shingles of whole pages are equal to the reference implementation's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.text.tokens import PageTokens, extract_tokens
from tests.reference.shingles import shingles_of, words_of
from tests.reference.spots import token_hash

SOUP = ["<p>", "</p>", "<b>", "The", "the", "of", "é", "漢字", "&amp;", "x", "1", "<script>no</script>", " ", "\0", "-"]
soup = st.lists(st.sampled_from(SOUP), max_size=40).map(lambda parts: " ".join(parts).encode())
pages = st.lists(st.one_of(soup, st.binary(max_size=60)), max_size=5)


def tokens_of(batch: list[bytes], markup: bool = True) -> PageTokens:
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in batch])]).astype(np.int64)
    return extract_tokens(np.frombuffer(b"".join(batch), dtype=np.uint8), bounds, markup)


def hashes_of(page: bytes, markup: bool) -> list[int]:
    return [token_hash(word) for word in words_of(page, markup)]


def rows(hashes: np.ndarray, bounds: np.ndarray) -> list[list[int]]:
    return [hashes[first:last].tolist() for first, last in pairwise(bounds)]


@settings(max_examples=150, deadline=None)
@given(pages, st.booleans(), st.integers(1, 6), st.integers(0, 2))
def test_tokens_and_shingles_of_a_batch_are_those_of_the_reference(
    batch: list[bytes], markup: bool, shortest: int, more: int
) -> None:
    tokens = tokens_of(batch, markup)
    assert rows(tokens.hashes, tokens.bounds) == [hashes_of(page, markup) for page in batch]
    words = [words_of(page, markup) for page in batch]
    assert tokens.counts.tolist() == [len(page) for page in words]
    hashes, bounds = shingle_pages(tokens, shortest, shortest + more)
    assert rows(hashes, bounds) == [shingles_of(page, shortest, shortest + more) for page in words]


@settings(max_examples=100, deadline=None)
@given(pages, st.sets(st.sampled_from(["the", "of", "é", "x", "none"])))
def test_tokens_that_are_left_out_are_gone_and_the_others_keep_their_order(
    batch: list[bytes], left_out: set[str]
) -> None:
    hashes = sorted(hash_ for word in left_out for hash_ in hashes_of(word.encode(), False))
    found = tokens_of(batch).without(np.array(hashes, np.uint64))
    expected = [[hash_ for hash_ in hashes_of(page, True) if hash_ not in hashes] for page in batch]
    assert rows(found.hashes, found.bounds) == expected


def test_a_page_larger_than_the_first_room_is_whole() -> None:
    page = b" ".join(b"w%d" % number for number in range(5_000))
    tokens = tokens_of([page, b"end"], False)
    assert tokens.counts.tolist() == [5_000, 1]
    assert tokens.hashes.tolist() == hashes_of(page, False) + hashes_of(b"end", False)


def test_a_batch_whose_last_page_lies_at_the_buffer_s_end_is_read_as_any_other() -> None:
    page = b"<p>one two three</p>"
    padded = np.zeros(3 * len(page) + 200, np.uint8)
    padded[: 3 * len(page)] = np.frombuffer(page * 3, np.uint8)
    bounds = np.arange(4) * len(page)
    inside, at_the_end = extract_tokens(padded, bounds, True), tokens_of([page] * 3)
    assert inside.hashes.tolist() == at_the_end.hashes.tolist() == hashes_of(page, True) * 3


@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (2, 1)])
def test_lengths_that_are_none_are_a_programming_error(shortest: int, longest: int) -> None:
    with pytest.raises(ValueError, match="1 <= shortest <= longest"):
        shingle_pages(tokens_of([b"a"]), shortest, longest)
