"""Owns what a slice's outputs are where a topic is too small for a message."""

import random

import numpy as np
import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import ConsumerRecord, TopicPartition

from state.memory import MemoryState
from stream.config import Settings
from stream.intake import Decoder
from stream.judge import judge
from stream.schemes.registry import scheme_of
from stream.service.microbatch import MicroBatch, micro_batches, sign
from stream.service.outputs import OutputBuilder, Outputs
from stream.service.partitions import OwnedPartition
from stream.service.topics import TopicFacts

LIMIT = 4_000
PARTITION = TopicPartition("pages", 0)
SETTINGS = Settings.model_validate({"input": {"format": "html"}})


class Producer:
    """As much of aiokafka's producer as building batches needs."""

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(10_000, 0, is_transactional=1)


def outputs_of(*values: bytes) -> tuple[Outputs, dict[str, int]]:
    """What is produced for these pages where every output takes LIMIT bytes, and the records in each topic."""
    records = [
        ConsumerRecord("pages", 0, offset, 0, 0, b"http://a.example", value, None, 3, 3, ())
        for offset, value in enumerate(values)
    ]
    (batch,) = micro_batches({PARTITION: records}, {PARTITION: OwnedPartition(PARTITION)}, 100, 10**9)
    judged(batch)
    facts = {role: TopicFacts(1, {"max.message.bytes": str(LIMIT)}) for role in ("novel", "duplicates", "rejected")}
    outputs = OutputBuilder(SETTINGS, facts).build(Producer(), 0, [(batch, batch.slices[0])])
    counts: dict[str, int] = {}
    for topic, _, builder in outputs.batches:
        counts[topic] = counts.get(topic, 0) + builder.record_count()
    return outputs, counts


def judged(batch: MicroBatch) -> None:
    scheme = scheme_of(SETTINGS.scheme, SETTINGS.spots)
    sign(batch, Decoder(SETTINGS.input), scheme)
    assert batch.signatures is not None
    batch.verdicts, _ = judge(batch.signatures, scheme, MemoryState(), 16)


async def test_a_page_that_no_output_can_hold_is_a_dead_letter_that_names_it() -> None:
    noise = random.Random(7).randbytes(2 * LIMIT)
    outputs, counts = outputs_of(noise, b"<p>small</p>")
    assert outputs.dead_letters == {"too_large": 1}
    assert counts == {"pages.novel": 1, "pages.rejected": 1}


async def test_a_page_that_fits_compressed_is_let_through() -> None:
    outputs, counts = outputs_of(b"<p>small</p>", b"<p>the same word again</p>" * LIMIT, b"<p>other</p>")
    assert not outputs.dead_letters
    assert counts == {"pages.novel": 3}
    assert [builder.record_count() for _, _, builder in outputs.batches] == [1, 1, 1]


@pytest.mark.parametrize("size", [LIMIT // 2, LIMIT - 400])
async def test_batches_stay_below_their_topics_limit(size: int) -> None:
    noise = random.Random(9)
    pages = [noise.randbytes(size) for _ in range(6)]
    outputs, counts = outputs_of(*pages)
    assert counts == {"pages.novel": 6}
    sizes = np.array([len(builder._build()) for _, _, builder in outputs.batches])
    assert (sizes <= LIMIT).all()
