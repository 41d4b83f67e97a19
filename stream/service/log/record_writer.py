"""Writes records to one partition of a topic, and tries again with a new producer where the broker did not take one."""

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from spotsieve.stream.errors import StateError
from spotsieve.stream.kafka.backoff import Backoff
from spotsieve.stream.kafka.client.clients import log_producer, stop_client
from spotsieve.stream.kafka.errors import final_error, stops
from spotsieve.stream.kafka.waits import Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.log.log_follower import RESTART
from spotsieve.stream.settings.model import Settings


class RecordWriter:
    """The producer of one writer of a partition: of the log, unless it is told of another."""

    def __init__(
        self, settings: Settings, waits: Waits, applied: Callable[[], int], role: str = "log", partition: int = 0
    ) -> None:
        """applied(): up to where the writer knows the partition; a record that lands before that is in another topic

        role: of the topic
        """
        self._settings = settings
        self._waits = waits
        self._applied = applied
        self._role, self._partition = role, partition
        self._topic: str = getattr(settings.topics, role)
        self._producer: AIOKafkaProducer = log_producer(settings)

    async def start(self) -> None:
        """Connect. Raises KafkaError."""
        await self._producer.start()

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._producer)

    async def write(self, value: bytes) -> int:
        """Write one record; -> its offset. Try again with a new producer while the error may pass.

        The producer must be a new one: a batch that aiokafka gave up leaves a gap in the producer's sequence numbers,
        and the broker then refuses everything after it (OutOfOrderSequenceNumber).
        """
        backoff = Backoff()
        while True:
            try:
                offset = await self._send(value)
                self._waits.over("append")
                return offset
            except KafkaError as error:
                if stops(error):
                    raise final_error(error, self._settings, f"writing to {self._topic}") from None
                self._waits.failed("append", error)
                logger().warning(
                    "a record cannot be written yet; trying again",
                    topic=self._topic,
                    error=type(error).__name__,
                    detail=str(error),
                )
            await backoff.wait()
            await self._renew_producer()

    async def _send(self, value: bytes) -> int:
        """Send a record once; -> its offset.

        Raises KafkaTimeoutError where the broker neither takes nor refuses it in time: aiokafka would try for ever.
        """
        applied = self._applied()
        try:
            async with asyncio.timeout(self._settings.kafka.request_timeout_ms / 1000):
                written = await self._producer.send_and_wait(self._topic, value, partition=self._partition)
        except TimeoutError:
            raise KafkaTimeoutError(f"no answer within {self._settings.kafka.request_timeout_ms} ms") from None
        if 0 <= written.offset < applied:
            raise StateError(
                f"topics.{self._role} {self._topic!r}",
                "was made anew while the service ran: a record got "
                f"the offset {written.offset}, although the state had applied the log up to {applied}",
                None,
                RESTART,
            )
        return int(written.offset)

    async def _renew_producer(self) -> None:
        renewed = log_producer(self._settings)
        try:
            await renewed.start()
        except KafkaError as error:
            await stop_client(renewed)
            if stops(error):
                raise final_error(error, self._settings, f"writing to {self._topic}") from None
            return
        except BaseException:
            await stop_client(renewed)
            raise
        former, self._producer = self._producer, renewed
        await stop_client(former)
