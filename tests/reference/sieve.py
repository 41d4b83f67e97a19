"""Features and fingerprints of a text, one obvious line after the other: the twin of the kernel."""

from collections import Counter
from dataclasses import dataclass

import xxhash

from spotsieve.stream.features.languages import LONE_CHARACTER, language_table
from spotsieve.stream.features.sieve import SieveSettings
from spotsieve.stream.features.vocabulary import MOST_TOKENS
from spotsieve.stream.fingerprints.bodydigest import SHORT_BYTES
from spotsieve.stream.text.tables import IDEOGRAPH, class_and_lower
from tests.reference.blocks import noted_blocks_of
from tests.reference.languages import choose_path, word_index
from tests.reference.scorecard import reasons_of
from tests.reference.simhash import fingerprint_of
from tests.reference.spots import K0, K1, K2, K3, K4, SEED, folded, spot_hash, token_hash

GOLDEN = 0x9E3779B97F4A7C15
ROUND = 0xD6E8FEB86659FD93
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
    digest: tuple[int, int]
    simhash: int
    minima: list[int]
    sketch: list[int]


def columns_of(page: bytes, markup: bool, settings: SieveSettings) -> Columns:
    """What spotsieve.stream.features.sieve.sieve_pages must give for a page."""
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
        digest_of(kept),
        fingerprint_of(features),
        minima_of(shingles, settings.shingle_words - 1, settings.minima),
        sketch_of(features, settings.sketch_bits),
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
    """The last step of every hash (stream/text/hashing.py)."""
    return folded(value ^ K1, K2)


def body_digest_of(page: bytes) -> tuple[int, int]:
    """The low and the high word; none of a short page."""
    high, low = divmod(xxhash.xxh3_128_intdigest(page), WORD) if len(page) > SHORT_BYTES else (0, 0)
    return low, high


def digest_of(tokens: list[str]) -> tuple[int, int]:
    """The digest of a text (stream/fingerprints/textdigest.py)."""
    if not tokens:
        return 0, 0
    hashes = [token_hash(token) for token in tokens] + [0] * (len(tokens) % 2)
    low = high = SEED
    for first, second in zip(hashes[::2], hashes[1::2], strict=True):
        low, high = folded(first ^ low, second ^ K3), folded(first ^ high, second ^ K4)
    return mixed_hash(low), mixed_hash(high)


def minima_of(shingles: list[int], reach: int, count: int) -> list[int]:
    """The smallest ranks of phrases (stream/fingerprints/bottomk.py)."""
    reach = min(reach, max(len(shingles) - 1, 0))
    phrases = zip(shingles, shingles[reach:], strict=False) if shingles else ()
    return sorted({folded(first ^ K4, second ^ K0) >> 8 for first, second in phrases})[:count]


def sketch_of(features: list[int], bits: int) -> list[int]:
    """Fast similarity sketching, round after round (stream/fingerprints/sketch.py)."""
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
