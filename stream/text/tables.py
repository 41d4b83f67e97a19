"""Reads the frozen character and entity tables into the arrays that the kernel uses.

The tables are files of this repository (characters.txt, entities.txt) and not data of the running Python. So a page
gives the same tokens, and the same verdict, whatever Unicode version the interpreter knows. The digests below guard
them.

    leaves[pages[code point >> 7] << 7 | code point & 127] = lower case << 3 | class
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.text.hashing import hash_token

DIGESTS = {
    "characters.txt": "7f99ff229b255b0107ba3ae3e258f348d1f22a9db16e9b64ad623e7464f035ad",
    "entities.txt": "babbbc3f719300853aba95028b9456ab8d030759f875397b6be991f00ce8e2ad",
}

SEPARATOR, WORD, MARK, IDEOGRAPH, IGNORED = range(5)
"""Classes of characters. SEPARATOR ends a token, WORD is part of one, MARK is part of an open one and else nothing,
IDEOGRAPH is a token by itself, IGNORED is nothing."""

LONGEST_ENTITY = 32
"""Characters of the longest entity name, its ';' included."""
LONGEST_BARE_ENTITY = 6
"""Characters of the longest entity name that needs no ';'."""

ENTITY_SLOT_BITS = 13
_LEAF_BITS = 7
_CODE_POINTS = 0x110000
_CLASSES = {"w": WORD, "m": MARK, "i": IDEOGRAPH, "x": IGNORED}


@dataclass(frozen=True, slots=True)
class TextTables:
    """pages: uint16[8704]  leaves: uint32[m * 128]  entity_keys, entity_values: uint64[8192]

    Entities are filed under the hash of their name, linear probing, 0 for empty; the value is the first code point,
    and the second, if any, shifted left by 32.
    """

    pages: NDArray[np.uint16]
    leaves: NDArray[np.uint32]
    entity_keys: NDArray[np.uint64]
    entity_values: NDArray[np.uint64]


@cache
def text_tables() -> TextTables:
    """Read the frozen tables once a process. Raises RuntimeError for a file that this release was not tested with."""
    pages, leaves = _character_arrays(frozen_lines("characters.txt"))
    keys, values = _entity_arrays(frozen_lines("entities.txt"))
    return TextTables(pages, leaves, keys, values)


def class_and_lower(code_point: int) -> tuple[int, int]:
    """Class and lower case of a code point, from the frozen table."""
    tables = text_tables()
    leaf = int(tables.pages[code_point >> _LEAF_BITS]) << _LEAF_BITS
    entry = int(tables.leaves[leaf | code_point & (1 << _LEAF_BITS) - 1])
    return entry & 7, entry >> 3


def is_token(word: str) -> bool:
    """Whether a page that holds `word` can yield it as one token: normalised, and not cut by a separator."""
    if not word:
        return False
    kinds = [class_and_lower(ord(character))[0] for character in word]
    if any(class_and_lower(ord(character))[1] != ord(character) for character in word):
        return False
    if kinds == [IDEOGRAPH]:
        return True
    return kinds[0] == WORD and all(kind in (WORD, MARK) for kind in kinds)


def frozen_lines(name: str) -> list[str]:
    """The lines of a frozen file, without its header. Raises RuntimeError if its digest is wrong."""
    written = files(__package__).joinpath(name).read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGESTS[name]:
        raise RuntimeError(
            f"stream/text/{name} must have the digest {DIGESTS[name]}, got {digest}; "
            "install the package again, or put the new digest into stream/text/tables.py if the change is meant"
        )
    return [line for line in written.decode("ascii").splitlines() if not line.startswith("#")]


def _character_arrays(lines: list[str]) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    entries = np.arange(_CODE_POINTS, dtype=np.uint32) << np.uint32(3)
    for line in lines:
        span, kind, delta = line.split()
        first, last = (int(end, 16) for end in span.split("-"))
        lower = np.arange(first, last + 1, dtype=np.int64) + int(delta)
        entries[first : last + 1] = lower << 3 | _CLASSES[kind]
    rows = entries.reshape(-1, 1 << _LEAF_BITS)
    # Most leaves hold separators only. One leaf serves for all of them, since nobody reads its lower case.
    separators = (rows & np.uint32(7) == SEPARATOR).all(axis=1)
    kept = np.flatnonzero(~separators)
    pages = np.zeros(len(rows), dtype=np.uint16)
    pages[kept] = np.arange(1, len(kept) + 1)
    leaves = np.vstack([np.zeros((1, 1 << _LEAF_BITS), dtype=np.uint32), rows[kept]])
    return pages, np.ascontiguousarray(leaves.reshape(-1))


def _entity_arrays(lines: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    slots = 1 << ENTITY_SLOT_BITS
    keys, values = np.zeros(slots, dtype=np.uint64), np.zeros(slots, dtype=np.uint64)
    for line in lines:
        name, first, *second = line.split()
        key = hash_token(name.encode("ascii"))
        slot = key >> (64 - ENTITY_SLOT_BITS)
        while keys[slot]:
            slot = (slot + 1) % slots
        keys[slot] = key
        values[slot] = int(first, 16) | (int(second[0], 16) << 32 if second else 0)
    return keys, values
