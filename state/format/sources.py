"""Encodes and decodes sources: the topics and paths that pages come from, each stored once."""

from spotsieve.stream.errors import CorruptRecord

SOURCE_VERSION = 1


def encode_source(text: str) -> bytes:
    """Write the name of a topic or path."""
    return bytes([SOURCE_VERSION]) + text.encode()


def decode_source(key: bytes, value: bytes) -> str:
    """Read the name of a topic or path. Raises CorruptRecord."""
    if not value or value[0] != SOURCE_VERSION:
        raise CorruptRecord("sources", key, f"must be version {SOURCE_VERSION}")
    try:
        return value[1:].decode()
    except UnicodeDecodeError:
        raise CorruptRecord("sources", key, "must be UTF-8") from None
