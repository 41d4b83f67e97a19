"""Measures producer compression: CPU per page and compressed size, through aiokafka's own codecs."""

import statistics
import time
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bench.speed.pages import PAGE_BYTES, json_messages
from spotsieve.stream.kafka.clients import PRODUCER_BATCH_BYTES

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers of the codecs (record batch format, version 2)."""
PAGES = 440


def measure_compression(rounds: int = 5, pages: Sequence[tuple[bytes, bytes]] = ()) -> dict[str, dict[str, float]]:
    """Codec -> cpu_us_per_page (building whole record batches as the producer does, for 20 KB of pages) and ratio
    (size before / after). Medians over alternating rounds; CPU of this thread. pages: (key, value), or generated ones.
    """
    messages = pages or list(json_messages(PAGES, 2))
    size = sum(len(value) for _, value in messages)
    seconds: dict[str, list[float]] = {codec: [] for codec in CODECS}
    sizes: dict[str, int] = {}
    for _ in range(rounds):
        for codec, number in CODECS.items():
            before = time.thread_time()
            sizes[codec] = _build(messages, number)
            seconds[codec].append(time.thread_time() - before)
    return {
        codec: {
            "cpu_us_per_page": round(statistics.median(several) / size * PAGE_BYTES * 1e6, 1),
            "ratio": round(sizes["none"] / sizes[codec], 2),
        }
        for codec, several in seconds.items()
    }


def _build(messages: Sequence[tuple[bytes, bytes]], codec: int) -> int:
    """Bytes of the batches that hold the messages."""
    size, builder, number = 0, _builder(codec), 0
    for key, value in messages:
        if builder.append(number, timestamp=0, key=key, value=value, headers=[]) is None:
            size += len(builder.build())
            builder, number = _builder(codec), 0
            builder.append(0, timestamp=0, key=key, value=value, headers=[])
        number += 1
    return size + len(builder.build())


def _builder(codec: int) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=PRODUCER_BATCH_BYTES,
    )
