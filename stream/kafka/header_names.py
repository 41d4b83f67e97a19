r"""Owns reading records whose header names are not UTF-8: the bytes that are none become \xNN in the name.

Kafka says that a header's name is a string, and its broker does not look. aiokafka decodes it strictly and raises
UnicodeDecodeError out of getmany, without the partition and the offset: one such record, and no worker gets past it,
however often it starts. So where its batch raises, the batch is read once more, by aiokafka's plain-Python reader and
with the name escaped; every other batch takes the compiled reader as before.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

_FIRST_MAGIC_WITH_HEADERS = 2


def read_any_header_names() -> None:
    """Have aiokafka's consumers read such records; a second call changes nothing."""
    fetcher.MemoryRecords = _TolerantRecords


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]
    """The batches of a fetched partition; dividing them costs the same as in aiokafka's compiled one."""

    def next_batch(self) -> Any:
        content = self._next_slice
        batch = super().next_batch()
        if batch is None or batch.magic < _FIRST_MAGIC_WITH_HEADERS:
            return batch
        return _TolerantBatch(batch, content)


class _TolerantBatch:
    """A batch as aiokafka's fetcher uses it."""

    def __init__(self, batch: Any, content: memoryview) -> None:
        self._batch = batch
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        given = 0
        try:
            for record in self._batch:
                given += 1
                yield record
        except UnicodeDecodeError:
            yield from islice(_EscapingBatch(self._content), given, None)


class _EscapingBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch whose every name is readable."""

    _buffer: Any

    def __iter__(self) -> Self:
        self._maybe_uncompress()
        self._buffer = _Escaping(self._buffer)
        return self


class _Escaping(bytes):
    """Bytes whose parts are decoded whatever they are."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Escaping(part) if isinstance(place, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)
