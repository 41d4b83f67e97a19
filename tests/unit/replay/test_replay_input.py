"""A replay takes the messages of the input in the same order as a reference implementation."""

import asyncio
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.insight.replay import input as replay_input
from spotsieve.stream.insight.replay.input import OrderedInput, ReplayOrder
from spotsieve.stream.insight.replay.order import LogOrder
from spotsieve.stream.insight.replay.range import RangePlaces
from spotsieve.stream.sign.schemes.registry import scheme_of

Id = tuple[int, int]
SCHEME = scheme_of(ChainSettings())


def message(partition: int, offset: int, timestamp: int, value: bytes = b"x") -> ConsumerRecord:
    return ConsumerRecord("pages", partition, offset, timestamp, 0, None, value, None, 0, len(value), ())


@dataclass
class Reader:
    """In place of RangeReader: each fetch brings two messages of every partition that is not paused."""

    messages: dict[int, list[ConsumerRecord]]
    spans: dict[TopicPartition, tuple[int, int]]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    seeks: int = 0

    def __post_init__(self) -> None:
        self.positions = {partition: first for partition, (first, _) in self.spans.items()}

    def at_end(self, partition: TopicPartition) -> bool:
        return self.positions[partition] >= self.spans[partition][1]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.seeks += 1
        self.positions[partition] = offset
        self.paused.discard(partition)

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)

    async def fetch(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        found = {}
        for partition, (_, end) in self.spans.items():
            if partition not in self.paused and not self.at_end(partition):
                left = [m for m in self.messages[partition.partition] if m.offset >= self.positions[partition]]
                found[partition] = left[:2]
                self.positions[partition] = left[2].offset if len(left) > 2 else end
        return found


def log_of(places: RangePlaces, ids: Iterable[Id]) -> LogOrder:
    order = LogOrder(places)
    for partition, offset in ids:
        order.add(SCHEME.sign([Page("pages", partition, offset, "", b"", False, 0)]))
    return order


def reference_kernel(
    messages: dict[int, list[ConsumerRecord]], named: list[Id], again: bool
) -> Iterator[tuple[Id, ReplayOrder]]:
    """The same order, worked out plainly."""
    there = {(m.partition, m.offset) for part in messages.values() for m in part}
    spans = {p: [o for q, o in named if q == p] for p in messages}
    taken: set[Id] = set()

    def by_time(wanted: dict[int, list[ConsumerRecord]]) -> list[Id]:
        heap = [(part[0].timestamp, number) for number, part in wanted.items() if part]
        heapq.heapify(heap)
        found = []
        while heap:
            _, number = heapq.heappop(heap)
            found.append((number, wanted[number].pop(0).offset))
            if wanted[number]:
                heapq.heappush(heap, (wanted[number][0].timestamp, number))
        return found

    if named:
        early = {p: [m for m in part if spans[p] and m.offset < min(spans[p])] for p, part in messages.items()}
    else:
        early = {p: list(part) for p, part in messages.items()}
    for page in by_time(early):
        taken.add(page)
        yield page, ReplayOrder.BEFORE
    before = set[Id]()
    for partition, offset in named:
        if (partition, offset) in before:
            if again and (partition, offset) in there:
                yield (partition, offset), ReplayOrder.AGAIN
            continue
        before.add((partition, offset))
        for m in messages[partition]:
            page = (partition, m.offset)
            if m.offset < offset and page not in taken and page not in named:
                taken.add(page)
                yield page, ReplayOrder.BESIDE
        if (partition, offset) in there:
            taken.add((partition, offset))
            yield (partition, offset), ReplayOrder.BY_LOG
    for page in by_time({p: [m for m in part if (p, m.offset) not in taken] for p, part in messages.items()}):
        yield page, ReplayOrder.AFTER


async def taken(
    reader: Reader, order: LogOrder, places: RangePlaces, again: bool = False
) -> list[tuple[Id, ReplayOrder]]:
    ordered = OrderedInput(reader, order, places, again)  # type: ignore[arg-type]
    found = list[tuple[Id, ReplayOrder]]()
    async for step in ordered.steps():
        assert isinstance(step, tuple)
        message, turn = step
        found.append(((message.partition, message.offset), turn))
    return found


@st.composite
def crawls(draw: st.DrawFn) -> tuple[dict[int, list[ConsumerRecord]], list[tuple[int, int]], list[Id]]:
    """Messages by partition (some offsets are markers or were compacted away), spans, and the log's page ids."""
    spans, messages = [], {}
    for partition in range(draw(st.integers(1, 3))):
        first, count = draw(st.integers(0, 3)), draw(st.integers(0, 9))
        spans.append((first, first + count))
        offsets = [offset for offset in range(first, first + count) if draw(st.integers(0, 5))]
        messages[partition] = [message(partition, offset, draw(st.integers(0, 4))) for offset in offsets]
    ids = [(partition, offset) for partition, (first, end) in enumerate(spans) for offset in range(first, end)]
    named = draw(st.lists(st.sampled_from(ids), max_size=25)) if ids else []
    if draw(st.booleans()):
        named.sort(key=lambda page: page[1])  # as a log has them: the offsets of a partition ascend
    return messages, spans, named


@settings(max_examples=300, deadline=None)
@given(crawls(), st.integers(0, 6), st.booleans())
def test_each_message_is_yielded_once_in_log_order(
    crawl: tuple[dict[int, list[ConsumerRecord]], list[tuple[int, int]], list[Id]], buffer_bytes: int, again: bool
) -> None:
    messages, spans, named = crawl
    places = RangePlaces("pages", spans)
    reader = Reader(messages, {TopicPartition("pages", number): span for number, span in enumerate(spans)})
    with patch.object(replay_input, "BUFFER_BYTES", buffer_bytes):
        found = asyncio.run(taken(reader, log_of(places, named), places, again))
    assert found == list(reference_kernel(messages, named, again))
    once = [page for page, turn in found if turn is not ReplayOrder.AGAIN]
    assert len(set(once)) == len(once) == sum(map(len, messages.values()))


async def test_the_buffer_is_bounded_and_an_ordered_topic_is_read_once() -> None:
    spans = [(0, 400), (0, 400)]
    messages = {number: [message(number, offset, 0, bytes(100)) for offset in range(400)] for number in (0, 1)}
    places = RangePlaces("pages", spans)
    reader = Reader(messages, {TopicPartition("pages", number): span for number, span in enumerate(spans)})
    order = log_of(places, [(number, offset) for number in (0, 1) for offset in range(400)])
    most = 0
    with patch.object(replay_input, "BUFFER_BYTES", 4_000):
        ordered = OrderedInput(reader, order, places, again=False)  # type: ignore[arg-type]
        async for _ in ordered.steps():
            most = max(most, sum(ordered._buffer._bytes.values()))
    assert 2_000 <= most <= 4_000 + 2 * 200
    assert reader.seeks == 0


@pytest.mark.parametrize("named", [[], [(0, 3)]])
async def test_pages_missing_in_the_log_are_ordered_by_timestamp_across_partitions(named: list[Id]) -> None:
    times = {0: [5, 1, 9, 9], 1: [4, 6, 9]}
    messages = {p: [message(p, offset, time) for offset, time in enumerate(part)] for p, part in times.items()}
    spans = [(0, 4), (0, 3)]
    places = RangePlaces("pages", spans)
    reader = Reader(messages, {TopicPartition("pages", number): span for number, span in enumerate(spans)})
    found = [page for page, _ in await taken(reader, log_of(places, named), places)]
    if named:
        assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
    else:
        assert found == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2), (0, 3), (1, 2)]
