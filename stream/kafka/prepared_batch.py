"""A record batch that is compressed where it is made, and not by the event loop when it is sent."""

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

CODECS = {
    "none": 0,
    "gzip": DefaultRecordBatch.CODEC_GZIP,
    "snappy": DefaultRecordBatch.CODEC_SNAPPY,
    "lz4": DefaultRecordBatch.CODEC_LZ4,
    "zstd": DefaultRecordBatch.CODEC_ZSTD,
}

# Kafka's record batch, version 2: the checksum covers everything from the attributes on.
_CHECKSUM, _ATTRIBUTES = slice(17, 21), 21
_PRODUCER_ID, _PRODUCER_EPOCH, _BASE_SEQUENCE = slice(43, 51), slice(51, 53), slice(53, 57)


class PreparedBatch(BatchBuilder):  # type: ignore[misc]  # aiokafka's class is untyped
    """aiokafka's builder, whose bytes are made by prepare(), in any thread.

    aiokafka makes them in the event loop, right before it sends them, since it writes the producer's number and the
    batch's sequence before it compresses. Neither is compressed, so here they are written into bytes that are there.
    """

    def __init__(self, most_bytes: int, compression: str, *, transactional: bool) -> None:
        """most_bytes: of the records before compression; the first is taken whatever its size."""
        self._buffer: bytearray | None
        super().__init__(most_bytes, CODECS[compression], is_transactional=int(transactional))

    def prepare(self) -> int:
        """Close the batch and make its bytes; -> how many."""
        return len(self._build())

    def _build(self) -> bytearray:
        if self._buffer is None:
            self.close()
            self._buffer = self._builder.build()
            assert isinstance(self._buffer, bytearray)
            del self._builder
        return self._buffer

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        if self._buffer is None:
            super()._set_producer_state(producer_id, producer_epoch, base_sequence)
            return
        self._buffer[_PRODUCER_ID] = producer_id.to_bytes(8, "big", signed=True)
        self._buffer[_PRODUCER_EPOCH] = producer_epoch.to_bytes(2, "big", signed=True)
        self._buffer[_BASE_SEQUENCE] = base_sequence.to_bytes(4, "big", signed=True)
        with memoryview(self._buffer) as whole, whole[_ATTRIBUTES:] as checked:
            self._buffer[_CHECKSUM] = crc32c(checked).to_bytes(4, "big")
