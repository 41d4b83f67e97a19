"""Reads the input of a replay in the order of judging: that of the log, and by timestamp for pages it does not name.

Holds fetched messages of several partitions until it is their turn, within a bound.
"""

import heapq
from collections import deque
from collections.abc import AsyncIterator
from enum import Enum

import numpy as np
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.insight.replay.order import CommitMarks, ForgetEvent, LogOrder, LogRun
from spotsieve.stream.insight.replay.range import RangePlaces
from spotsieve.stream.kafka.ranges import RangeReader

HELD_BYTES = 32 * 2**20
"""Messages of all partitions that wait for their turn. A partition holds at most one fetch more than its share."""


class MessageBuffer:
    """The messages of a range, partition by partition. A partition that has enough of them waiting is not fetched.

    partitions: of the range, by number  next: the offset of each at which it goes on
    """

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader
        self.partitions = {partition.partition: partition for partition in reader.spans}
        self.next = {partition.partition: first for partition, (first, _) in reader.spans.items()}
        self._held: dict[int, deque[ConsumerRecord]] = {number: deque() for number in self.partitions}
        self._held_bytes = dict.fromkeys(self.partitions, 0)
        self._most_bytes = HELD_BYTES // max(len(self.partitions), 1)

    def go_to(self, number: int, offset: int) -> None:
        """Make the first message at or after this offset the next one of its partition."""
        held = self._held[number]
        if held and self.next[number] <= offset <= held[-1].offset:
            while held[0].offset < offset:
                self.pop(number)
        elif self.next[number] != offset:
            held.clear()
            self._held_bytes[number] = 0
            self._reader.seek(self.partitions[number], offset)
        self.next[number] = offset

    async def peek(self, number: int) -> ConsumerRecord | None:
        """The next message of a partition; None at the end of its range."""
        partition = self.partitions[number]
        while not self._held[number]:
            if self._reader.at_end(partition):
                return None
            for fetched, records in (await self._reader.fetch()).items():
                held = fetched.partition
                self._held[held].extend(records)
                self._held_bytes[held] += sum(len(record.value or b"") for record in records)
                if self._held_bytes[held] > self._most_bytes:
                    self._reader.pause(fetched)
        return self._held[number][0]

    def pop(self, number: int) -> ConsumerRecord:
        """Take the next message of a partition, which peek() has given."""
        message = self._held[number].popleft()
        self.next[number] = message.offset + 1
        before = self._held_bytes[number]
        self._held_bytes[number] = before - len(message.value or b"")
        if before > self._most_bytes // 2 >= self._held_bytes[number]:
            self._reader.resume(self.partitions[number])
        return message


class ReplayOrder(Enum):
    """What decides when a message is judged."""

    BY_LOG = "by_log"
    BEFORE = "before"
    BESIDE = "beside"
    AFTER = "after"
    AGAIN = "again"
    """The log names the page once more."""


class OrderedInput:
    """Yields every message of the range once, in order, and between them what the log forgets and knows as committed.

    Pages that the log names again are yielded once more where that may change something, or all of them on demand.

    The log names a page, and the page's partition is read up to it. Pages that the log does not name lie on the way and
    are judged there. A page on the way that the log names later is passed over, and sought again then. Messages that
    other partitions bring meanwhile wait.
    """

    def __init__(self, reader: RangeReader, order: LogOrder, places: RangePlaces, again: bool) -> None:
        """again: whether to yield once more all pages that the log names again."""
        self._reader = reader
        self._order = order
        self._places = places
        self._again = again
        self._taken = np.zeros(len(places), np.bool_)
        self._held = MessageBuffer(reader)
        self._partitions = self._held.partitions
        self._reached = dict(self._held.next)

    async def steps(self) -> AsyncIterator[tuple[ConsumerRecord, ReplayOrder] | ForgetEvent | CommitMarks]:
        """All messages, each with what decided its turn; and the forgettings and marks of the log."""
        named = {number: self._order.named_span(number) for number in self._partitions}
        first = {number: span[0] if span else self._end(number) for number, span in named.items()}
        if any(span is not None for span in named.values()):
            # A partition that the log never names comes after it: nothing says that its pages came before.
            first = {number: first[number] if span else self._held.next[number] for number, span in named.items()}
        async for message in self._by_time(first):
            yield message, ReplayOrder.BEFORE
        for step in self._order.steps(self._again):
            if isinstance(step, ForgetEvent | CommitMarks):
                yield step
                continue
            async for message, turn in self._run(step):
                yield message, turn
        for number, span in named.items():
            if span is not None:
                self._held.go_to(number, span[1])
        async for message in self._by_time({number: self._end(number) for number in self._partitions}):
            yield message, ReplayOrder.AFTER

    def _end(self, number: int) -> int:
        return self._reader.spans[self._partitions[number]][1]

    async def _run(self, run: LogRun) -> AsyncIterator[tuple[ConsumerRecord, ReplayOrder]]:
        # Whatever was sought last, the pages that the log does not name must be met on the way.
        begin = run.first if run.again else min(run.first, self._reached[run.partition])
        if begin != self._held.next[run.partition]:
            self._held.go_to(run.partition, begin)
        while True:
            message = await self._held.peek(run.partition)
            if message is None or message.offset > run.last:
                return
            self._held.pop(run.partition)
            if run.again:
                yield message, ReplayOrder.AGAIN
                continue
            self._reached[run.partition] = max(self._reached[run.partition], message.offset + 1)
            place = self._places.of_page(message.topic, message.partition, message.offset)
            named = message.offset >= run.first
            if not self._taken[place] and (named or not self._order.logged[place]):
                self._taken[place] = True
                yield message, ReplayOrder.BY_LOG if named else ReplayOrder.BESIDE

    async def _by_time(self, ends: dict[int, int]) -> AsyncIterator[ConsumerRecord]:
        """Merge the partitions up to these offsets, by the timestamps of their next messages, then by partition."""
        heap: list[tuple[int, int]] = []

        async def push(number: int) -> None:
            message = await self._held.peek(number)
            if message is not None and message.offset < ends[number]:
                heapq.heappush(heap, (message.timestamp, number))

        for number in self._partitions:
            await push(number)
        while heap:
            _, number = heapq.heappop(heap)
            message = self._held.pop(number)
            self._reached[number] = message.offset + 1
            yield message
            await push(number)
