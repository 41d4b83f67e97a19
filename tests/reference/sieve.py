"""Features and fingerprints of a text, one obvious line after the other: the twin of the kernel."""

from collections import Counter
from dataclasses import dataclass

import xxhash

from spotsieve.stream.sign.features.languages import LONE_CHARACTER, MOST_TOKENS, language_table
from spotsieve.stream.sign.features.sieve import SieveSettings
from spotsieve.stream.sign.fingerprints.digests import SHORT_BYTES
from spotsieve.stream.sign.text.characters import IDEOGRAPH, class_and_lower
from tests.reference.blocks import Noted, noted_blocks_of
from tests.reference.languages import choose_path, word_index
from tests.reference.scorecard import reasons_of
from tests.reference.spots import K0, K1, K2, K3, K4, SEED, folded, spot_hash, token_hash
from tests.reference.text import title_of

GOLDEN = 0x9E3779B97F4A7C15
ROUND = 0xD6E8FEB86659FD93
NUMBER_TOKEN = 0xA24BAED4963EE404
WEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
WORD = 2**64


@dataclass(frozen=True)
class Item:
    """What a print is made of, in the order of the stored word. identity: hash << 1, and 1 for numbers"""

    identity: int
    kept: bool
    weight_class: int
    weak: bool

    def word(self) -> int:
        """As stored."""
        return self.identity << 5 | self.kept << 4 | self.weight_class

    def rank(self) -> tuple[int, int]:
        """The best first."""
        return -(self.weight_class // 2 + self.kept - 2 * self.weak), self.identity


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
    sketch: list[int]
    prints: list[int]
    titles: list[int]


def columns_of(page: bytes, markup: bool, settings: SieveSettings) -> Columns:
    """What spotsieve.stream.sign.features.sieve.sieve_pages must give for a page."""
    blocks = noted_blocks_of(page, markup)
    every = [token for block in blocks for token in block.tokens]
    reasons = reasons_of(blocks)
    kept = [token for block, why in zip(blocks, reasons, strict=True) if "kept" in why for token in block.tokens]
    shingles = shingles_of(kept, settings.shingle_words)
    features = features_of(shingles)
    return Columns(
        len(every),
        len(kept),
        len(blocks),
        "kept for want of other text" in reasons,
        len(features),
        language_of(kept or every),
        body_digest_of(page),
        minima_of(shingles, settings.shingle_words - 1, settings.minima),
        sketch_of(features, settings.sketch_bits),
        prints_of(blocks, reasons, len(features)),
        title_words_of(page) if markup else [],
    )


def language_of(tokens: list[str]) -> int:
    """The path that the first tokens choose."""
    table = language_table()
    indexes = []
    for token in tokens[:MOST_TOKENS]:
        alone = len(token) == 1 and class_and_lower(ord(token))[0] == IDEOGRAPH
        indexes.append(LONE_CHARACTER if alone else word_index(table, token_hash(token)))
    return choose_path(indexes, table)


def shingles_of(tokens: list[str], width: int) -> list[int]:
    """Shingles at every place; a text of fewer tokens is one by itself."""
    width = min(width, len(tokens))
    return [spot_hash(tuple(tokens[place : place + width])) for place in range(len(tokens) - width + 1 if width else 0)]


def features_of(shingles: list[int]) -> list[int]:
    """Shingles, equal ones numbered."""
    seen: Counter[int] = Counter()
    features = []
    for shingle in shingles:
        features.append(mixed_hash((shingle + seen[shingle] * GOLDEN) % WORD))
        seen[shingle] += 1
    return features


def mixed_hash(value: int) -> int:
    """The last step of every hash (stream/sign/text/hashing.py)."""
    return folded(value ^ K1, K2)


def body_digest_of(page: bytes) -> tuple[int, int]:
    """The low and the high word; none of a short page."""
    high, low = divmod(xxhash.xxh3_128_intdigest(page), WORD) if len(page) > SHORT_BYTES else (0, 0)
    return low, high


def minima_of(shingles: list[int], reach: int, count: int) -> list[int]:
    """The smallest ranks of phrases (stream/sign/fingerprints/minhash.py)."""
    reach = min(reach, max(len(shingles) - 1, 0))
    phrases = zip(shingles, shingles[reach:], strict=False) if shingles else ()
    return sorted({folded(first ^ K4, second ^ K0) >> 8 for first, second in phrases})[:count]


def sketch_of(features: list[int], bits: int) -> list[int]:
    """Fast similarity sketching, round after round (stream/sign/fingerprints/minhash.py)."""
    if not features:
        return [0] * (bits // 64)
    bins: list[int | None] = [None] * bits
    turn = 0
    while None in bins:
        thrown: dict[int, list[int]] = {}
        for feature in features:
            hashed = round_hash(feature, turn, bits)
            place = hashed * bits >> 32 if turn < bits else turn - bits
            thrown.setdefault(place, []).append(hashed)
        for place, hashes in thrown.items():
            if bins[place] is None:
                bins[place] = min(hashes)
        turn += 1
    words = [0] * (bits // 64)
    for place, winner in enumerate(bins):
        assert winner is not None
        words[place // 64] |= (winner & 1) << place % 64
    return words


def round_hash(feature: int, turn: int, bits: int) -> int:
    """The 32-bit hash of a feature in a round."""
    if turn >= bits:
        return folded(feature ^ (turn + 1) * ROUND % WORD, K0) >> 32
    pair, second = divmod(turn, 2)
    word = feature if pair == 0 else folded(feature ^ (pair + 1) * ROUND % WORD, K0)
    return word & 0xFFFFFFFF if second else word >> 32


def prints_of(blocks: list[Noted], reasons: list[str], features: int) -> list[int]:
    """The best of a page's texts and numbers (stream/sign/features/block_fingerprints.py)."""
    alike: dict[int, list[Item]] = {}
    for block, why in zip(blocks, reasons, strict=True):
        for item in items_of(block, "kept" in why):
            alike.setdefault(item.identity, []).append(item)
    items = [
        Item(
            identity,
            any(item.kept for item in equal),
            max(item.weight_class for item in equal),
            all(item.weak for item in equal),
        )
        for identity, equal in alike.items()
    ]
    strong = [item for item in items if not item.weak]
    most = 44 if features < 150 else 24 if features < 300 else 12
    return sorted(item.word() for item in sorted(strong if len(strong) >= 6 else items, key=Item.rank)[:most])


def items_of(block: Noted, kept: bool) -> list[Item]:
    """The text and the numbers of a block."""
    hashes = [token_hash(token) for token in block.tokens]
    numbers = [any(digit in token for digit in "0123456789") for token in block.tokens]
    weak = len(block.tokens) < 5 and block.links > len(block.tokens) / 2 and not kept
    items = []
    if not all(numbers):
        text = [NUMBER_TOKEN if number else hashed for hashed, number in zip(hashes, numbers, strict=True)]
        items.append(Item(chain_hash(text) >> 38 << 1, kept, class_of(numbers.count(False)), weak))
    if any(numbers):
        items.append(Item(chain_hash(hashes) >> 38 << 1 | 1, kept, class_of(numbers.count(True)), False))
    return items


def chain_hash(hashes: list[int]) -> int:
    """The hash of token hashes in their order (stream/sign/text/hashing.py)."""
    state = SEED
    for token in hashes:
        state = folded(state ^ K3, token ^ K4)
    return mixed_hash(state)


def class_of(weight: int) -> int:
    """The place of the largest weight that is not above this one."""
    return max(place for place, least in enumerate(WEIGHTS) if least <= weight)


def title_words_of(page: bytes) -> list[int]:
    """The first ten different words of the title (stream/sign/text/html/skips.py)."""
    return sorted(list(dict.fromkeys(token_hash(token) >> 48 for token in title_of(page)))[:10])
