"""Builds the output messages of a partition's slices: novel pages, duplicate reports and dead letters."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import MAX_URL_BYTES, page_id_text
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.kafka.clients import PRODUCER_BATCH_BYTES
from spotsieve.stream.kafka.driver.prepared_batch import PreparedBatch
from spotsieve.stream.kafka.topics import HEADER_TEXT_BYTES, KEY_BYTES, Headers, TopicFacts, record_bytes
from spotsieve.stream.service.pages.microbatch import (
    BROKEN,
    REJECTED,
    TOMBSTONE,
    JudgedSlice,
    MicroBatch,
    message_bytes,
)
from spotsieve.stream.service.serial_executor import SHORT_BYTES

CLOCKS_MS = 60_000
"""How far the clocks of the broker and of the worker may differ, and how long a batch may wait to be sent."""
SHORT_ADDRESS_BYTES = 256
"""Of addresses and ids in a report that would not fit otherwise: the topic may prescribe that nothing is compressed."""

OUTPUT_ROLES = ("novel", "duplicates", "rejected")


@dataclass(frozen=True, slots=True)
class OutputBatches:
    """Batches that are ready to send, as (topic, partition, builder), and counts of what they hold beside pages."""

    batches: list[tuple[str, int, PreparedBatch]]
    dead_letters: Counter[str]
    tombstones: int


class OutputBuilder:
    """Builds the batches of slices.

    A message of input partition p goes to partition p modulo the output's partitions. So messages stay in order, equal
    keys stay together, and one transaction touches one partition of each topic.
    """

    def __init__(self, settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
        self._settings = settings
        self._annotate = settings.service.mode == "annotate"
        self._partitions = {role: facts[role].partitions for role in OUTPUT_ROLES}
        self._facts = {role: facts[role] for role in OUTPUT_ROLES}
        self._verdict_headers: Mapping[tuple[int, int], Headers] = {
            (kind, reason): (
                ("spotsieve-verdict", kind.name.lower().encode()),
                ("spotsieve-reason", reason.label.encode()),
                ("spotsieve-scheme", settings.scheme.name.encode()),
            )
            for kind in Kind
            for reason in Reason
        }
        self._compresses = any((facts[role].codec or settings.service.compression) != "none" for role in OUTPUT_ROLES)

    def is_short(self, size: int) -> bool:
        """Whether slices of so many bytes are written in less time than a thread waits for its turn: 0.1 ms."""
        return size <= SHORT_BYTES and not self._compresses

    def build(self, partition: int, work: Sequence[JudgedSlice]) -> OutputBatches:
        """The batches for consecutive slices of one input partition, in the order of their messages.

        Call it in a thread, unless it is short: gzip takes half a second for 512 pages, and the event loop would stand
        still.
        """
        writers = {
            role: _TopicWriter(
                getattr(self._settings.topics, role),
                partition % partitions,
                self._facts[role],
                self._settings.service.compression,
                transactional=self._settings.service.guarantee == "exactly_once",
            )
            for role, partitions in self._partitions.items()
        }
        dead_letters: Counter[str] = Counter()
        tombstones = 0
        for batch, part in work:
            for number in range(part.first, part.end):
                message = batch.messages[number]
                row = int(batch.rows[number])
                if row == TOMBSTONE and writers["novel"].add(message, None, message.headers):
                    tombstones += 1
                    continue
                error = self._written(writers, batch, number, row)
                if error is not None:
                    dead_letters[error.reason.value] += 1
                    self._reject(writers["rejected"], message, error)
        batches = [made for writer in writers.values() for made in writer.finish()]
        return OutputBatches(batches, dead_letters, tombstones)

    def _written(
        self, writers: Mapping[str, "_TopicWriter"], batch: MicroBatch, number: int, row: int
    ) -> PageError | None:
        """Write a page to the output of its verdict; -> the error of a message that goes to the dead letters."""
        if row == REJECTED:
            return batch.rejections[number]
        if row == BROKEN:
            return self._passed(writers, batch.messages[number], Kind.UNCHECKED, Reason.INTERNAL_ERROR)
        if row == TOMBSTONE:
            return self._too_large(batch.messages[number])
        return self._judged(writers, batch, batch.messages[number], row)

    def _judged(
        self, writers: Mapping[str, "_TopicWriter"], batch: MicroBatch, message: ConsumerRecord, row: int
    ) -> PageError | None:
        """Write a judged page to the output of its verdict; -> an error where no output can hold it."""
        assert batch.verdicts is not None
        assert batch.signatures is not None
        verdicts = batch.verdicts
        # As numbers: a member takes longer to find than its headers.
        kind, reason = int(verdicts.kind[row]), int(verdicts.reason[row])
        page = page_id_text(message.topic, message.partition, message.offset)
        headers: Headers = ()
        if verdicts.is_duplicate(row):
            for most in (MAX_URL_BYTES, SHORT_ADDRESS_BYTES):
                report = orjson.dumps(self._report(page, batch.signatures.urls[row], verdicts, row, most))
                if writers["duplicates"].add(message, report, (), most_key_bytes=KEY_BYTES):
                    break
            if not self._annotate:
                return None
            original = verdicts.originals[row]
            headers = (
                ("spotsieve-duplicate-of", header_text(original.id if original else "")),
                ("spotsieve-score", f"{verdicts.score[row]:.4f}".encode()),
            )
        replaced = verdicts.replaces[row]
        if replaced is not None:
            headers = (
                *headers,
                ("spotsieve-replaces", header_text(replaced.id)),
                ("spotsieve-replaces-page", header_text(replaced.page_id)),
            )
        return self._passed(writers, message, kind, reason, headers)

    def _passed(
        self,
        writers: Mapping[str, "_TopicWriter"],
        message: ConsumerRecord,
        kind: int,
        reason: int,
        more: Headers = (),
    ) -> PageError | None:
        """Write a page that is let through, with its verdict; -> an error where no output can hold it.

        kind, reason: Kind and Reason
        """
        page = page_id_text(message.topic, message.partition, message.offset)
        # The page id joins outputs to the input: other pages may have the same bytes and key.
        headers = (*message.headers, *self._verdict_headers[kind, reason], ("spotsieve-page", page.encode()), *more)
        return None if writers["novel"].add(message, message.value, headers) else self._too_large(message)

    def _too_large(self, message: ConsumerRecord) -> PageError:
        return PageError(
            RejectReason.TOO_LARGE,
            "message",
            f"must fit max.message.bytes of the output ({self._facts['novel'].max_message_bytes})",
            message_bytes(message),
            "the page stays in the input topic under its page id; raise the limit of the output topics",
        )

    def _reject(self, writer: "_TopicWriter", message: ConsumerRecord, error: PageError) -> None:
        reasons = (
            ("spotsieve-reason", error.reason.value.encode()),
            ("spotsieve-error", header_text(str(error))),
            ("spotsieve-page", header_text(page_id_text(message.topic, message.partition, message.offset))),
        )
        if not writer.add(message, message.value, (*message.headers, *reasons)):
            # The dead letter names the page and the reason; the message itself stays in the input topic.
            writer.add(message, b"", reasons, most_key_bytes=KEY_BYTES)

    def _report(self, page: str, url: bytes, verdicts: Verdicts, row: int, most: int) -> dict[str, object]:
        """most: characters or bytes of each address and id; `page` and `duplicate_of.page` always name the pages."""
        original = verdicts.originals[row]
        assert original is not None
        return {
            "page": {"id": page, "url": url[:most].decode("utf-8", "replace")},
            "duplicate_of": {
                "id": original.id[:most],
                "page": page_id_text(original.source, original.partition, original.offset),
                "url": original.url[:most],
                "event_time_ms": original.event_time_ms,
            },
            "scheme": self._settings.scheme.name,
            "score": round(float(verdicts.score[row]), 6),
            "reason": Reason(verdicts.reason[row]).label,
        }


class _TopicWriter:
    """Appends messages to the batch builders of one output partition, and opens a new builder when one is full."""

    def __init__(self, topic: str, partition: int, facts: TopicFacts, compression: str, *, transactional: bool) -> None:
        """compression: of the batches, where the topic does not prescribe it"""
        self._most_bytes = facts.max_message_bytes
        self._codec = facts.codec or compression
        # What cannot be compressed grows, by 5 bytes in 16 KiB and 26 at the most. So it might not fit any longer.
        self._most_plain_bytes = self._most_bytes - (self._most_bytes // 1024 + 64) * (self._codec != "none")
        # A crawler that compresses sends pages which fit in no other way, and some fit only as they are.
        self._alone_codecs = (facts.codec,) if facts.codec else ("zstd", "none")
        before, after = facts.times_taken_ms
        now = int(time.time() * 1000)
        self._now, self._first_time, self._last_time = now, now - before + CLOCKS_MS, now + after - CLOCKS_MS
        self._transactional = transactional
        self._topic = topic
        self._partition = partition
        self._full: list[PreparedBatch] = []
        self._open: PreparedBatch | None = None

    def add(
        self, message: ConsumerRecord, value: bytes | None, headers: Headers, most_key_bytes: int | None = None
    ) -> bool:
        """Append a message with the key and timestamp of `message`; with the time of now where the topic refuses that.

        most_key_bytes: a longer key is left out, and one that the topic does not take besides the rest
        Returns False and appends nothing where the topic cannot hold the message, even if it is compressed.
        """
        key = message.key
        # aiokafka's compiled builder takes only a list.
        listed = list(headers)
        size = record_bytes(key, value, listed)
        if key is not None and most_key_bytes is not None and len(key) > most_key_bytes:
            size -= len(key)
            key = None
        timestamp = self._time_of(message)
        if size > self._most_plain_bytes:
            may_go = key is not None and most_key_bytes is not None
            return self._add_alone(timestamp, key, value, listed) or (
                may_go and self._add_alone(timestamp, None, value, listed)
            )
        if self._open is not None and self._open.size() + size > self._most_plain_bytes:
            self._close()
        if self._open is None:
            self._open = self._new_batch(self._codec)
        appended = self._open.append(timestamp=timestamp, key=key, value=value, headers=listed)
        if appended is None:
            self._close()
            self._open = self._new_batch(self._codec)
            # A batch always takes its first message, whatever its size.
            self._open.append(timestamp=timestamp, key=key, value=value, headers=listed)
        return True

    def finish(self) -> list[tuple[str, int, PreparedBatch]]:
        """Every batch, closed and compressed."""
        self._close()
        return [(self._topic, self._partition, batch) for batch in self._full]

    def _new_batch(self, compression: str) -> PreparedBatch:
        return PreparedBatch(PRODUCER_BATCH_BYTES, compression, transactional=self._transactional)

    def _close(self) -> None:
        if self._open is not None:
            self._open.prepare()
            self._full.append(self._open)
            self._open = None

    def _time_of(self, message: ConsumerRecord) -> int:
        """The time to send: one that the topic refuses would stop every worker, and pages may have any."""
        written = int(message.timestamp)
        return written if written < 0 or self._first_time <= written <= self._last_time else self._now

    def _add_alone(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
    ) -> bool:
        """Give a message its own batch, in the first codec in which it fits."""
        for codec in self._alone_codecs:
            alone = self._new_batch(codec)
            alone.append(timestamp=timestamp, key=key, value=value, headers=headers)
            if alone.prepare() <= self._most_bytes:
                self._close()
                self._full.append(alone)
                return True
        return False


def header_text(text: str) -> bytes:
    """Text as a header value: one line, bounded, without control characters."""
    encoded = escape_control_characters(text).encode("utf-8", "replace")
    # A character cut in two would not be UTF-8.
    return encoded[:HEADER_TEXT_BYTES].decode("utf-8", "ignore").encode()
