"""Reads the topics of a migration: the input topic, to sign pages again, and the new log, to continue after a stop."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from typing import Self

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.state.log.pages_body import cut_url
from spotsieve.state.log.record import NO_PAGES
from spotsieve.stream.base.errors import ENVIRONMENT_ERRORS, PageError
from spotsieve.stream.base.settings.model import InputSettings, Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.insight.migrate.record_move import Migration
from spotsieve.stream.insight.replay.input import MessageBuffer
from spotsieve.stream.kafka.ranges import RangeReader, partitions_of, spans_held
from spotsieve.stream.kafka.topics import topic_facts
from spotsieve.stream.service.log.skips import log_records
from spotsieve.stream.service.pages.microbatch import MicroBatch, input_message, sign
from spotsieve.stream.sign.intake import Decoder
from spotsieve.stream.sign.schemes import Scheme

_STEP = "reading the input"


class PageSigner:
    """Reads the pages of a log record from the input topic, and signs them with the new settings. A context manager.

    The result has no rows for pages that retention removed, that the new settings reject, or whose message is another
    page, because the topic was recreated.
    """

    def __init__(self, old: InputSettings, settings: Settings, scheme: Scheme, signing: Executor) -> None:
        """old: the former input settings, by which the log has the URLs and times of its pages"""
        self._settings = settings
        self._old_decoder = Decoder(old)
        self._scheme = scheme
        self._signing = signing
        self._decoder = Decoder(settings.input)
        self._reader: RangeReader | None = None
        self._buffer: MessageBuffer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def sign(self, pages: Signatures) -> Signatures:
        """The pages of a record, signed with the new settings. Raises BrokerError, BrokerTrouble, SettingError."""
        messages, logged = list[ConsumerRecord](), list[int]()
        is_input = [source == self._settings.topics.input for source in pages.sources]
        rows = zip(pages.source.tolist(), pages.partition.tolist(), pages.offset.tolist(), strict=True)
        for row, (source, partition, offset) in enumerate(rows):
            message = await self._message(partition, offset) if is_input[source] else None
            if message is not None:
                messages.append(message)
                logged.append(row)
        if not messages:
            return NO_PAGES
        return await asyncio.get_running_loop().run_in_executor(self._signing, self._sign, messages, pages, logged)

    def _sign(self, messages: list[ConsumerRecord], pages: Signatures, logged: list[int]) -> Signatures:
        """The signatures of those messages that are pages of the log. logged: row of each message in `pages`"""
        rows = zip(messages, logged, strict=True)
        batch = MicroBatch([message for message, row in rows if _is_page(message, self._old_decoder, pages, row)], [])
        sign(batch, self._decoder, self._scheme)
        return NO_PAGES if batch.signatures is None else batch.signatures

    async def _message(self, partition: int, offset: int) -> ConsumerRecord | None:
        """A message of the input topic; None if the topic no longer has it."""
        buffer = await self._buffer_with(partition, offset)
        if buffer is None:
            return None
        if buffer.next[partition] != offset:
            buffer.go_to(partition, offset)
        message = await buffer.peek(partition)
        if message is None or message.offset != offset:
            return None
        return buffer.pop(partition)

    async def _buffer_with(self, partition: int, offset: int) -> MessageBuffer | None:
        """The buffer for a range with this offset; None if the topic does not have it.

        The range ends at the end of the topic when it was opened. The service adds messages, so a second try opens a
        new range.
        """
        for _ in range(2):
            if self._reader is not None:
                span = self._reader.spans.get(TopicPartition(self._settings.topics.input, partition), (0, 0))
                if offset < span[1]:
                    return self._buffer if offset >= span[0] else None
            await self._open()
        return None

    async def _open(self) -> None:
        await self._close()
        name = self._settings.topics.input
        facts = (await topic_facts(self._settings, [name]))[name]
        spans = await spans_held(self._settings, partitions_of(name, facts.partitions), _STEP)
        reader = RangeReader(self._settings, spans, _STEP, self._settings.kafka.isolation_level)
        self._reader = await reader.__aenter__()
        self._buffer = MessageBuffer(self._reader)

    async def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.__aexit__()


def _is_page(message: ConsumerRecord, decoder: Decoder, pages: Signatures, row: int) -> bool:
    """Whether a message is this page of the log, by URL and time. decoder: of the old settings

    A message without a time has the time at which it was read. Raises ENVIRONMENT_ERRORS except PageError.
    """
    if message.value is None:
        return False
    try:
        found = decoder.decode(input_message(message, 0))
    except PageError:
        return False
    except ENVIRONMENT_ERRORS:
        raise
    except Exception:
        return False  # A poison page is not in the log.
    if cut_url(found.url.encode("utf-8", "replace")) != pages.urls[row]:
        return False
    return message.timestamp < 0 or bool(found.event_time_ms == pages.event_time_ms[row])


class NewLogRecords:
    """The records of the new log after the journal's offset, up to the end of the log when it was opened.

    ended: whether all of them were returned
    """

    def __init__(self, settings: Settings, migration: Migration) -> None:
        self._settings = settings
        self._migration = migration
        self._records: AsyncIterator[tuple[int, bytes]] | None = None
        self._next: tuple[int, bytes] | None = None
        self.ended = False

    async def open(self) -> None:
        """Start reading. Raises StateError if another process has written to the log, BrokerError, BrokerTrouble."""
        self._records = log_records(self._settings, self._migration.journal.offset, None)
        await self._step()

    async def up_to(self, origin: int) -> list[tuple[int, bytes]]:
        """The next records whose origin is this old record, an earlier one, or none."""
        found = list[tuple[int, bytes]]()
        while self._next is not None and self._migration.origin(*self._next) <= origin:
            found.append(self._next)
            # Records after the one that opens the log are from workers.
            self.ended = self._migration.opens(*self._next)
            await self._step()
        return found

    async def _step(self) -> None:
        assert self._records is not None
        self._next = None if self.ended else await anext(self._records, None)
        self.ended = self._next is None
