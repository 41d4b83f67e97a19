"""Reads the record of a range: its order in the log, and its verdicts in the output topics."""

from collections.abc import Callable, Mapping

import orjson
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.state.log.record import decode
from spotsieve.stream.base.errors import DamagedRecord, RejectReason
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.insight.replay.comparison import OTHER_TOPIC, UNKNOWN_ORIGINAL, PageOutcome, RecordedOutcomes
from spotsieve.stream.insight.replay.order import LogOrder
from spotsieve.stream.kafka.ranges import RangeReader
from spotsieve.stream.kafka.topics import TopicFacts

OnRead = Callable[[str, int, int], None]
"""told(what, done, of): how many messages of a topic are read."""

_OUTCOMES = {outcome.label: outcome for outcome in (PageOutcome.NOVEL, PageOutcome.DUPLICATE, PageOutcome.UNCHECKED)}


async def read_log(settings: Settings, order: LogOrder, told: OnRead) -> tuple[list[str], bytes | None]:
    """Read the order of the range from the log; -> (notices for a person, the settings digest of the log's writer).

    Raises StateError for a record that cannot be read, BrokerError, BrokerTrouble.
    """
    name = settings.topics.log
    partition = TopicPartition(name, 0)
    step = "reading the log"
    async with RangeReader(settings, {}, step) as asking:
        held = await asking.held([partition])
    first, end = held[partition]
    digest, foreign = None, 0
    unread, skipped, ended = dict[int, DamagedRecord](), set[int](), False
    async with RangeReader(settings, held, step, "read_uncommitted") as reader:
        async for fetched in reader.batches():
            for record in () if ended else fetched.get(partition, ()):
                try:
                    logged = decode(record.value or b"", name, record.offset)
                except DamagedRecord as error:
                    unread[record.offset] = error
                    continue
                foreign += logged.foreign
                skipped |= {logged.skips} if logged.skips is not None else set()
                ended = logged.handover is not None and logged.handover.closed
                if ended:
                    break  # What is behind it is judged by nobody (spotsieve migrate).
                if logged.foreign or logged.configuration is not None or logged.handover is not None:
                    continue
                digest = logged.settings_digest
                order.add(logged.signatures)
                order.forget(logged.forgotten)
                order.commit(logged.committed)
            told(step, reader.positions[partition] - first, end - first)
    stopping = [error for offset, error in unread.items() if offset not in skipped]
    if stopping:
        raise stopping[0]
    notices = []
    if foreign:
        notices.append(f"{foreign:,} records of the log {name} are none of ours, and were passed over")
    if first:
        notices.append(f"the log {name} begins at record {first:,}: what it had before is judged by timestamp")
    elif first == end:
        notices.append(f"the log {name} is empty: all pages are judged by timestamp")
    return notices, digest


async def read_recorded(
    settings: Settings, facts: Mapping[str, TopicFacts], order: LogOrder, recorded: RecordedOutcomes, told: OnRead
) -> list[str]:
    """Read the recorded verdicts; -> notices for a person.

    facts: those of the output topics that exist, by role. Reports are read first. Only they name a duplicate's
    original, and under mode = "annotate" a duplicate is in topics.novel, too. And a duplicate that no output could hold
    was reported before it became a dead letter.
    """
    notices = []
    for role in ("duplicates", "novel", "rejected"):
        name = getattr(settings.topics, role)
        if role not in facts:
            notices.append(f"topics.{role} {name!r} does not exist: what it recorded is not known")
            continue
        partitions = [TopicPartition(name, number) for number in range(facts[role].partitions)]
        step = f"reading {name}"
        async with RangeReader(settings, {}, step) as asking:
            held = await asking.held(partitions)
        total = sum(end - first for first, end in held.values())
        if any(first for first, _ in held.values()):
            notices.append(f"{name} has lost its first messages (retention): what they recorded is not known")
        async with RangeReader(settings, held, step) as reader:
            async for fetched in reader.batches():
                for records in fetched.values():
                    for record in records:
                        _note(role, record, order, recorded)
                told(step, total - sum(end - reader.positions[at] for at, (_, end) in held.items()), total)
    return notices


def _note(role: str, message: ConsumerRecord, order: LogOrder, recorded: RecordedOutcomes) -> None:
    """Note what one message of the outputs says."""
    if role == "duplicates":
        _note_report(message.value or b"", recorded)
        return
    # The last header of a name is ours: a page may bring the headers of another filter.
    headers = dict(message.headers)
    place = _place(recorded, headers.get("spotsieve-page"))
    if place is None:
        # A tombstone that passed has no page id.
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
    """The partition and offset that a message names as the original of its page, or as the page that it replaces."""
    found = page_of_id(page) if isinstance(page, str) else None
    if found is None:
        return UNKNOWN_ORIGINAL
    return found[1:] if found[0] == recorded.places.topic else OTHER_TOPIC


def _place(recorded: RecordedOutcomes, page: object) -> int | None:
    """The place of a page id: OUTSIDE where it is not in the range, None where the text is not a page id."""
    found = page_of_id(_text(page)) if isinstance(page, (bytes, str)) else None
    return None if found is None else recorded.places.of_page(*found)


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
