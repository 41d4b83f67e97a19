"""Writes replayed verdicts to a file of verdict lines, or novel pages to a topic."""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from spotsieve.stream.base.errors import BrokerError, RejectReason, SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.verdict_lines import verdict_line
from spotsieve.stream.judge import entry_of
from spotsieve.stream.kafka.clients import output_producer, stop_client
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import OUTPUT_ROLES, topic_facts
from spotsieve.stream.service.pages.commit import deliver
from spotsieve.stream.service.pages.microbatch import MicroBatch, Slice, message_bytes
from spotsieve.stream.service.pages.outputs import OutputBuilder
from spotsieve.stream.service.pages.ownership import OwnedPartition

TOPIC_PREFIX = "topic:"


class VerdictSink(Protocol):
    """The output of a replay. It receives the judged micro-batches in order."""

    async def start(self) -> None:
        """Open the output before the first micro-batch. Raises SpotsieveError."""

    async def write(self, batch: MicroBatch) -> None:
        """Write one micro-batch. Raises SpotsieveError."""

    async def close(self, complete: bool) -> list[str]:
        """Close the output. complete: whether the whole range was judged  -> notices for people"""


def open_sink(name: str | None, settings: Settings, reserved: Iterable[str]) -> VerdictSink | None:
    """The sink for --into: topic:NAME or a file; None without --into.

    reserved: topics that only a service may write to. Raises SettingError.
    """
    if name is None:
        return None
    if not name.startswith(TOPIC_PREFIX):
        if name == "-":
            raise SettingError(
                "--into", "must be a file or topic:NAME, because the report goes to standard output", name, "choose one"
            )
        return FileSink(name, settings.scheme.name)
    topic = name.removeprefix(TOPIC_PREFIX)
    if topic in set(reserved):
        raise SettingError("--into", "must not be a topic of a service", topic, "create another topic for it")
    return TopicSink(topic, settings)


class FileSink:
    """Writes a verdict line for each page, as `spotsieve filter --verdicts` does, in the order of judging."""

    def __init__(self, name: str, scheme: str) -> None:
        self._name = name
        self._scheme = scheme
        self._file: OutputFile | None = None

    async def start(self) -> None:
        """Open the file as NAME.partial."""
        self._file = OutputFile(self._name, lines_only=True)

    async def write(self, batch: MicroBatch) -> None:
        """Write a line for each page."""
        assert self._file is not None
        if batch.signatures is None or batch.verdicts is None:
            return
        for row in range(len(batch.verdicts)):
            page = entry_of(batch.signatures, row)
            self._file.write_line(verdict_line(page, batch.verdicts, row, self._scheme))
        self._file.flush()

    async def close(self, complete: bool) -> list[str]:
        """Rename the file to its final name if complete; otherwise leave NAME.partial."""
        if self._file is None:
            return []
        if complete:
            self._file.complete()
            return []
        partial = self._file.abandon()
        return [f"the verdicts so far are in {partial}"] if partial is not None else []


class TopicSink:
    """Sends the novel pages with the same bytes, keys and headers as in topics.novel.

    The producer is idempotent but has no transactions: messages of an interrupted replay stay in the topic.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        topics = settings.topics.model_copy(update={"novel": name})
        service = settings.service.model_copy(update={"guarantee": "at_least_once"})
        self._settings = settings.model_copy(update={"topics": topics, "service": service})
        self._too_large = 0

    async def start(self) -> None:
        """Check the topic, and connect. Raises SettingError, BrokerError."""
        facts = (await topic_facts(self._settings, [self._name])).get(self._name)
        if facts is None:
            raise SettingError("--into", "must be an existing topic", self._name, "create it first")
        # The builder also makes reports and dead letters, as in the service. write() drops them.
        self._builder = OutputBuilder(self._settings, dict.fromkeys(OUTPUT_ROLES, facts))
        self._producer: AIOKafkaProducer = output_producer(self._settings, None)
        try:
            await self._producer.start()
        except KafkaError as error:
            await stop_client(self._producer)
            raise self._final_error(error) from None

    async def write(self, batch: MicroBatch) -> None:
        """Send the pages of the micro-batch, and wait for the acknowledgement of the broker."""
        slices: dict[int, list[tuple[MicroBatch, Slice]]] = {}
        first = 0
        for partition, run in groupby(batch.messages, lambda message: TopicPartition(message.topic, message.partition)):
            messages = list(run)
            end, size = first + len(messages), sum(map(message_bytes, messages))
            part = Slice(OwnedPartition(partition), 0, first, end, messages[-1].offset + 1, size)
            slices.setdefault(partition.partition, []).append((batch, part))
            first = end
        timeout_ms = self._settings.kafka.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for number, work in slices.items():
                    outputs = await asyncio.to_thread(self._builder.build, number, work)
                    self._too_large += outputs.dead_letters[RejectReason.TOO_LARGE.value]
                    outputs.batches[:] = [part for part in outputs.batches if part[0] == self._name]
                    await deliver(self._producer, outputs)
        except KafkaError as error:
            raise self._final_error(error) from None
        except TimeoutError:
            raise BrokerError(
                "kafka",
                f"did not acknowledge messages to {self._name} within {timeout_ms} ms (kafka.request_timeout_ms)",
                None,
                "check that the broker is running, then run the replay again",
            ) from None

    async def close(self, complete: bool) -> list[str]:  # noqa: ARG002 - sent messages stay in any case
        """Stop the producer."""
        await stop_client(self._producer)
        if not self._too_large:
            return []
        return [f"{self._too_large:,} pages are too large for topic {self._name} and were not written"]

    def _final_error(self, error: KafkaError) -> Exception:
        return final_error(error, self._settings, f"writing {self._name}")
