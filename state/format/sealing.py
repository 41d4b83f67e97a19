"""Seals values with their xxh3-64 checksum, and opens them again. The meta values, on which all hangs, are sealed."""

import struct

import xxhash

from spotsieve.stream.errors import CorruptRecord

_CHECKSUM = struct.Struct("<Q")


def seal(body: bytes) -> bytes:
    """Append to the body its xxh3-64, little endian."""
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def unseal(store: str, key: bytes, value: bytes) -> bytes:
    """Return the body of a sealed value. Raises CorruptRecord where the checksum differs."""
    body = value[: -_CHECKSUM.size]
    if len(value) <= _CHECKSUM.size or _CHECKSUM.unpack(value[-_CHECKSUM.size :])[0] != xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(store, key, "must end in its xxh3-64 checksum")
    return body
