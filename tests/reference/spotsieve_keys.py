"""The keys of the scheme `spotsieve`, page by page. Reference for SpotsieveScheme.probe."""

from collections.abc import Sequence
from typing import NamedTuple

from spotsieve.stream.base.signature import MATCHING_NOTHING, Signatures, SignatureStatus
from spotsieve.stream.sign.fingerprints.permuted_tables import BLOCK_TAG, DIGEST_TAG, MINIMA_TAG, TITLE_TAG
from spotsieve.stream.sign.schemes import UNCAPPED
from tests.reference.packed_text import words_of_code

WORD, LOW = 2**64, 2**56


class Key(NamedTuple):
    """A key of a page, with its columns of Probes."""

    key: int
    inline: int
    decisive: bool
    cap: int


def keys_of_page(signatures: Signatures, row: int, minima_cap: int) -> list[Key]:
    """Digest; MinHash values; title; the heaviest blocks, of equal ones the first of the page."""
    status = int(signatures.status[row])
    if status in MATCHING_NOTHING:
        return []
    low, high = map(int, signatures.digest[row])
    keys = [Key(_tagged(DIGEST_TAG, low), high, True, UNCAPPED)]
    if status not in (SignatureStatus.FINGERPRINTED, SignatureStatus.PARTIAL):
        return keys
    host, features = int(signatures.host[row]), int(signatures.feature_count[row])
    keys += [Key(_tagged(MINIMA_TAG, value), 0, False, minima_cap) for value in _own(signatures, "features", row)]
    if words := _own(signatures, "titles", row):
        mixed = 0xCBF29CE484222325
        for word in words:
            mixed = (mixed ^ word) * 0x100000001B3 % WORD
        keys.append(Key(_tagged(TITLE_TAG, _mixed(mixed % LOW, host)), 0, False, minima_cap))
    wanted = 6 if features < 150 else 4 if features < 300 else 2
    heaviest = sorted(_weights(_own(signatures, "blocks", row)).items(), key=lambda row: (-row[1][0], row[1][1]))
    identities = [identity for identity, _ in heaviest[:wanted]]
    return keys + [Key(_tagged(BLOCK_TAG, _mixed(identity, host)), 0, False, 4) for identity in identities]


def _weights(blocks: Sequence[int]) -> dict[int, tuple[float, int]]:
    """The weight and the place of the heaviest block of each identity; the first of equally heavy ones."""
    weights = dict[int, tuple[float, int]]()
    for place, block in enumerate(blocks):
        identity, words, kept = block >> 24, words_of_code(block >> 8 & 255), block & 1
        weight = words * (1.0 if kept else 0.4)
        if identity and (identity not in weights or weight > weights[identity][0]):
            weights[identity] = weight, place
    return weights


def _own(signatures: Signatures, name: str, row: int) -> list[int]:
    first, end = getattr(signatures, f"{name}_bounds")[row : row + 2].tolist()
    values: list[int] = getattr(signatures, name)[first:end].tolist()
    return values


def _tagged(tag: int, word: int) -> int:
    return tag * LOW + word % LOW


def _mixed(bits: int, host: int) -> int:
    mixed = (bits ^ host % LOW) * 0xBF58476D1CE4E5B9 % LOW
    mixed ^= mixed >> 28
    mixed = (mixed ^ host >> 8) * 0x94D049BB133111EB % LOW
    return mixed ^ mixed >> 28
