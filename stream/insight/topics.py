"""Saves the newest pages of the input topic to a file: what `review`, `sample`, `calibrate` and `filter` read.

    line = {"id", "url", "fetched_at", "content_type", "body"}

id is the page's own name or topic/partition/offset, as in verdicts and reports. Pages stand in the order of their
messages' timestamps. Nothing is committed, and the broker keeps no trace.

Reads the output topics of a service as they are now: what became of every page.
"""

from collections.abc import Callable
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.verdict_lines import page_line
from spotsieve.stream.insight.clusters.grouping import DUPLICATE, OriginalRef, Statement, read_statement
from spotsieve.stream.kafka.ranges import RangeReader
from spotsieve.stream.kafka.topics import topic_facts
from spotsieve.stream.sign.intake import Decoder, Message


class SaveCounts(NamedTuple):
    """How many pages were saved, and how many messages are no text page."""

    pages: int
    others: int


async def save_pages(settings: Settings, out: OutputFile, most: int, told: Callable[[str], None]) -> SaveCounts:
    """Write the newest messages of every partition, about `most` in all, as far as they are text pages.

    told: is told how far it has come. Raises SettingError (no such topic, nothing in it), BrokerError, BrokerTrouble.
    """
    topic = settings.topics.input
    facts = await topic_facts(settings, [topic])
    if topic not in facts:
        raise SettingError("topics.input", "does not exist on the broker", topic, "name the topic of the pages")
    partitions = [TopicPartition(topic, number) for number in range(facts[topic].partitions)]
    isolation = settings.kafka.isolation_level
    async with RangeReader(settings, {}, f"looking at {topic}", isolation) as reader:
        held = await reader.held(partitions)
    each = -(-most // len(partitions))
    spans = {at: (max(first, end - each), end) for at, (first, end) in held.items()}
    total = sum(end - first for first, end in spans.values())
    if not total:
        raise SettingError("topics.input", "must hold messages, and holds none", topic, "name the topic of the pages")
    decoder, lines, others = Decoder(settings.input), list[tuple[int, int, int, bytes]](), 0
    async with RangeReader(settings, spans, f"reading {topic}", isolation) as reader:
        async for fetched in reader.batches():
            for record in (record for records in fetched.values() for record in records):
                line = _line_of(record, decoder)
                if line is None:
                    others += 1
                else:
                    lines.append((record.timestamp, record.partition, record.offset, line))
            told(f"reading {topic}: {len(lines) + others:,} of {total:,}")
    for *_, line in sorted(lines):
        out.write_line(line)
    return SaveCounts(len(lines), others)


def _line_of(record: ConsumerRecord, decoder: Decoder) -> bytes | None:
    """The line of a message; None where it is no text page."""
    written_ms = max(record.timestamp, 0)
    message = Message(
        record.key, record.value, record.headers, record.topic, record.partition, record.offset, written_ms
    )
    try:
        page = None if record.value is None else decoder.decode(message)
    except PageError:
        return None
    if page is None or not page.judgeable or not page.body:
        return None
    name = page.label or page_id_text(page.source, page.partition, page.offset)
    return page_line(name, page.url, page.event_time_ms, page.markup, page.body.decode("utf-8", "replace"))


_ROLES = ("novel", "duplicates")
"""Pages that were let through come first: so the first page of a cluster is one of these."""


async def read_verdicts(settings: Settings, take: Callable[[Statement], None], on_progress: OnProgress) -> int:
    """Hand what the topics of novel pages and of duplicates say to `take`; -> how many messages said nothing.

    Pages go by their page ids. Raises SettingError (a topic is not there), BrokerError, BrokerTrouble.
    """
    facts = await topic_facts(settings, [getattr(settings.topics, role) for role in _ROLES])
    decoder, others = Decoder(settings.input), 0
    for role in _ROLES:
        name = getattr(settings.topics, role)
        if name not in facts:
            raise SettingError(f"topics.{role}", "does not exist on the broker", name, "name the service's topic")
        partitions = [TopicPartition(name, number) for number in range(facts[name].partitions)]
        step = f"reading {name}"
        async with RangeReader(settings, {}, step) as asking:
            held = await asking.held(partitions)
        total = sum(end - first for first, end in held.values())
        async with RangeReader(settings, held, step) as reader:
            async for fetched in reader.batches():
                for message in (message for messages in fetched.values() for message in messages):
                    if message.value is None:
                        continue  # A tombstone that passed is no page.
                    passed = role == "novel"
                    statement = _passed(message, decoder) if passed else read_statement(message.value)
                    if statement is None:
                        others += 1
                    elif not passed or statement.verdict != DUPLICATE:
                        take(statement)  # With mode = "annotate" a duplicate passes, and is reported too.
                on_progress(step, total - sum(end - reader.positions[at] for at, (_, end) in held.items()), total)
    return others


def _passed(message: ConsumerRecord, decoder: Decoder) -> Statement | None:
    """What the headers of a page that was let through say; None where they are not ours."""
    # The last header of a name is ours: a page may bring the headers of another filter.
    headers = {name: value.decode("utf-8", "replace") for name, value in message.headers}
    page, verdict = headers.get("spotsieve-page", ""), headers.get("spotsieve-verdict", "")
    if not page or not verdict:
        return None
    replaces = headers.get("spotsieve-replaces-page", "")
    originals = (OriginalRef(replaces, ""),) if replaces else ()
    return Statement(page, _address(message, decoder), verdict, originals, replaces)


def _address(message: ConsumerRecord, decoder: Decoder) -> str:
    """The page's address; "" where the message cannot be read by these settings."""
    whole = Message(
        message.key, message.value, message.headers, message.topic, message.partition, message.offset, message.timestamp
    )
    try:
        return decoder.decode(whole).url
    except PageError:
        return ""
