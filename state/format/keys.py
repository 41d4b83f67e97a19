"""Turns numbers into the 8-byte keys of buckets, entries and sources, and back."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def encode_keys(numbers: NDArray[np.uint64]) -> list[bytes]:
    """Write numbers: uint64[n] -> n keys of 8 bytes, big endian, so that RocksDB keeps them in numeric order."""
    keys: list[bytes] = numbers.astype(">u8").view("V8").tolist()
    return keys


def decode_keys(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Read n keys of 8 bytes -> their numbers: uint64[n]."""
    return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
