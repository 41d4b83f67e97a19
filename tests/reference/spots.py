"""Spots by the letter of the paper (Theobald et al. 2008, sec. 3): the reference implementation of the kernel."""

from spotsieve.stream.sign.features.spots import SpotSettings

SEED = 0x9E3779B97F4A7C15
K0, K1, K2 = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3
K3, K4 = 0x589965CC75374CC3, 0x1D8E4E27C47D124F


def chains_of(blocks: list[list[str]], settings: SpotSettings) -> list[tuple[str, ...]]:
    """Every spot of a page as the words it is made of, antecedent first: by distance, and then in page order."""
    found = []
    distances = settings.distances()
    for distance in sorted(set(distances.values())):
        found += _chains_at(blocks, {word for word, own in distances.items() if own == distance}, distance, settings)
    return found


def _chains_at(
    blocks: list[list[str]], antecedents: set[str], distance: int, settings: SpotSettings
) -> list[tuple[str, ...]]:
    found = []
    for block in blocks:
        for place, word in enumerate(block):
            if word in antecedents:
                chain: list[str] = []
                at = place
                while len(chain) < settings.chain_length:
                    at += distance
                    while at < len(block) and block[at] in settings.stop_words:
                        at += 1
                    if at >= len(block):
                        break
                    chain.append(block[at])
                if chain:
                    found.append((word, *chain))
    return found


def spot_hash(chain: tuple[str, ...]) -> int:
    """The hash of a spot (stream/sign/text/hashing.py has the definition)."""
    state = SEED
    for word in chain:
        state = folded(state ^ K3, token_hash(word) ^ K4)
    return folded(state ^ K1, K2)


def token_hash(word: str) -> int:
    """The hash of a normalised token."""
    rest = word.encode()
    state = SEED
    while True:
        part, rest = rest[:16] + bytes(16 - len(rest[:16])), rest[16:]
        state = folded(int.from_bytes(part[:8], "little") ^ K0, int.from_bytes(part[8:], "little") ^ state)
        if not rest:
            return folded(state ^ K1, K2) // 4 * 4


def folded(left: int, right: int) -> int:
    """High half of the 128-bit product xor the low half."""
    high, low = divmod(left * right, 2**64)
    return high ^ low
