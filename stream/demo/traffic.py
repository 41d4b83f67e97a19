"""Sends the demo's crawl to Kafka, reads the outputs, and compares them with the truth.

The comparison counts found and missed copies, and names pages that were lost or doubled.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.demo.articles import ArticleEdit
from spotsieve.stream.demo.crawl import HOME, RECRAWL, SYNDICATED, CrawlMessage
from spotsieve.stream.kafka.clients import administrator, client_options
from spotsieve.stream.kafka.driver.clients import KafkaConsumer, KafkaProducer
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topics import OUTPUT_ROLES, topic_facts

READ_TIMEOUT_S = 60.0
WEIGHT = {edit: weight for weight, edit in enumerate(ArticleEdit)}


@dataclass(frozen=True, slots=True)
class OutputMessages:
    """All committed messages of the three output topics."""

    novel: list[ConsumerRecord]
    duplicates: list[ConsumerRecord]
    rejected: list[ConsumerRecord]


async def send_crawl(settings: Settings, crawl: Sequence[CrawlMessage]) -> None:
    """Send the crawl to the input topic, keyed by URL. Raises BrokerError."""
    producer = KafkaProducer(**client_options(settings.kafka), acks="all", linger_ms=5, max_batch_size=2**18)
    try:
        await producer.start()
        for sent in crawl:
            await producer.send(settings.topics.input, sent.value, key=sent.key)
        await producer.flush()
    except KafkaError as error:
        raise explain_error(error, settings, "sending the crawl") from None
    finally:
        await producer.stop()


async def receive_outputs(settings: Settings) -> OutputMessages:
    """Every committed message of the output topics, ordered by partition and offset. Raises BrokerError."""
    names = [getattr(settings.topics, role) for role in OUTPUT_ROLES]
    facts = await topic_facts(settings, names)
    try:
        read = await asyncio.gather(*(_read_all(settings, name, facts[name].partitions) for name in names))
    except KafkaError as error:
        raise explain_error(error, settings, "reading the output") from None
    return OutputMessages(*read)


async def count_brokers(settings: Settings) -> int:
    """The number of brokers in the cluster. Raises BrokerError."""
    try:
        async with administrator(**client_options(settings.kafka)) as admin:
            cluster = await admin.describe_cluster()
            return len(cluster["brokers"])
    except KafkaError as error:
        raise explain_error(error, settings, "connecting") from None


async def delete_topics(settings: Settings, names: Sequence[str]) -> None:
    """Delete these topics. Raises BrokerError."""
    try:
        async with administrator(**client_options(settings.kafka)) as admin:
            await admin.delete_topics(list(names))
    except KafkaError as error:
        raise explain_error(error, settings, "deleting the demo's topics") from None


async def _read_all(settings: Settings, topic: str, number: int) -> list[ConsumerRecord]:
    consumer = KafkaConsumer(
        **client_options(settings.kafka),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, partition) for partition in range(number)]
        consumer.assign(partitions)
        ends = await _written_ends(settings, partitions)
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while [part for part in partitions if await consumer.position(part) < ends[part]]:
            for fetched in (await consumer.getmany(timeout_ms=100)).values():
                records += fetched
            if time.monotonic() > deadline:
                raise BrokerError(f"topic {topic!r}", f"could not be read to its end within {READ_TIMEOUT_S:.0f} s")
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        await consumer.stop()


async def _written_ends(settings: Settings, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions, including messages that cannot be read yet.

    A broker acknowledges a commit before it writes the markers. Until then the end that a read_committed consumer sees
    lies before committed messages.
    """
    consumer = KafkaConsumer(
        **client_options(settings.kafka), isolation_level="read_uncommitted", enable_auto_commit=False
    )
    await consumer.start()
    try:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return ends
    finally:
        await consumer.stop()


@dataclass(slots=True)
class DemoOutcome:
    """What the filter did with the planted copies.

    found, missed: number of copies, by how they differ from the page that represents the article
    lost: URLs of dropped pages whose article is not that of their original, or that have no article
    strays: URLs whose messages did not come out exactly once  reports: the parsed duplicate reports
    """

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether no page was lost, doubled, or dropped for the wrong reason."""
        return not self.lost and not self.strays


def compare(crawl: Sequence[CrawlMessage], received: OutputMessages) -> DemoOutcome:
    """Compare the outputs with the truth. Pages are identified by URL; a recrawl of a URL is the same page again."""
    outcome = DemoOutcome(reports=[orjson.loads(record.value) for record in received.duplicates])
    truth = {sent.url: sent for sent in crawl}
    dropped = [report["page"]["url"] for report in outcome.reports]
    emitted = [record.key.decode() for record in (*received.novel, *received.rejected)]
    outputs, inputs = Counter(dropped) + Counter(emitted), Counter(sent.url for sent in crawl)
    outcome.strays = sorted(url for url in outputs | inputs if outputs[url] != inputs[url])
    for report in outcome.reports:
        page, original = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
        if page.article is None or page.article != original.article:
            outcome.lost.append(page.url)
        else:
            outcome.found[difference(page, original)] += 1
    _count_missed(outcome, [truth[url] for url in emitted])
    return outcome


def difference(page: CrawlMessage, original: CrawlMessage) -> str:
    """How a pair differs: RECRAWL for the same URL, else the heavier of the two edits."""
    if page.url == original.url:
        return RECRAWL
    return max(page.edit, original.edit, key=lambda edit: WEIGHT[edit]).value


def article_count(crawl: Sequence[CrawlMessage]) -> int:
    """The number of distinct articles in the crawl."""
    return len({sent.article for sent in crawl if sent.kind in (HOME, SYNDICATED, RECRAWL)} - {None})


def _count_missed(outcome: DemoOutcome, emitted: Sequence[CrawlMessage]) -> None:
    """Count missed copies: all emitted pages of an article except the least edited one."""
    by_article: defaultdict[int, list[CrawlMessage]] = defaultdict(list)
    for sent in emitted:
        if sent.article is not None:
            by_article[sent.article].append(sent)
    for pages in by_article.values():
        original, *others = sorted(pages, key=lambda sent: (WEIGHT[sent.edit], sent.kind != HOME))
        for page in others:
            outcome.missed[difference(page, original)] += 1
