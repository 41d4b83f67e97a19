"""How many bytes a message has in a topic, and how many our own headers and reports need at least."""

from collections.abc import Sequence

Headers = Sequence[tuple[str, bytes]]

RECORD_OVERHEAD_BYTES = 128
"""The batch header (61) and the record header around one message."""
HEADER_OVERHEAD_BYTES = 10
"""Two lengths, both varints."""
HEADER_TEXT_BYTES = 1024
KEY_BYTES = 65_536
"""The longest key that a report or a cut dead letter repeats: a key as large as a message would fit no output."""
LEAST_OUTPUT_BYTES = 16_384
"""What each output topic must take. Our headers need up to 4.5 KB (four texts of HEADER_TEXT_BYTES, their names and the
verdict), and a report up to 8 KB compressed (three addresses or ids of 2,048 bytes each). The rest is for the page."""


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of the bytes of an uncompressed record batch that holds this one message."""
    size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
    return size + sum(len(name.encode()) + len(content or b"") + HEADER_OVERHEAD_BYTES for name, content in headers)
