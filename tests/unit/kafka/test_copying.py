"""What we make of aiokafka's requests and batches is, byte for byte, what it makes of them."""

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.produce import ProduceRequest

from spotsieve.stream.kafka.copying import _encode_produce
from spotsieve.stream.kafka.header_names import _TolerantRecords
from spotsieve.stream.kafka.prepared_batch import PreparedBatch

REQUESTS: tuple[tuple[object, ...], ...] = (
    (None, -1, 40_000, []),
    (None, 1, 0, [("pages", [])]),
    ("group:pages:3", -1, 40_000, [("pages", [(0, b"one"), (7, bytearray(b"two"))]), ("Fünf", [(2**31 - 1, b"")])]),
)


@pytest.mark.parametrize("version", [kind for kind in ProduceRequest._CLASSES if kind.API_VERSION >= 3])
def test_a_produce_request_has_the_bytes_of_its_schema(version: type) -> None:
    for fields in REQUESTS:
        request = version(*fields)
        assert _encode_produce(request) == version.SCHEMA.encode(list(fields))  # type: ignore[attr-defined]


def fill(batch: BatchBuilder) -> BatchBuilder:
    for number in range(3):
        batch.append(timestamp=1_000 + number, key=b"key", value=bytes(2_000), headers=[("name", b"content")])
    return batch


def test_a_prepared_batch_has_the_bytes_of_aiokafkas_own() -> None:
    prepared = fill(PreparedBatch(900_000, "none", transactional=True))
    prepared.prepare()
    plain = fill(BatchBuilder(900_000, 0, is_transactional=1))
    for batch in (prepared, plain):
        batch._set_producer_state(2**40 + 1, 7, 2**31 - 1)
    assert prepared._build() == plain._build()


def test_a_batch_with_one_changed_bit_fails_its_checksum() -> None:
    content = bytearray(fill(BatchBuilder(900_000, 0, is_transactional=0))._build())
    assert _TolerantRecords(bytes(content)).next_batch().validate_crc()
    content[-100] ^= 1
    assert not _TolerantRecords(bytes(content)).next_batch().validate_crc()
