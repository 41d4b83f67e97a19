"""Reads the tokens of one page as words, as the kernel sees them."""

from spotsieve.stream.sign.features.sieve import blocks_of


def tokens_of(page: bytes, markup: bool) -> list[list[str]]:
    """The normalised tokens of a page, block by block."""
    return [list(block.tokens) for block in blocks_of(page, markup)]
