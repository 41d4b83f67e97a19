"""Saves the newest pages of the input topic to a file: what `review`, `sample`, `calibrate` and `filter` read.

    line = {"id", "url", "fetched_at", "content_type", "body"}

id is the page's own name or topic/partition/offset, as in verdicts and reports. Pages stand in the order of their
messages' timestamps. Nothing is committed, and the broker keeps no trace.
"""

from collections.abc import Callable
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.errors import PageError, SettingError
from spotsieve.stream.files.objects import page_line
from spotsieve.stream.files.writer import OutputFile
from spotsieve.stream.intake import Decoder, Message
from spotsieve.stream.kafka.topic.ranges import RangeReader
from spotsieve.stream.kafka.topic.topics import topic_facts
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import page_id_text


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
