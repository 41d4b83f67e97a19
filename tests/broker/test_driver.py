"""The Kafka driver with and without its performance patches, and clients of other code beside it, on a real broker."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from spotsieve.stream.kafka.driver.clients import KafkaConsumer
from spotsieve.stream.kafka.driver.patches import AS_SHIPPED, PERFORMANCE
from tests.conftest import Broker
from tests.fixtures.brokers.odd_headers import AnyName
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve

LEFT_OUT = "a performance patch of the Kafka driver is left out"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_without_performance_patches_every_page_has_its_verdict(
    kafka: Broker, tmp_path: Path, guarantee: str, compression: str
) -> None:
    pages = crawl(300, seed=4)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + f'service.guarantee = "{guarantee}"\nservice.compression = "{compression}"\n'
        with Spotsieve(tmp_path, toml, environment={AS_SHIPPED: "1"}) as service:
            topics.send(pages.messages)
            service.start().until_ready()
            topics.until_all_committed()
            for patch in PERFORMANCE:
                assert service.metric("spotsieve_driver_patch", patch=patch.name) == 0
            skipped = [line["patch"] for line in service.lines() if line["event"] == LEFT_OUT]
            assert skipped == [patch.name for patch in PERFORMANCE]
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, toml, pages.articles)


def test_a_consumer_of_other_code_reads_as_shipped_beside_ours(kafka: Broker) -> None:
    async def read(consumer: AIOKafkaConsumer) -> list[tuple[str, bytes]]:
        async with consumer:
            return list((await consumer.getone()).headers)

    with TopicSet(kafka.bootstrap_servers) as topics:
        where = {"bootstrap_servers": topics.servers, "auto_offset_reset": "earliest"}

        async def read_both() -> None:
            async with AIOKafkaProducer(bootstrap_servers=topics.servers) as producer:
                batch = producer.create_batch()
                # The compiled builder checks names.
                batch._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, 10**6)
                batch.append(timestamp=0, key=b"key", value=b"value", headers=[(AnyName("b\xffad"), b"content")])
                await (await producer.send_batch(batch, topics.names["input"], partition=0))
            assert await read(KafkaConsumer(topics.names["input"], **where)) == [("b\\xffad", b"content")]
            with pytest.raises(UnicodeDecodeError):
                await read(AIOKafkaConsumer(topics.names["input"], **where))

        asyncio.run(read_both())
