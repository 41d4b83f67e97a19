"""Reads the input of a replay in judging order: the order of the log, and by timestamp for pages missing in the log.

`MessageBuffer` holds a bounded number of fetched messages of several partitions until they are needed.
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

BUFFER_BYTES = 32 * 2**20
"""Bound for buffered messages of all partitions. A partition exceeds its share by at most one fetch."""


class MessageBuffer:
    """The messages of a range by partition. A partition with enough buffered messages is paused.

    partitions: of the range, by number  next: next offset of each partition
    """

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader
        self.partitions = {partition.partition: partition for partition in reader.spans}
        self.next = {partition.partition: first for partition, (first, _) in reader.spans.items()}
        self._messages: dict[int, deque[ConsumerRecord]] = {number: deque() for number in self.partitions}
        self._bytes = dict.fromkeys(self.partitions, 0)
        self._max_bytes = BUFFER_BYTES // max(len(self.partitions), 1)

    def go_to(self, number: int, offset: int) -> None:
        """Continue a partition at the first message at or after this offset."""
        messages = self._messages[number]
        if messages and self.next[number] <= offset <= messages[-1].offset:
            while messages[0].offset < offset:
                self.pop(number)
        elif self.next[number] != offset:
            messages.clear()
            self._bytes[number] = 0
            self._reader.seek(self.partitions[number], offset)
        self.next[number] = offset

    async def peek(self, number: int) -> ConsumerRecord | None:
        """The next message of a partition, without removing it; None at the end of its range."""
        partition = self.partitions[number]
        while not self._messages[number]:
            if self._reader.at_end(partition):
                return None
            for fetched, records in (await self._reader.fetch()).items():
                other = fetched.partition
                self._messages[other].extend(records)
                self._bytes[other] += sum(len(record.value or b"") for record in records)
                if self._bytes[other] > self._max_bytes:
                    self._reader.pause(fetched)
        return self._messages[number][0]

    def pop(self, number: int) -> ConsumerRecord:
        """Remove and return the next message of a partition, which peek() has returned."""
        message = self._messages[number].popleft()
        self.next[number] = message.offset + 1
        before = self._bytes[number]
        self._bytes[number] = before - len(message.value or b"")
        if before > self._max_bytes // 2 >= self._bytes[number]:
            self._reader.resume(self.partitions[number])
        return message


class ReplayOrder(Enum):
    """Why a message is judged at its position: in the log, or before, beside or after the pages of the log."""

    BY_LOG = "by_log"
    BEFORE = "before"
    BESIDE = "beside"
    AFTER = "after"
    AGAIN = "again"
    """The page occurs again in the log."""


class OrderedInput:
    """Yields every message of the range once, in judging order, with the forget events and commit marks between them.

    Repeated pages of the log are yielded again if that may change a verdict, or all of them on request.

    For each page of the log the reader advances its partition to that page. Pages in between that are missing in the
    log are judged there. Pages in between that the log has later are skipped, and sought when their turn comes. Fetched
    messages of other partitions wait in the buffer.
    """

    def __init__(self, reader: RangeReader, order: LogOrder, places: RangePlaces, again: bool) -> None:
        """again: whether to yield all repeated pages"""
        self._reader = reader
        self._order = order
        self._places = places
        self._again = again
        self._yielded = np.zeros(len(places), np.bool_)
        self._buffer = MessageBuffer(reader)
        self._partitions = self._buffer.partitions
        self._reached = dict(self._buffer.next)

    async def steps(self) -> AsyncIterator[tuple[ConsumerRecord, ReplayOrder] | ForgetEvent | CommitMarks]:
        """All messages with their ReplayOrder, and the forget events and commit marks of the log."""
        logged = {number: self._order.logged_span(number) for number in self._partitions}
        first = {number: span[0] if span else self._end(number) for number, span in logged.items()}
        if any(span is not None for span in logged.values()):
            # A partition that is missing in the log comes after it: its pages are not known to be earlier.
            first = {number: first[number] if span else self._buffer.next[number] for number, span in logged.items()}
        async for message in self._by_time(first):
            yield message, ReplayOrder.BEFORE
        for step in self._order.steps(self._again):
            if isinstance(step, ForgetEvent | CommitMarks):
                yield step
                continue
            async for message, turn in self._run(step):
                yield message, turn
        for number, span in logged.items():
            if span is not None:
                self._buffer.go_to(number, span[1])
        async for message in self._by_time({number: self._end(number) for number in self._partitions}):
            yield message, ReplayOrder.AFTER

    def _end(self, number: int) -> int:
        return self._reader.spans[self._partitions[number]][1]

    async def _run(self, run: LogRun) -> AsyncIterator[tuple[ConsumerRecord, ReplayOrder]]:
        # Start where the partition was read up to, so that no page missing in the log is skipped.
        begin = run.first if run.again else min(run.first, self._reached[run.partition])
        if begin != self._buffer.next[run.partition]:
            self._buffer.go_to(run.partition, begin)
        while True:
            message = await self._buffer.peek(run.partition)
            if message is None or message.offset > run.last:
                return
            self._buffer.pop(run.partition)
            if run.again:
                yield message, ReplayOrder.AGAIN
                continue
            self._reached[run.partition] = max(self._reached[run.partition], message.offset + 1)
            place = self._places.of_page(message.topic, message.partition, message.offset)
            in_run = message.offset >= run.first
            if not self._yielded[place] and (in_run or not self._order.logged[place]):
                self._yielded[place] = True
                yield message, ReplayOrder.BY_LOG if in_run else ReplayOrder.BESIDE

    async def _by_time(self, ends: dict[int, int]) -> AsyncIterator[ConsumerRecord]:
        """Merge the partitions up to these offsets by the timestamps of their next messages, then by partition."""
        heap: list[tuple[int, int]] = []

        async def push(number: int) -> None:
            message = await self._buffer.peek(number)
            if message is not None and message.offset < ends[number]:
                heapq.heappush(heap, (message.timestamp, number))

        for number in self._partitions:
            await push(number)
        while heap:
            _, number = heapq.heappop(heap)
            message = self._buffer.pop(number)
            self._reached[number] = message.offset + 1
            yield message
            await push(number)
