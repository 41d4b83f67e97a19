"""Fetched messages become micro-batches, which are divided by partition."""

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.service.pages.microbatch import (
    REJECTED,
    TOMBSTONE,
    MicroBatch,
    message_bytes,
    micro_batches,
    sign,
)
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.sign.intake import Decoder
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.crawls import html_of, json_page


def record(partition: int, offset: int, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("pages", partition, offset, 0, 0, b"key", value, None, 3, 3, ())


Fetched = dict[TopicPartition, list[ConsumerRecord]]


def fetched_of(sizes: list[list[int]]) -> Fetched:
    return {
        TopicPartition("pages", number): [record(number, offset, bytes(size)) for offset, size in enumerate(of_one)]
        for number, of_one in enumerate(sizes)
        if of_one
    }


async def cut(fetched: Fetched, pages: int, size: int) -> list[MicroBatch]:
    owners = {partition: OwnedPartition(partition) for partition in fetched}
    return micro_batches(fetched, owners, pages, size)


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=4), st.integers(1, 9), st.integers(1, 100))
async def test_every_message_is_in_one_slice_in_order_and_no_batch_is_too_large(
    sizes: list[list[int]], pages: int, size: int
) -> None:
    fetched = fetched_of(sizes)
    batches = await cut(fetched, pages, size)
    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in fetched}
    for batch in batches:
        assert 0 < len(batch.messages) <= pages
        assert len(batch.messages) == 1 or sum(map(message_bytes, batch.messages)) <= size
        assert [part.first for part in batch.slices] == [0, *(part.end for part in batch.slices[:-1])]
        assert batch.slices[-1].end == len(batch.messages)
        for part in batch.slices:
            offsets = [message.offset for message in batch.messages[part.first : part.end]]
            assert offsets
            assert part.next_offset == offsets[-1] + 1
            assert part.size == sum(map(message_bytes, batch.messages[part.first : part.end]))
            seen[part.owned.partition] += offsets
    assert seen == {partition: [message.offset for message in records] for partition, records in fetched.items()}


async def test_keys_and_headers_count_too_where_batches_are_cut() -> None:
    """512 tombstones with keys of a megabyte would be one commit, which no slow network sends within its time-out."""
    place = TopicPartition("pages", 0)
    messages = [
        ConsumerRecord("pages", 0, 0, 0, 0, b"k" * 60, None, None, 3, 3, ()),
        ConsumerRecord("pages", 0, 1, 0, 0, None, b"v", None, 3, 3, (("name", b"x" * 60), ("null", None))),
        ConsumerRecord("pages", 0, 2, 0, 0, b"k", b"v", None, 3, 3, ()),
    ]
    batches = await cut({place: messages}, 512, 100)
    assert [[message.offset for message in batch.messages] for batch in batches] == [[0], [1, 2]]


async def test_a_partition_is_drained_when_all_its_slices_have_ended() -> None:
    batches = await cut(fetched_of([[1] * 5, [1] * 2]), 3, 1000)
    owned = batches[0].slices[0].owned
    assert not await owned.drained(0.01)
    for batch in batches:
        ended = [batch.end_slice(part) for part in batch.slices]
        assert ended == [False] * (len(ended) - 1) + [True]
    assert await owned.drained(0.01)


async def test_a_slice_of_an_older_epoch_is_not_current() -> None:
    (batch,) = await cut(fetched_of([[1, 1]]), 10, 100)
    (part,) = batch.slices
    assert part.current
    part.owned.drop()
    assert not part.current


@pytest.mark.parametrize("pages", [0, 3])
async def test_signing_gives_each_message_its_row_or_says_what_it_is(pages: int) -> None:
    values = [None, b"no JSON", *(json_page(number, html_of(number)).value for number in range(pages)), None]
    fetched = {TopicPartition("pages", 0): [record(0, offset, value) for offset, value in enumerate(values)]}
    (batch,) = await cut(fetched, 100, 10**6)
    sign(batch, Decoder(InputSettings()), scheme_of(SpotsieveSettings()))
    assert batch.rows.tolist() == [TOMBSTONE, REJECTED, *range(pages), TOMBSTONE]
    assert list(batch.rejections) == [1]
    assert (len(batch.signatures) if batch.signatures else 0) == pages
