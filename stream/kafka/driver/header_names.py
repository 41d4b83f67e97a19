r"""Reads records whose header names are not UTF-8: bytes that cannot be decoded become \xNN in the name.

Kafka says that a header's name is a string, but its broker does not check it. aiokafka decodes the name strictly and
raises UnicodeDecodeError out of getmany, without the partition and the offset. No worker would get past one such
record, however often it starts. So a batch that raises is read once more by aiokafka's plain-Python reader, with the
name escaped. Every other batch takes the compiled reader as before.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from crc32c import crc32c

_ATTRIBUTES = 21
"""Where what the checksum of a batch covers begins (Kafka's record batch, version 2)."""
_MAGIC = 16
"""The place of the number of a batch's format, in all formats."""
_FIRST_MAGIC_WITH_HEADERS = 2


def read_any_header_names() -> None:
    """Make aiokafka's consumers read such records. A second call changes nothing."""
    fetcher.MemoryRecords = _TolerantRecords


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]
    """The batches of a fetched partition. Dividing them costs the same as in aiokafka's compiled class."""

    def next_batch(self) -> Any:
        content = self._next_slice
        batch = super().next_batch()
        if batch is None:
            return batch
        return _OldBatch(batch) if content[_MAGIC] < _FIRST_MAGIC_WITH_HEADERS else _TolerantBatch(batch, content)


class _Around:
    """Something of aiokafka's compiled code, with what a subclass changes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _OldBatch(_Around):
    """A batch of message format 0 or 1, as topics from before Kafka 0.11 hold. Where aiokafka has no time, it is -1."""

    def __iter__(self) -> Iterator[Any]:
        for record in self._inner:
            yield record if record.timestamp is not None else _Timeless(record)


class _Timeless(_Around):
    """A record without a time."""

    timestamp = -1


class _TolerantBatch(_Around):
    """A batch with the methods that aiokafka's fetcher calls."""

    def __init__(self, batch: Any, content: memoryview) -> None:
        super().__init__(batch)
        self._content = content

    def __next__(self) -> Any:
        return next(self._inner)

    def validate_crc(self) -> bool:
        """Whether the checksum is right. By the processor: aiokafka's code takes 14 times as long."""
        given: int = self._inner.crc
        return crc32c(self._content[_ATTRIBUTES:]) == given

    def __iter__(self) -> Iterator[Any]:
        given = 0
        try:
            for record in self._inner:
                given += 1
                yield record
        except UnicodeDecodeError:
            yield from islice(_EscapingBatch(self._content), given, None)


class _EscapingBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch whose header names can all be read."""

    _buffer: Any

    def __iter__(self) -> Self:
        self._maybe_uncompress()
        self._buffer = _Escaping(self._buffer)
        return self


class _Escaping(bytes):
    """Bytes whose parts can always be decoded."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Escaping(part) if isinstance(place, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)
