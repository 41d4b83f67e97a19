"""The packed blocks and sampled shingles of a page, line by line: the reference implementation of the kernel."""

import functools
from dataclasses import dataclass

from tests.reference.blocks import Noted
from tests.reference.spots import K1, K2, K3, K4, SEED, folded, token_hash

NUMBER_TOKEN = 0xA24BAED4963EE404
MOST_BLOCKS = 1024
MAIN_SAMPLES, REST_SAMPLES = 192, 128
SHINGLE, WIDE_SHINGLE = 3, 8


@dataclass
class Listed:
    """A block of which the page may have several copies."""

    tokens: tuple[str, ...]
    links: int
    kept: bool

    @property
    def wide(self) -> bool:
        """Whether most tokens are single characters."""
        return 2 * sum(len(token) == 1 for token in self.tokens) > len(self.tokens)

    def packed(self, salt: int) -> int:
        """As stored."""
        hashes = [token_hash(token) for token in self.tokens]
        numbers = [any(digit in token for digit in "0123456789") for token in self.tokens]
        text = [NUMBER_TOKEN if number else hashed for hashed, number in zip(hashes, numbers, strict=True)]
        digest = 1 + ((chain_hash(hashes, 0) >> 32) * 255 >> 32) if any(numbers) else 0
        numeric = any(numbers) and 3 * sum(numbers) >= len(numbers)
        word = (chain_hash(hashes if numeric else text, salt) >> 24) << 24 | digest << 16
        return word | packed_size(len(self.tokens), self.links) | numeric << 2 | self.wide << 1 | self.kept

    def shingles(self) -> list[tuple[str, ...]]:
        """Every run of tokens of the block's width; all tokens of a shorter block."""
        width = min(WIDE_SHINGLE if self.wide else SHINGLE, len(self.tokens))
        return [self.tokens[first : first + width] for first in range(len(self.tokens) - width + 1)]


@dataclass(frozen=True)
class PageText:
    """What a page's signature holds of its text."""

    blocks: list[int]
    samples: list[int]
    features: int


def page_text_of(noted: list[Noted], reasons: list[str], salt: int) -> PageText:
    """The packed blocks, the samples, and the number of shingles of listed main text."""
    different: dict[tuple[str, ...], Listed] = {}
    for block, why in zip(noted, reasons, strict=True):
        one = different.setdefault(block.tokens, Listed(block.tokens, block.links, False))
        one.kept |= "kept" in why
    listed = list(different.values())
    others: list[Listed] = []
    if len(listed) > MOST_BLOCKS:
        longest = sorted(range(len(listed)), key=lambda place: -len(listed[place].tokens))[: MOST_BLOCKS - 1]
        others = [block for place, block in enumerate(listed) if place not in set(longest)]
        listed = [listed[place] for place in sorted(longest)]
    blocks = [block.packed(salt) for block in listed]
    if others:
        blocks.append(packed_size(sum(len(one.tokens) for one in others), sum(one.links for one in others)))
    return PageText(blocks, samples_of(listed), sum(len(block.shingles()) for block in listed if block.kept))


def samples_of(listed: list[Listed]) -> list[int]:
    """The smallest hashes of main text and of other text, each with the first place that has it."""
    found: dict[bool, dict[int, tuple[int, int, int]]] = {True: {}, False: {}}
    before = 0
    for place, block in enumerate(listed):
        for offset, shingle in enumerate(block.shingles()):
            hashed = chain_hash([token_hash(token) for token in shingle]) >> 32
            found[block.kept].setdefault(hashed, (before + offset, place, len(shingle)))
        before += len(block.tokens)
    rest = {hashed: where for hashed, where in found[False].items() if hashed not in found[True]}
    chosen = sorted(found[True].items())[:MAIN_SAMPLES] + sorted(rest.items())[:REST_SAMPLES]
    return [
        hashed << 32 | min(position, 65_535) << 16 | place << 4 | size
        for hashed, (position, place, size) in sorted(chosen, key=lambda one: one[1])
    ]


def packed_size(words: int, links: int) -> int:
    """The size code of a number of words, and the share of them outside links in 15ths, rounded half up."""
    outside = (30 * (words - links) + words) // (2 * words)
    return size_code(words) << 8 | outside << 4


@functools.cache
def size_code(words: int) -> int:
    """A mantissa of four bits and an exponent (stream/base/page_text.py)."""
    size = min(words, 31 << 14)
    codes = [code for code in range(256) if (code if code < 16 else (16 + code % 16) << (code // 16 - 1)) <= size]
    return codes[-1]


def chain_hash(hashes: list[int], salt: int = 0) -> int:
    """The hash of token hashes in their order (stream/sign/text/hashing.py)."""
    state = SEED ^ salt
    for token in hashes:
        state = folded(state ^ K3, token ^ K4)
    return folded(state ^ K1, K2)
