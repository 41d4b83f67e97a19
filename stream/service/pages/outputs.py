"""Builds the output messages of a partition: emitted pages, duplicate reports and dead letters."""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import MAX_URL_BYTES, page_id_text
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.kafka.clients import PRODUCER_BATCH_BYTES
from spotsieve.stream.kafka.driver.clients import new_batch
from spotsieve.stream.kafka.topics import (
    HEADER_OVERHEAD_BYTES,
    HEADER_TEXT_BYTES,
    KEY_BYTES,
    LEAST_OUTPUT_BYTES,
    OUTPUT_ROLES,
    Headers,
    TopicFacts,
    record_bytes,
)
from spotsieve.stream.service.pages.microbatch import (
    POISON,
    REJECTED,
    TOMBSTONE,
    JudgedSlice,
    MicroBatch,
    message_bytes,
)
from spotsieve.stream.service.serial_executor import SHORT_BYTES

CLOCKS_MS = 60_000
"""Tolerance for the clock difference between broker and worker, and for the wait of a batch before it is sent."""
SHORT_URL_BYTES = 256
"""Limit for URLs and ids in a report that exceeds the topic's limit, which an uncompressed report can."""

OWN_PREFIX = "spotsieve-"
"""Header names with this prefix, in any case, belong to this filter. A consumer acts on them: it may drop the page that
spotsieve-replaces names."""


@dataclass(frozen=True, slots=True)
class OutputBatches:
    """Batches ready to send, as (topic, partition, builder), and the numbers of dead letters and tombstones in them."""

    batches: list[tuple[str, int, BatchBuilder]]
    dead_letters: Counter[str]
    tombstones: int


class OutputBuilder:
    """Builds the output batches of judged slices.

    A message of input partition p goes to output partition p modulo the number of output partitions. So messages stay
    in order, equal keys stay together, and one transaction touches one partition of each topic.
    """

    def __init__(self, settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
        self._settings = settings
        self._annotate = settings.service.mode == "annotate"
        self._facts = {role: facts[role] for role in OUTPUT_ROLES}
        self._verdict_headers: Mapping[tuple[int, int], Headers] = {
            (kind, reason): (
                ("spotsieve-verdict", kind.label.encode()),
                ("spotsieve-reason", reason.label.encode()),
                ("spotsieve-scheme", settings.scheme.name.encode()),
            )
            for kind in Kind
            for reason in Reason
        }
        # Most pages are small. A character of a header name has at most 4 bytes.
        self._small_bytes = (facts["novel"].max_message_bytes - LEAST_OUTPUT_BYTES) // 8
        self._longest_headers = _longest_headers(settings, self._verdict_headers)
        self._compresses = any((facts[role].codec or settings.service.compression) != "none" for role in OUTPUT_ROLES)

    def is_short(self, size: int) -> bool:
        """Whether slices of `size` bytes are encoded faster than a thread gets its turn (0.1 ms)."""
        return size <= SHORT_BYTES and not self._compresses

    def build(self, partition: int, work: Sequence[JudgedSlice]) -> OutputBatches:
        """Build the batches for consecutive slices of one input partition, in the order of their messages.

        Call it in a thread unless is_short(): gzip takes half a second for 512 pages and would block the event loop.
        """
        writers = {role: self._writer(role, partition) for role in OUTPUT_ROLES}
        dead_letters: Counter[str] = Counter()
        tombstones = 0
        for batch, part in work:
            for number in range(part.first, part.end):
                message = batch.messages[number]
                row = int(batch.rows[number])
                if row == TOMBSTONE and writers["novel"].add(message, None, foreign_headers(message)):
                    tombstones += 1
                    continue
                error = self._write_page(writers, batch, number, row)
                if error is not None:
                    dead_letters[error.reason.value] += 1
                    self._reject(writers["rejected"], message, error)
        batches = [made for writer in writers.values() for made in writer.finish()]
        return OutputBatches(batches, dead_letters, tombstones)

    def undeliverable(self, message: ConsumerRecord) -> PageError | None:
        """The error of a page that the output cannot hold with the headers of any novel verdict; None for other pages.

        Such a page must not be judged: it would become an original that no consumer receives.
        """
        if message_bytes(message) + HEADER_OVERHEAD_BYTES * len(message.headers) <= self._small_bytes:
            return None
        headers = [*foreign_headers(message), *self._longest_headers, _page_header(message)]
        return None if self._writer("novel", 0).fits(message, headers) else self._too_large(message)

    def _writer(self, role: str, partition: int) -> "_TopicWriter":
        """A writer for the output partition of an input partition."""
        return _TopicWriter(
            getattr(self._settings.topics, role),
            partition % self._facts[role].partitions,
            self._facts[role],
            self._settings.service.compression,
            transactional=self._settings.service.guarantee == "exactly_once",
        )

    def _write_page(
        self, writers: Mapping[str, "_TopicWriter"], batch: MicroBatch, number: int, row: int
    ) -> PageError | None:
        """Write a page to the output of its verdict. Returns an error for a message that becomes a dead letter."""
        if row == REJECTED:
            return batch.rejections[number]
        if row == POISON:
            return self._emit(writers, batch.messages[number], Kind.UNCHECKED, Reason.INTERNAL_ERROR)
        if row == TOMBSTONE:
            return self._too_large(batch.messages[number])
        return self._write_judged(writers, batch, batch.messages[number], row)

    def _write_judged(
        self, writers: Mapping[str, "_TopicWriter"], batch: MicroBatch, message: ConsumerRecord, row: int
    ) -> PageError | None:
        """Write a judged page to the output of its verdict. Returns an error if it exceeds the limit of the output."""
        assert batch.verdicts is not None
        assert batch.signatures is not None
        verdicts = batch.verdicts
        # As integers: the lookup of an enum member takes longer than that of its headers.
        kind, reason = int(verdicts.kind[row]), int(verdicts.reason[row])
        page = _page_id(message)
        headers: Headers = ()
        if verdicts.is_duplicate(row):
            for most in (MAX_URL_BYTES, SHORT_URL_BYTES):
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
        return self._emit(writers, message, kind, reason, headers)

    def _emit(
        self,
        writers: Mapping[str, "_TopicWriter"],
        message: ConsumerRecord,
        kind: int,
        reason: int,
        more: Headers = (),
    ) -> PageError | None:
        """Emit a page with the headers of its verdict. Returns an error if it exceeds the limit of the output.

        kind, reason: Kind and Reason
        """
        headers = (*foreign_headers(message), *self._verdict_headers[kind, reason], _page_header(message), *more)
        return None if writers["novel"].add(message, message.value, headers) else self._too_large(message)

    def _too_large(self, message: ConsumerRecord) -> PageError:
        return PageError(
            RejectReason.TOO_LARGE,
            "message",
            f"exceeds max.message.bytes of the output topic ({self._facts['novel'].max_message_bytes})",
            message_bytes(message),
            "raise max.message.bytes of the output topics; the page stays in the input topic under its page id",
        )

    def _reject(self, writer: "_TopicWriter", message: ConsumerRecord, error: PageError) -> None:
        reasons = (
            ("spotsieve-reason", error.reason.value.encode()),
            ("spotsieve-error", header_text(str(error))),
            _page_header(message),
        )
        if not writer.add(message, message.value, (*foreign_headers(message), *reasons)):
            # The dead letter only names the page and the reason. The message stays in the input topic.
            writer.add(message, b"", reasons, most_key_bytes=KEY_BYTES)

    def _report(self, page: str, url: bytes, verdicts: Verdicts, row: int, most: int) -> dict[str, object]:
        """The duplicate report of a page. most: limit for each URL and id; both page ids are always complete"""
        original = verdicts.originals[row]
        assert original is not None
        return {
            "page": {"id": page, "url": url[:most].decode("utf-8", "replace")},
            "duplicate_of": {
                "id": original.id[:most],
                "page": original.page_id,
                "url": original.url[:most],
                "event_time_ms": original.event_time_ms,
            },
            "scheme": self._settings.scheme.name,
            "score": round(float(verdicts.score[row]), 6),
            "reason": Reason(verdicts.reason[row]).label,
        }


class _TopicWriter:
    """Appends messages to the batches of one output partition, and begins a new batch when one is full."""

    def __init__(self, topic: str, partition: int, facts: TopicFacts, compression: str, *, transactional: bool) -> None:
        """compression: codec of the batches, unless the topic prescribes one"""
        self._most_bytes = facts.max_message_bytes
        self._codec = facts.codec or compression
        # Incompressible data grows, by 5 bytes in 16 KiB and 26 at most, and could exceed the limit.
        self._most_plain_bytes = self._most_bytes - (self._most_bytes // 1024 + 64) * (self._codec != "none")
        # Pages of a crawler that compresses may fit only if compressed, and others only if not.
        self._alone_codecs = (facts.codec,) if facts.codec else ("zstd", "none")
        before, after = facts.times_taken_ms
        now = int(time.time() * 1000)
        self._now, self._first_time, self._last_time = now, now - before + CLOCKS_MS, now + after - CLOCKS_MS
        self._transactional = transactional
        self._is_compacted = facts.compacted
        self._topic = topic
        self._partition = partition
        self._full: list[BatchBuilder] = []
        self._open: BatchBuilder | None = None

    def add(
        self, message: ConsumerRecord, value: bytes | None, headers: Headers, most_key_bytes: int | None = None
    ) -> bool:
        """Append a message with the key and timestamp of `message`, or with the current time if the topic refuses it.

        In a compacted topic, which rejects messages without a key, the page id is the key of such a message.
        most_key_bytes: a longer key is left out, and also a key with which the message exceeds the topic's limit
        Returns False and appends nothing if the message exceeds the topic's limit even when compressed.
        """
        key = self._key_of(message, most_key_bytes)
        # aiokafka's compiled builder takes only a list.
        listed = list(headers)
        size = record_bytes(key, value, listed)
        timestamp = self._timestamp(message)
        if size > self._most_plain_bytes:
            no_key = self._no_key(message)
            key_is_optional = key != no_key and most_key_bytes is not None
            return self._add_alone(timestamp, key, value, listed) or (
                key_is_optional and self._add_alone(timestamp, no_key, value, listed)
            )
        if self._open is not None and self._open.size() + size > self._most_plain_bytes:
            self._close()
        if self._open is None:
            self._open = self._new_batch(self._codec)
        appended = self._open.append(timestamp=timestamp, key=key, value=value, headers=listed)
        if appended is None:
            self._close()
            self._open = self._new_batch(self._codec)
            # A batch takes a first message of any size.
            self._open.append(timestamp=timestamp, key=key, value=value, headers=listed)
        return True

    def finish(self) -> list[tuple[str, int, BatchBuilder]]:
        """Close and compress the last batch. Returns all batches."""
        self._close()
        return [(self._topic, self._partition, batch) for batch in self._full]

    def _new_batch(self, compression: str) -> BatchBuilder:
        return new_batch(PRODUCER_BATCH_BYTES, compression, transactional=self._transactional)

    def _close(self) -> None:
        if self._open is not None:
            self._open.prepare()
            self._full.append(self._open)
            self._open = None

    def _timestamp(self, message: ConsumerRecord) -> int:
        """The timestamp to send.

        A timestamp that the topic refuses would stop every worker, and one beyond its retention would delete the
        message before anybody reads it. Messages may have any.
        """
        written = int(message.timestamp)
        return written if written < 0 or self._first_time <= written <= self._last_time else self._now

    def fits(self, message: ConsumerRecord, headers: Headers) -> bool:
        """Whether add() would append the message with its value and these headers."""
        key, listed = self._key_of(message, None), list(headers)
        if record_bytes(key, message.value, listed) <= self._most_plain_bytes:
            return True
        return self._alone(self._timestamp(message), key, message.value, listed) is not None

    def _key_of(self, message: ConsumerRecord, most_key_bytes: int | None) -> bytes | None:
        """The key to write for a message. most_key_bytes: a longer key is left out"""
        key: bytes | None = message.key
        too_long = key is not None and most_key_bytes is not None and len(key) > most_key_bytes
        return self._no_key(message) if key is None or too_long else key

    def _no_key(self, message: ConsumerRecord) -> bytes | None:
        """The key of a message without a key."""
        if not self._is_compacted:
            return None
        return _page_id(message).encode()

    def _alone(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
    ) -> BatchBuilder | None:
        """A batch of one message, in the first codec that fits the limit; None if none does."""
        for codec in self._alone_codecs:
            alone = self._new_batch(codec)
            alone.append(timestamp=timestamp, key=key, value=value, headers=headers)
            if alone.prepare() <= self._most_bytes:
                return alone
        return None

    def _add_alone(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
    ) -> bool:
        """Append a message in its own batch. Returns False if it exceeds the limit in every codec."""
        alone = self._alone(timestamp, key, value, headers)
        if alone is None:
            return False
        self._close()
        self._full.append(alone)
        return True


def _page_id(message: ConsumerRecord) -> str:
    return page_id_text(message.topic, message.partition, message.offset)


def _page_header(message: ConsumerRecord) -> tuple[str, bytes]:
    """The page id identifies the input message: other pages may have the same bytes and key."""
    return "spotsieve-page", _page_id(message).encode()


def _longest_headers(settings: Settings, verdict_headers: Mapping[tuple[int, int], Headers]) -> Headers:
    """Headers that are at least as long as those of each page that may become an original, except its page id."""
    own = (headers for (kind, _), headers in verdict_headers.items() if kind != Kind.DUPLICATE)
    longest = max(own, key=lambda headers: sum(len(content) for _, content in headers))
    if settings.policy.keep == "first":
        return longest
    # No codec makes these bytes shorter. Real ids may be incompressible, too, and differ from each other.
    texts = hashlib.shake_256(b"").digest(2 * HEADER_TEXT_BYTES)
    return (
        *longest,
        ("spotsieve-replaces", texts[:HEADER_TEXT_BYTES]),
        ("spotsieve-replaces-page", texts[HEADER_TEXT_BYTES:]),
    )


def foreign_headers(message: ConsumerRecord) -> Headers:
    """The headers of a message without those that only this filter may set.

    They come from an earlier filter, or from a stranger whose response headers the crawler copied.
    """
    return [header for header in message.headers if not header[0].lower().startswith(OWN_PREFIX)]


def header_text(text: str) -> bytes:
    """Encode text as a header value: one line of at most HEADER_TEXT_BYTES, control characters escaped."""
    encoded = escape_control_characters(text).encode("utf-8", "replace")
    # A character that is cut is dropped.
    return encoded[:HEADER_TEXT_BYTES].decode("utf-8", "ignore").encode()
