"""Tokens and shingles of a page, word by word. Reference for stream.text.tokens and stream.features.page_shingles."""

from collections.abc import Sequence

from tests.reference.spots import spot_hash
from tests.reference.text import blocks_of


def words_of(page: bytes, markup: bool) -> list[str]:
    """Every token, in page order, blocks one after the other."""
    return [word for block in blocks_of(page, markup) for word in block]


def shingles_of(words: Sequence[str], shortest: int, longest: int) -> list[int]:
    """The hash of every run of shortest..longest words, those of one length after the other: hashed as spots are."""
    return [
        spot_hash(tuple(words[place : place + width]))
        for width in range(shortest, longest + 1)
        for place in range(len(words) - width + 1)
    ]
