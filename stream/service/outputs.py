"""Owns what is produced for the slices of a partition: pages let through, duplicate reports and dead letters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import ConsumerRecord

from stream.config import Settings
from stream.errors import PageError, Reject
from stream.service.microbatch import REJECTED, TOMBSTONE, Judged, MicroBatch
from stream.service.topics import TopicFacts
from stream.signature import page_id_text
from stream.text_safety import escape_control_characters
from stream.verdict import Kind, Reason, Verdicts

RECORD_OVERHEAD_BYTES = 512
"""Batch header, record header and our own headers around one message."""
HEADER_TEXT_BYTES = 1024
OUTPUT_ROLES = ("novel", "duplicates", "rejected")

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Batches ready to send as (topic, partition, builder), and what they hold beside pages."""

    batches: list[tuple[str, int, BatchBuilder]]
    dead_letters: Counter[str]
    tombstones: int


class OutputBuilder:
    """Builds the batches of slices.

    A message of input partition p goes to partition p modulo the output's partitions: what was in order stays in order,
    what was keyed together stays together, and one transaction touches one partition a topic.
    """

    def __init__(self, settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
        self._settings = settings
        self._annotate = settings.service.mode == "annotate"
        self._partitions = {role: facts[role].partitions for role in OUTPUT_ROLES}
        self._most_bytes = min(facts["novel"].max_message_bytes, facts["rejected"].max_message_bytes)
        self._verdict_headers = {
            (kind, reason): (
                ("spotsieve-verdict", kind.name.lower().encode()),
                ("spotsieve-reason", reason.label.encode()),
                ("spotsieve-scheme", settings.scheme.name.encode()),
            )
            for kind in Kind
            for reason in Reason
        }

    def build(self, producer: AIOKafkaProducer, partition: int, work: Sequence[Judged]) -> Outputs:
        """The batches of consecutive slices of one input partition, in the order of their messages."""
        writers = {
            role: _TopicWriter(producer, getattr(self._settings.topics, role), partition % partitions)
            for role, partitions in self._partitions.items()
        }
        dead_letters: Counter[str] = Counter()
        tombstones = 0
        for batch, part in work:
            for number in range(part.first, part.end):
                message = batch.messages[number]
                row = int(batch.rows[number])
                if row == TOMBSTONE:
                    tombstones += 1
                    writers["novel"].add(message, None, message.headers)
                    continue
                error = batch.rejections[number] if row == REJECTED else self._judged(writers, batch, message, row)
                if error is not None:
                    dead_letters[error.reason.value] += 1
                    self._reject(writers["rejected"], message, error)
        batches = [made for writer in writers.values() for made in writer.finish()]
        return Outputs(batches, dead_letters, tombstones)

    def _judged(
        self, writers: Mapping[str, "_TopicWriter"], batch: MicroBatch, message: ConsumerRecord, row: int
    ) -> PageError | None:
        """Write a judged page where its verdict sends it; an error where no output can hold it."""
        assert batch.verdicts is not None
        assert batch.signatures is not None
        verdicts = batch.verdicts
        kind, reason = Kind(verdicts.kind[row]), Reason(verdicts.reason[row])
        headers: Headers = self._verdict_headers[kind, reason]
        if kind is Kind.DUPLICATE:
            writers["duplicates"].add(
                message, orjson.dumps(self._report(message, batch.signatures.urls[row], verdicts, row)), ()
            )
            if not self._annotate:
                return None
            original = verdicts.originals[row]
            headers = (
                *headers,
                ("spotsieve-duplicate-of", header_text(original.id if original else "")),
                ("spotsieve-score", f"{verdicts.score[row]:.4f}".encode()),
            )
        if self._too_large(message):
            return PageError(
                Reject.TOO_LARGE, "message", f"must fit the outputs' max.message.bytes ({self._most_bytes})",
                len(message.value),
                "the page stays in the input topic under its page id; raise the limit of the output topics",
            )  # fmt: skip
        writers["novel"].add(message, message.value, (*message.headers, *headers))
        return None

    def _too_large(self, message: ConsumerRecord) -> bool:
        size = len(message.value or b"") + len(message.key or b"") + RECORD_OVERHEAD_BYTES
        size += sum(len(name) + len(value or b"") for name, value in message.headers)
        return size > self._most_bytes

    def _reject(self, writer: "_TopicWriter", message: ConsumerRecord, error: PageError) -> None:
        reasons = (
            ("spotsieve-reason", error.reason.value.encode()),
            ("spotsieve-error", header_text(str(error))),
            ("spotsieve-page", header_text(page_id_text(message.topic, message.partition, message.offset))),
        )
        if self._too_large(message):
            # The dead letter names the page and says why; the message itself stays in the input topic.
            writer.add(message, b"", reasons)
        else:
            writer.add(message, message.value, (*message.headers, *reasons))

    def _report(self, message: ConsumerRecord, url: bytes, verdicts: Verdicts, row: int) -> dict[str, object]:
        original = verdicts.originals[row]
        assert original is not None
        return {
            "page": {
                "id": page_id_text(message.topic, message.partition, message.offset),
                "url": url.decode("utf-8", "replace"),
            },
            "duplicate_of": {"id": original.id, "url": original.url, "event_time_ms": original.event_time_ms},
            "scheme": self._settings.scheme.name,
            "score": round(float(verdicts.score[row]), 6),
            "reason": Reason(verdicts.reason[row]).label,
        }


class _TopicWriter:
    """Appends messages to batch builders of one output partition, opening a new builder where one is full."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, partition: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._full: list[BatchBuilder] = []
        self._open: BatchBuilder | None = None

    def add(self, message: ConsumerRecord, value: bytes | None, headers: Headers) -> None:
        """Append a message under the original's key and timestamp."""
        if self._open is None:
            self._open = self._producer.create_batch()
        # aiokafka's compiled builder takes a list and nothing else.
        listed = list(headers)
        appended = self._open.append(timestamp=message.timestamp, key=message.key, value=value, headers=listed)
        if appended is None:
            self._full.append(self._open)
            self._open = self._producer.create_batch()
            # The first message of a batch is always taken, whatever its size.
            self._open.append(timestamp=message.timestamp, key=message.key, value=value, headers=listed)

    def finish(self) -> list[tuple[str, int, BatchBuilder]]:
        """Every batch, closed."""
        builders = self._full if self._open is None else [*self._full, self._open]
        for builder in builders:
            builder.close()
        return [(self._topic, self._partition, builder) for builder in builders]


def header_text(text: str) -> bytes:
    """Text as a header value: one line, no control characters, bounded."""
    encoded = escape_control_characters(text).encode("utf-8", "replace")
    # A character cut in two would not be UTF-8.
    return encoded[:HEADER_TEXT_BYTES].decode("utf-8", "ignore").encode()
