"""Reads the recorded order and verdicts of a range: from the log and from the output topics."""

from collections.abc import Mapping
from contextlib import aclosing

import orjson
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.state.log.record import decode
from spotsieve.stream.base.errors import DamagedRecord, RejectReason
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.insight.replay.comparison import OTHER_TOPIC, UNKNOWN_ORIGINAL, PageOutcome, RecordedOutcomes
from spotsieve.stream.insight.replay.order import LogOrder
from spotsieve.stream.kafka.ranges import RangeReader, partitions_of, read_spans, spans_held
from spotsieve.stream.kafka.topics import TopicFacts
from spotsieve.stream.service.log.skips import log_span

_OUTCOMES = {outcome.label: outcome for outcome in (PageOutcome.NOVEL, PageOutcome.DUPLICATE, PageOutcome.UNCHECKED)}


async def read_log(settings: Settings, order: LogOrder, on_read: OnProgress) -> tuple[list[str], bytes | None]:
    """Read the order of the range from the log; -> (notices for people, settings digest of the log).

    Raises DamagedRecord for a damaged record that is not skipped, BrokerError, BrokerTrouble.
    """
    name = settings.topics.log
    partition, step = TopicPartition(name, 0), "reading the log"
    first, end = await log_span(settings)
    digest, foreign = None, 0
    damaged, skipped, ended = dict[int, DamagedRecord](), set[int](), False
    async with RangeReader(settings, {partition: (first, end)}, step, "read_uncommitted") as reader:
        async for fetched in reader.batches():
            for record in () if ended else fetched.get(partition, ()):
                try:
                    logged = decode(record.value or b"", name, record.offset)
                except DamagedRecord as error:
                    damaged[record.offset] = error
                    continue
                foreign += logged.foreign
                skipped |= {logged.skips} if logged.skips is not None else set()
                ended = logged.handover is not None and logged.handover.closed
                if ended:
                    break  # no worker judges the records after it (spotsieve migrate)
                if logged.foreign or logged.configuration is not None or logged.handover is not None:
                    continue
                digest = logged.settings_digest
                order.add(logged.signatures)
                order.forget(logged.forgotten)
                order.commit(logged.committed)
            on_read(step, reader.positions[partition] - first, end - first)
    fatal = [error for offset, error in damaged.items() if offset not in skipped]
    if fatal:
        raise fatal[0]
    notices = []
    if foreign:
        notices.append(f"{foreign:,} records of the log {name} are not from Spotsieve and were skipped")
    if first:
        notices.append(f"the log {name} begins at record {first:,}: pages of earlier records are judged by timestamp")
    elif first == end:
        notices.append(f"the log {name} is empty: all pages are judged by timestamp")
    return notices, digest


async def read_recorded(
    settings: Settings,
    facts: Mapping[str, TopicFacts],
    order: LogOrder,
    recorded: RecordedOutcomes,
    on_read: OnProgress,
) -> list[str]:
    """Read the recorded verdicts from the output topics; -> notices for people.

    facts: of the existing output topics, by role
    Reports are read first: only they name the original of a duplicate. With mode = "annotate" a duplicate is also in
    topics.novel, and a duplicate that is too large for an output is reported before it becomes a dead letter.
    """
    notices = []
    for role in ("duplicates", "novel", "rejected"):
        name = getattr(settings.topics, role)
        if role not in facts:
            notices.append(f"topics.{role} {name!r} does not exist: its verdicts are unknown")
            continue
        step = f"reading {name}"
        spans = await spans_held(settings, partitions_of(name, facts[role].partitions), step)
        if any(first for first, _ in spans.values()):
            notices.append(f"{name} has lost its first messages (retention): their verdicts are unknown")
        async with aclosing(read_spans(settings, spans, step, on_read)) as messages:
            async for message in messages:
                _note(role, message, order, recorded)
    return notices


def _note(role: str, message: ConsumerRecord, order: LogOrder, recorded: RecordedOutcomes) -> None:
    """Add the verdict in one message of an output topic."""
    if role == "duplicates":
        _note_report(message.value or b"", recorded)
        return
    # The last header of a name counts: the page may already have headers from another filter.
    headers = dict(message.headers)
    place = _place(recorded, headers.get("spotsieve-page"))
    if place is None:
        # An emitted tombstone has no page id.
        recorded.foreign += message.value is not None
        return
    reason = _text(headers.get("spotsieve-reason"))
    if role == "rejected":
        withheld = reason == RejectReason.TOO_LARGE and place >= 0 and order.logged[place]
        recorded.note(place, PageOutcome.UNDELIVERED if withheld else PageOutcome.REJECTED, reason)
        return
    outcome = _OUTCOMES.get(_text(headers.get("spotsieve-verdict")))
    if outcome is None:
        recorded.foreign += 1
    else:
        recorded.note(place, outcome, reason, _original(_text(headers.get("spotsieve-replaces-page")), recorded))


def _note_report(value: bytes, recorded: RecordedOutcomes) -> None:
    try:
        report = orjson.loads(value)
        page, original, reason = report["page"]["id"], report["duplicate_of"].get("page"), report["reason"]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        recorded.foreign += 1
        return
    place = _place(recorded, page)
    if place is None:
        recorded.foreign += 1
        return
    recorded.note(place, PageOutcome.DUPLICATE, str(reason), _original(original, recorded))


def _original(page: object, recorded: RecordedOutcomes) -> tuple[int, int]:
    """The partition and offset of the page that a message names as original, or as superseded."""
    found = page_of_id(page) if isinstance(page, str) else None
    if found is None:
        return UNKNOWN_ORIGINAL
    return found[1:] if found[0] == recorded.places.topic else OTHER_TOPIC


def _place(recorded: RecordedOutcomes, page: object) -> int | None:
    """The place of a page id; OUTSIDE if it is not in the range, None if the text is not a page id."""
    found = page_of_id(_text(page)) if isinstance(page, (bytes, str)) else None
    return None if found is None else recorded.places.of_page(*found)


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
