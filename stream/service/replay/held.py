"""Holds fetched messages of several partitions until it is their turn, within a bound."""

from collections import deque

from aiokafka.structs import ConsumerRecord

from spotsieve.stream.kafka.topic.ranges import RangeReader

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
