"""Reads pages from the input topic, and verdicts from the output topics, without a consumer group.

`save_pages` writes the newest pages to a file for `review`, `sample`, `calibrate` and `filter`:

    line = {"id", "url", "fetched_at", "content_type", "body"}

id is the page's label or topic/partition/offset, as in verdicts and reports. Pages are in the order of their messages'
timestamps. `read_verdicts` reads all published verdicts for `clusters`. Neither commits an offset.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.verdict_lines import line_id, page_line
from spotsieve.stream.insight.clusters.grouping import DUPLICATE, OriginalRef, Statement, read_statement
from spotsieve.stream.kafka.ranges import RangeReader, partitions_of, read_spans, spans_held
from spotsieve.stream.kafka.topics import topic_facts
from spotsieve.stream.service.pages.microbatch import input_message
from spotsieve.stream.sign.intake import Decoder

_ROLES = ("novel", "duplicates")
"""Novel pages come first, so that the first page of a cluster is a novel one."""


class SaveCounts(NamedTuple):
    """pages: saved pages  others: messages without a text page"""

    pages: int
    others: int


async def save_pages(settings: Settings, out: OutputFile, limit: int, say: Callable[[str], None]) -> SaveCounts:
    """Write the text pages among the newest messages of every partition, about `limit` messages in all.

    say: called with the progress. Raises SettingError (no such topic, or an empty one), BrokerError, BrokerTrouble.
    """
    topic = settings.topics.input
    facts = await topic_facts(settings, [topic])
    if topic not in facts:
        raise SettingError("topics.input", "does not exist on the broker", topic, "set it to the topic of the pages")
    partitions, isolation = partitions_of(topic, facts[topic].partitions), settings.kafka.isolation_level
    ranges = await spans_held(settings, partitions, f"looking at {topic}", isolation)
    per_partition = -(-limit // len(partitions))
    spans = {partition: (max(first, end - per_partition), end) for partition, (first, end) in ranges.items()}
    total = sum(end - first for first, end in spans.values())
    if not total:
        raise SettingError("topics.input", "has no messages", topic, "set it to the topic of the pages")
    decoder, lines, others = Decoder(settings.input), list[tuple[int, int, int, bytes]](), 0
    async with RangeReader(settings, spans, f"reading {topic}", isolation) as reader:
        async for fetched in reader.batches():
            for record in (record for records in fetched.values() for record in records):
                line = _line_of(record, decoder)
                if line is None:
                    others += 1
                else:
                    lines.append((record.timestamp, record.partition, record.offset, line))
            say(f"reading {topic}: {len(lines) + others:,} of {total:,}")
    for *_, line in sorted(lines):
        out.write_line(line)
    return SaveCounts(len(lines), others)


def _line_of(record: ConsumerRecord, decoder: Decoder) -> bytes | None:
    """The line of a message; None if it has no text page."""
    message = input_message(record, 0)
    try:
        page = None if record.value is None else decoder.decode(message)
    except PageError:
        return None
    if page is None or not page.judgeable or not page.body:
        return None
    return page_line(line_id(page), page.url, page.event_time_ms, page.markup, page.body.decode("utf-8", "replace"))


async def read_verdicts(settings: Settings, take: Callable[[Statement], None], on_progress: OnProgress) -> int:
    """Call `take` with each verdict in the topics of novel pages and duplicates; -> number of messages without one.

    Pages are named by their page ids. Raises SettingError (a topic is missing), BrokerError, BrokerTrouble.
    """
    facts = await topic_facts(settings, [getattr(settings.topics, role) for role in _ROLES])
    decoder, others = Decoder(settings.input), 0
    for role in _ROLES:
        name = getattr(settings.topics, role)
        if name not in facts:
            raise SettingError(
                f"topics.{role}", "does not exist on the broker", name, "set it to the topic of the service"
            )
        step = f"reading {name}"
        spans = await spans_held(settings, partitions_of(name, facts[name].partitions), step)
        async with aclosing(read_spans(settings, spans, step, on_progress)) as messages:
            async for message in messages:
                if message.value is None:
                    continue  # a tombstone is no page
                emitted = role == "novel"
                statement = _header_statement(message, decoder) if emitted else read_statement(message.value)
                if statement is None:
                    others += 1
                elif not emitted or statement.verdict != DUPLICATE:
                    take(statement)  # with mode = "annotate" a duplicate is in both topics
    return others


def _header_statement(message: ConsumerRecord, decoder: Decoder) -> Statement | None:
    """The verdict in the headers of an emitted page; None if the headers are not from Spotsieve."""
    # The last header of a name counts: the page may already have headers from another filter.
    headers = {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers}
    page, verdict = headers.get("spotsieve-page", ""), headers.get("spotsieve-verdict", "")
    if not page or not verdict:
        return None
    replaces = headers.get("spotsieve-replaces-page", "")
    originals = (OriginalRef(replaces, ""),) if replaces else ()
    return Statement(page, _url(message, decoder), verdict, originals, replaces)


def _url(record: ConsumerRecord, decoder: Decoder) -> str:
    """The URL of a page; "" if these settings cannot decode the message."""
    try:
        return decoder.decode(input_message(record, 0)).url
    except PageError:
        return ""
