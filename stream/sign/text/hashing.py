"""Hashes tokens and chains of tokens to 64 bits, identically on every CPU and in every release.

    folded(a, b) = high 64 bits of a * b  xor  low 64 bits of a * b
    state        = SEED
    for each 16 bytes of the token's normalised UTF-8, the last 1..16 bytes zero padded:
        state    = folded(first ^ K0, second ^ state)
    token hash   = folded(state ^ K1, K2) with the two low bits set to 0

`first` and `second` are the two little-endian 64-bit words of the bytes. The construction is that of wyhash (Wang Yi)
without the length: a normalised token contains no NUL byte, so the padding determines the length. The kernels use the
two low bits as flags: the scanner for "is a single character" and "has an ASCII digit", the spots for "is an
antecedent" and "is a stop-word".

    chain hash   = SEED, then for each token, antecedent first:  state = folded(state ^ K3, token ^ K4)
    spot hash    = folded(state ^ K1, K2)
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text.machine import byte_at, folded_product, loaded16, lowered16

SEED = np.uint64(0x9E3779B97F4A7C15)
K0 = np.uint64(0xA0761D6478BD642F)
K1 = np.uint64(0xE7037ED1A0B428DB)
K2 = np.uint64(0x8EBC6AF09C88C6E3)
K3 = np.uint64(0x589965CC75374CC3)
K4 = np.uint64(0x1D8E4E27C47D124F)

LONE = 1
WITH_DIGIT = 2
ANTECEDENT = 1
STOP_WORD = 2
HASH_BITS = np.uint64(0xFFFFFFFFFFFFFFFC)
"""The bits of a token that contain the hash. The two bits below are flags: LONE and WITH_DIGIT, or ANTECEDENT and
STOP_WORD."""

_WORD = (1 << 64) - 1
_EVERY_BIT_6 = np.uint64(0x4040404040404040)


def hash_token(normalised: bytes) -> int:
    """Hash of a token's normalised UTF-8 bytes, by the formula above. normalised: at least one byte"""
    state = int(SEED)
    for start in range(0, len(normalised), 16):
        part = normalised[start : start + 16].ljust(16, b"\0")
        first, second = int.from_bytes(part[:8], "little"), int.from_bytes(part[8:], "little")
        state = _folded(first ^ int(K0), second ^ state)
    return _folded(state ^ int(K1), int(K2)) & int(HASH_BITS)


def _folded(left: int, right: int) -> int:
    product = left * right
    return (product >> 64) ^ (product & _WORD)


@part
def finish_hash(state):  # uint64 -> uint64
    """The final mixing step of every hash."""
    return folded_product(state ^ K1, K2)


@part
def hash_lowered(address, length):  # int64, int64 -> uint64
    """Hash of an ASCII token in upper, lower or mixed case."""
    state = SEED
    while length > 16:
        first, second = lowered16(address, np.int64(16))
        state = folded_product(first ^ K0, second ^ state)
        address += 16
        length -= 16
    first, second = lowered16(address, length)
    state = folded_product(first ^ K0, second ^ state)
    return finish_hash(state) & HASH_BITS


@part
def hash_bytes(address, length):  # int64, int64 -> uint64
    """Hash of normalised bytes, unchanged; also the key of an entity name."""
    state = SEED
    while length > 16:
        first, second = loaded16(address, np.int64(16))
        state = folded_product(first ^ K0, second ^ state)
        address += 16
        length -= 16
    first, second = loaded16(address, length)
    state = folded_product(first ^ K0, second ^ state)
    return finish_hash(state) & HASH_BITS


@part
def digit_flag(address, length):  # int64, int64 -> uint64
    """WITH_DIGIT if the normalised bytes contain an ASCII digit, else 0."""
    found = np.uint64(0)
    while length > 0:
        first, second = loaded16(address, min(length, np.int64(16)))
        # Among the bytes of a token, only digits have bit 4 set and bits 6 and 7 clear.
        found |= first << np.uint64(2) & ~(first | first >> np.uint64(1))
        found |= second << np.uint64(2) & ~(second | second >> np.uint64(1))
        address += 16
        length -= 16
    return np.uint64(WITH_DIGIT) if found & _EVERY_BIT_6 != np.uint64(0) else np.uint64(0)


@part
def lone_flag(address, length):  # int64, int64 -> uint64
    """LONE if the normalised bytes are one character, else 0."""
    lead = byte_at(address)
    own = np.int64(1) + np.int64(lead >= 0xC0) + np.int64(lead >= 0xE0) + np.int64(lead >= 0xF0)
    return np.uint64(length == own)


@part
def chain_hash(state, token):  # uint64, uint64 -> uint64
    """The state of a chain after one more token."""
    return folded_product(state ^ K3, (token & HASH_BITS) ^ K4)
