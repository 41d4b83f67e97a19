r"""Reads records whose header names are not UTF-8: invalid bytes become \xNN in the name.

Kafka defines a header name as a string, but the broker does not check it. aiokafka decodes names strictly and raises
UnicodeDecodeError from getmany, without partition and offset, so no worker could ever get past such a record. A batch
that raises is read again by aiokafka's plain-Python reader with escaped names. All other batches use the compiled
reader.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

from aiokafka.consumer.fetcher import Fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from crc32c import crc32c

from spotsieve.stream.kafka.driver.patches import left_out, rebound

_ATTRIBUTES = 21
"""Start of the bytes that the checksum of a batch covers (Kafka's record batch, version 2)."""
_MAGIC = 16
"""Offset of the format number of a batch, in all formats."""
_FIRST_MAGIC_WITH_HEADERS = 2


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]
    """The batches of a fetched partition. Splitting them costs the same as in aiokafka's compiled class."""

    def next_batch(self) -> Any:
        content = self._next_slice
        batch = super().next_batch()
        if batch is None:
            return batch
        return _OldBatch(batch) if content[_MAGIC] < _FIRST_MAGIC_WITH_HEADERS else _TolerantBatch(batch, content)


class _Around:
    """Proxy of an object of aiokafka's compiled code. Subclasses override attributes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _OldBatch(_Around):
    """A batch of message format 0 or 1, from before Kafka 0.11. A missing timestamp becomes -1."""

    def __iter__(self) -> Iterator[Any]:
        for record in self._inner:
            yield record if record.timestamp is not None else _Timeless(record)


class _Timeless(_Around):
    """A record without a timestamp."""

    timestamp = -1


class _TolerantBatch(_Around):
    """A batch that falls back to escaped header names, with the methods that aiokafka's fetcher calls."""

    def __init__(self, batch: Any, content: memoryview) -> None:
        super().__init__(batch)
        self._content = content

    def __next__(self) -> Any:
        return next(self._inner)

    def validate_crc(self) -> bool:
        """Whether the checksum matches. The hardware CRC is 14 times as fast as aiokafka's code."""
        if "checksum" in left_out():
            return bool(self._inner.validate_crc())
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
    """A batch that escapes invalid bytes in header names."""

    _buffer: Any

    def __iter__(self) -> Self:
        self._maybe_uncompress()
        self._buffer = _Escaping(self._buffer)
        return self


class _Escaping(bytes):
    """Bytes whose slices decode invalid UTF-8 as backslash escapes."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Escaping(part) if isinstance(place, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


class TolerantFetcher(Fetcher):  # type: ignore[misc]  # aiokafka's class is untyped
    """The fetcher of a consumer that reads such records."""

    _proc_fetch_request = rebound(Fetcher._proc_fetch_request, MemoryRecords=_TolerantRecords)
