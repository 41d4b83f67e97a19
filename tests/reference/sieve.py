"""The columns of a page, one obvious line after the other: the reference implementation of the kernel."""

from dataclasses import dataclass

import xxhash

from spotsieve.stream.sign.features.languages import LONE_CHARACTER, MOST_TOKENS, NO_WORD, language_table
from spotsieve.stream.sign.features.sieve import SieveSettings
from spotsieve.stream.sign.fingerprints.digests import SHORT_BYTES
from spotsieve.stream.sign.text.words import LEAST_HEADLINE, MOST_TITLE_WORDS
from tests.reference.blocks import noted_blocks_of
from tests.reference.languages import choose_path, word_index
from tests.reference.page_text import page_text_of
from tests.reference.scorecard import reasons_of
from tests.reference.spots import K0, K4, folded, spot_hash, token_hash
from tests.reference.text import title_of, title_parts_of

WORD = 2**64


@dataclass(frozen=True)
class Columns:
    """One row of SievedPages."""

    tokens: int
    kept: int
    blocks: int
    weak: bool
    features: int
    language: int
    body: tuple[int, int]
    minima: list[int]
    packed: list[int]
    samples: list[int]
    titles: list[int]
    headline: int


def columns_of(page: bytes, markup: int, settings: SieveSettings) -> Columns:
    """What spotsieve.stream.sign.features.sieve.sieve_pages must give for a page."""
    blocks = noted_blocks_of(page, markup)
    every = [token for block in blocks for token in block.tokens]
    reasons = reasons_of(blocks)
    kept = [token for block, why in zip(blocks, reasons, strict=True) if "kept" in why for token in block.tokens]
    shingles = shingles_of(kept or every, settings.shingle_words)
    text = page_text_of(blocks, reasons, settings.salt)
    return Columns(
        len(every),
        len(kept),
        len(blocks),
        "kept for want of other text" in reasons,
        text.features,
        language_of(kept or every),
        body_digest_of(page),
        minima_of(shingles, settings.shingle_words - 1, settings.minima),
        text.blocks,
        text.samples,
        title_words_of(page, markup) if markup else [],
        headline_of(page, markup) if markup else 0,
    )


def language_of(tokens: list[str]) -> int:
    """The path that the first tokens choose."""
    table = language_table()
    indexes = []
    for token in tokens[:MOST_TOKENS]:
        index = word_index(table, token_hash(token))
        alone = len(token) == 1 and token not in "0123456789"
        indexes.append(LONE_CHARACTER if alone and index == NO_WORD else index)
    return choose_path(indexes, table)


def shingles_of(tokens: list[str], width: int) -> list[int]:
    """Shingles at every place; a text of fewer tokens is one by itself."""
    width = min(width, len(tokens))
    return [spot_hash(tuple(tokens[place : place + width])) for place in range(len(tokens) - width + 1 if width else 0)]


def body_digest_of(page: bytes) -> tuple[int, int]:
    """The low and the high word; none of a short page."""
    high, low = divmod(xxhash.xxh3_128_intdigest(page), WORD) if len(page) > SHORT_BYTES else (0, 0)
    return low, high


def minima_of(shingles: list[int], reach: int, count: int) -> list[int]:
    """The smallest ranks of phrases (stream/sign/fingerprints/minhash.py)."""
    reach = min(reach, max(len(shingles) - 1, 0))
    phrases = zip(shingles, shingles[reach:], strict=False) if shingles else ()
    return sorted({folded(first ^ K4, second ^ K0) >> 8 for first, second in phrases})[:count]


def title_words_of(page: bytes, markup: int) -> list[int]:
    """The first ten different words of the title (stream/sign/text/words.py)."""
    return sorted(list(dict.fromkeys(token_hash(token) >> 48 for token in title_of(page, markup)))[:MOST_TITLE_WORDS])


def headline_of(page: bytes, markup: int) -> int:
    """A hash of two words of the longest part of the title, or of the title if no part has four words."""
    parts = [tokens for tokens in title_parts_of(page, markup) if tokens]
    longest = max(parts, key=len, default=[])
    if len(parts) > 1 and len(longest) < LEAST_HEADLINE:
        longest = [token for tokens in parts for token in tokens]
    if not longest:
        return 0
    low, high, *_ = [*sorted({token_hash(token) >> 48 for token in longest[:MOST_TITLE_WORDS]}), 1 << 16]
    return (low << 17 | high) * 0x9E3779B97F4A7C15 % 2**64 >> 48 | 1
