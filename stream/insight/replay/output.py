"""Writes replayed verdicts to a file of verdict lines, or the novel pages to a topic."""

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
from spotsieve.stream.kafka.topics import topic_facts
from spotsieve.stream.service.pages.commit import deliver
from spotsieve.stream.service.pages.microbatch import MicroBatch, Slice, message_bytes
from spotsieve.stream.service.pages.outputs import OutputBuilder
from spotsieve.stream.service.pages.ownership import OwnedPartition

TOPIC_PREFIX = "topic:"


class VerdictSink(Protocol):
    """Takes judged micro-batches, in order."""

    async def start(self) -> None:
        """Called before the first micro-batch. Raises SpotsieveError where nothing can be written."""

    async def write(self, batch: MicroBatch) -> None:
        """Write one micro-batch. Raises SpotsieveError."""

    async def close(self, complete: bool) -> list[str]:
        """Called at the end; complete: the whole range was judged. Returns notices for a person."""


def open_sink(name: str | None, settings: Settings, taken: Iterable[str]) -> VerdictSink | None:
    """The writer for what --into names: topic:NAME, or a file.

    taken: topics that only a service may write. Raises SettingError.
    """
    if name is None:
        return None
    if not name.startswith(TOPIC_PREFIX):
        if name == "-":
            raise SettingError(
                "--into", "must be a file or topic:NAME, because standard output has the report", name, "name one"
            )
        return FileSink(name, settings.scheme.name)
    topic = name.removeprefix(TOPIC_PREFIX)
    if topic in set(taken):
        raise SettingError("--into", "must not be a topic of a service", topic, "create another one, and name that")
    return TopicSink(topic, settings)


class FileSink:
    """A verdict line for each page, as `spotsieve filter --verdicts` writes them, in the order of judging."""

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
        """Give the file its name, or leave it as NAME.partial."""
        if self._file is None:
            return []
        if complete:
            self._file.complete()
            return []
        left = self._file.abandon()
        return [f"the verdicts so far are in {left}"] if left is not None else []


class TopicSink:
    """Sends the novel pages, with the bytes, keys and headers that they would have in topics.novel.

    Its producer is idempotent and has no transactions: what an interrupted replay has sent stays there.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        topics = settings.topics.model_copy(update={"novel": name})
        service = settings.service.model_copy(update={"guarantee": "at_least_once"})
        self._settings = settings.model_copy(update={"topics": topics, "service": service})
        self._too_large = 0

    async def start(self) -> None:
        """Look at the topic, and connect."""
        facts = (await topic_facts(self._settings, [self._name])).get(self._name)
        if facts is None:
            raise SettingError("--into", "must name a topic that exists", self._name, "create it first")
        # Reports and dead letters are built as in the service, and then left out.
        self._builder = OutputBuilder(self._settings, dict.fromkeys(("novel", "duplicates", "rejected"), facts))
        self._producer: AIOKafkaProducer = output_producer(self._settings, None)
        try:
            await self._producer.start()
        except KafkaError as error:
            await stop_client(self._producer)
            raise self._ended(error) from None

    async def write(self, batch: MicroBatch) -> None:
        """Send the micro-batch's pages, and wait until the broker has them all."""
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
                    outputs.batches[:] = [made for made in outputs.batches if made[0] == self._name]
                    await deliver(self._producer, outputs)
        except KafkaError as error:
            raise self._ended(error) from None
        except TimeoutError:
            raise BrokerError(
                "kafka",
                f"did not take what was sent to {self._name} within {timeout_ms} ms (kafka.request_timeout_ms)",
                None,
                "check that the broker runs, then start again",
            ) from None

    async def close(self, complete: bool) -> list[str]:  # noqa: ARG002 - what was sent stays in any case
        """Stop the producer."""
        await stop_client(self._producer)
        if not self._too_large:
            return []
        return [f"{self._too_large:,} pages are larger than topic {self._name} takes, and were left out"]

    def _ended(self, error: KafkaError) -> Exception:
        return final_error(error, self._settings, f"writing {self._name}")
