"""What we make of aiokafka's requests and batches is, byte for byte, what it makes of them."""

import asyncio
import errno

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.memory_records import MemoryRecords

from spotsieve.stream.kafka.driver.clients import _TolerantRecords
from spotsieve.stream.kafka.driver.connections import KafkaConnection, _produce_parts
from spotsieve.stream.kafka.driver.prepared_batch import CODECS, PreparedBatch, _short_name
from tests.fixtures.cpu_time import assert_cpu_grows

REQUESTS: tuple[tuple[object, ...], ...] = (
    (None, -1, 40_000, []),
    (None, 1, 0, [("pages", [])]),
    ("group:pages:3", -1, 40_000, [("pages", [(0, b"one"), (7, bytearray(b"two"))]), ("Fünf", [(2**31 - 1, b"")])]),
)


@pytest.mark.parametrize("version", [kind for kind in ProduceRequest._CLASSES if kind.API_VERSION >= 3])
def test_a_produce_request_has_the_bytes_of_its_schema(version: type) -> None:
    for fields in REQUESTS:
        request = version(*fields)
        assert b"".join(_produce_parts(request)) == version.SCHEMA.encode(list(fields))  # type: ignore[attr-defined]


class Wire:
    """Takes what a connection writes."""

    def __init__(self, error: OSError | None = None) -> None:
        self.content = b""
        self.joined = True
        self._error = error

    def write(self, content: bytes) -> None:
        self.content += content

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        if self._error is not None:
            raise self._error
        self.joined = False
        self.content += b"".join(parts)

    def close(self) -> None:
        """There is nothing to close."""

    async def drain(self) -> None:
        """Nothing waits."""


def connection_to(kind: type[AIOKafkaConnection], wire: Wire, newest: int) -> AIOKafkaConnection:
    connection = kind("broker", 9092, client_id="Prüfer", request_timeout_ms=5_000)
    connection._writer, connection._versions = wire, {ProduceRequest.API_KEY: (0, newest)}
    return connection


async def written(kind: type[AIOKafkaConnection], newest: int, request: ProduceRequest, expected: bool = True) -> Wire:
    """What a connection to a broker of these versions writes; the response, where one is expected, is not read."""
    wire = Wire()
    response = connection_to(kind, wire, newest).send(request, expected)
    response.close()
    return wire


@pytest.mark.parametrize("newest", [2, 3, 7, 8])
@pytest.mark.parametrize("expected", [True, False])
def test_a_connection_sends_the_bytes_of_aiokafkas_own(newest: int, expected: bool) -> None:
    for transactional_id, *fields in REQUESTS:
        if newest >= 3 or transactional_id is None:
            request = ProduceRequest(transactional_id, *fields)
            ours, theirs = (
                asyncio.run(written(way, newest, request, expected)) for way in (KafkaConnection, AIOKafkaConnection)
            )
            assert ours.content == theirs.content
            assert ours.joined == (newest < 3 or not expected)


def test_a_connection_that_breaks_while_a_batch_is_written_says_so() -> None:
    async def break_it() -> AIOKafkaConnection:
        connection = connection_to(KafkaConnection, Wire(OSError(errno.EPIPE, "Broken pipe")), 8)
        connection._reader, connection._read_task = asyncio.StreamReader(), asyncio.get_running_loop().create_future()
        with pytest.raises(KafkaConnectionError, match=r"broker:9092 broken: .*Broken pipe"):
            connection.send(ProduceRequest(*REQUESTS[2]))
        return connection

    assert not asyncio.run(break_it()).connected()


RECORDS: tuple[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (1_700_000_000_000, b"key", bytes(range(256)) * 90, [("name", b"content"), ("Größe", None)]),
    (1_699_999_999_000, None, None, []),
    (1_700_000_999_000, b"", b"", [("", b"")] * 3),
    (-1, b"k" * 70_000, b"v" * 40_000, [("n" * 200, b"c" * 100)]),
)


def fill(batch: BatchBuilder, records: int) -> BatchBuilder:
    for number in range(records):
        timestamp, key, value, headers = RECORDS[number % len(RECORDS)]
        batch.append(timestamp=timestamp, key=key, value=value, headers=headers)
    return batch


@pytest.mark.parametrize(("codec", "name"), list(enumerate(CODECS)))
@pytest.mark.parametrize("transactional", [False, True])
def test_a_prepared_batch_has_the_bytes_of_aiokafkas_own(codec: int, name: str, transactional: bool) -> None:
    # 300,000 bytes end in the midst of the third round of records: both must then refuse the same one.
    for records in (1, 2, 40):
        prepared = fill(PreparedBatch(300_000, name, transactional=transactional), records)
        plain = fill(BatchBuilder(300_000, codec, is_transactional=int(transactional)), records)
        assert prepared.record_count() == plain.record_count()
        assert prepared.size() == plain.size()
        plain._set_producer_state(2**40 + 1, 7, 2**31 - 1)
        size = prepared.prepare()
        prepared._set_producer_state(2**40 + 1, 7, 2**31 - 1)
        content, expected = bytes(prepared._build()), bytes(plain._build())
        if name == "gzip":  # Its header has the time of day, so what is compressed is compared, and the sum is checked.
            assert next(MemoryRecords(content).next_batch().__iter__()).value == RECORDS[0][2]
            content, expected = content[61 + 10 :], expected[61 + 10 :]
        assert content == expected
        assert size == prepared.size() == len(plain._build())


def test_a_prepared_batch_that_nobody_numbers_has_its_checksum_too() -> None:
    batch = fill(PreparedBatch(900_000, "none", transactional=False), 3)
    batch.prepare()
    assert _TolerantRecords(bytes(batch._build())).next_batch().validate_crc()


def test_every_record_keeps_its_time_also_behind_one_without() -> None:
    times = (-1, 5, 3, 7)
    batch = PreparedBatch(9_000, "none", transactional=False)
    for timestamp in times:
        batch.append(timestamp=timestamp, key=None, value=b"v", headers=[])
    batch._set_producer_state(1, 2, 3)
    assert tuple(record.timestamp for record in _TolerantRecords(bytes(batch._build())).next_batch()) == times


def test_a_batch_with_one_changed_bit_fails_its_checksum() -> None:
    content = bytearray(fill(BatchBuilder(900_000, 0, is_transactional=0), 3)._build())
    assert _TolerantRecords(bytes(content)).next_batch().validate_crc()
    content[-100] ^= 1
    assert not _TolerantRecords(bytes(content)).next_batch().validate_crc()


def test_a_record_of_many_headers_takes_time_in_proportion_to_them() -> None:
    def append(headers: int) -> None:
        PreparedBatch(10**7, "none", transactional=False).append(
            timestamp=0, key=None, value=b"", headers=[("", b"")] * headers
        )

    # Eight times as many took 60 times as long.
    assert_cpu_grows(append, 20_000, 160_000, most=25)


def test_long_names_of_headers_are_not_kept() -> None:
    before = _short_name.cache_info().currsize
    for number in range(3):
        name = f"{number}" * 10_000
        PreparedBatch(10**6, "none", transactional=False).append(
            timestamp=0, key=None, value=b"", headers=[(name, b"")]
        )
    assert _short_name.cache_info().currsize == before
