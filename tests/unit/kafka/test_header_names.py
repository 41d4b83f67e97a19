"""Records whose header names are not UTF-8 are read, and the rest of a batch is as aiokafka reads it."""

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from spotsieve.stream.kafka.driver.clients import _TolerantRecords
from tests.fixtures.brokers.odd_headers import AnyName


def batch_of(*names: str, compression: int = 0) -> bytes:
    """A batch as Kafka stores it: for each name one record, whose first header has that name."""
    builder = _DefaultRecordBatchBuilderPy(2, compression, 0, -1, -1, -1, 10**6)
    for offset, name in enumerate(names):
        headers = [(AnyName(name), b"one"), ("second", None)]
        builder.append(offset, 1_700_000_000_000 + offset, b"k%d" % offset, b"value" * 50, headers)
    return bytes(builder.build())


def read(reader: object, data: bytes) -> list[tuple[object, ...]]:
    records, found = reader(data), list[tuple[object, ...]]()  # type: ignore[operator]
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in batch]
    return found


@pytest.mark.parametrize("compression", [0, 1, 4])
def test_bytes_of_a_name_that_are_no_utf_8_are_escaped_and_all_else_is_as_it_is(compression: int) -> None:
    names = ("fine", "b\xffad", "\xc3\xa4", "", "\xff" * 3)
    data = batch_of(*names, compression=compression)
    with pytest.raises(UnicodeDecodeError):
        read(MemoryRecords, data)
    found = read(_TolerantRecords, data + batch_of("next"))
    assert [headers[0][0] for *_, headers in found] == [  # type: ignore[index]
        "fine",
        "b\\xffad",
        "ä",
        "",
        "\\xff\\xff\\xff",
        "next",
    ]
    assert [record[:4] for record in found[:5]] == [
        (offset, 1_700_000_000_000 + offset, b"k%d" % offset, b"value" * 50) for offset in range(5)
    ]
    assert all(headers[0][1] == b"one" and headers[1] == ("second", None) for *_, headers in found)  # type: ignore[index]


def test_batches_of_sound_names_are_read_as_aiokafka_reads_them() -> None:
    data = batch_of("a", "b") + batch_of("c", compression=1)
    assert read(_TolerantRecords, data) == read(MemoryRecords, data)
    assert read(_TolerantRecords, data[:-5]) == read(MemoryRecords, data[:-5])
    assert _TolerantRecords(data).size_in_bytes() == len(data)


@pytest.mark.parametrize("compression", [0, 1, 2])
@pytest.mark.parametrize(("magic", "time"), [(0, None), (1, -1), (1, 1_700_000_000_000)])
def test_batches_of_the_formats_before_headers_are_read(magic: int, time: int | None, compression: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, compression, 10**6)
    for number in range(3):
        builder.append(number, timestamp=time, key=None, value=b"value%d" % number)
    found = read(_TolerantRecords, bytes(builder.build()) + batch_of("next"))
    assert [record[:4] for record in found[:3]] == [
        (number, -1 if time is None else time, None, b"value%d" % number) for number in range(3)
    ]
    assert len(found) == 4
