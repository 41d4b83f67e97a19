"""What the service sends is compressed beside the event loop, keeps tombstones, and has times, on a real broker."""

import asyncio
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.kafka.clients import output_producer
from spotsieve.stream.kafka.driver import prepared_batch
from tests.conftest import Broker, Topics
from tests.fixtures.brokers.topics import TopicSet, receive
from tests.fixtures.pages.crawls import PageMessage, html_of, json_page
from tests.fixtures.services.service import Spotsieve

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("transactional", [True, False])
async def test_batches_made_in_a_thread_are_taken_with_their_producer_s_number(
    kafka: Broker, topics: Topics, transactional: bool
) -> None:
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": kafka.bootstrap_servers}})
    topic = topics("prepared")
    producer = output_producer(settings, topic if transactional else None)
    await producer.start()
    sent = []
    try:
        for number, codec in enumerate(CODECS):
            batch = prepared_batch.PreparedBatch(900_000, codec, transactional=transactional)
            values = [html_of(10 * number + row).encode() for row in range(5)]
            for value in values:
                batch.append(timestamp=1_700_000_000_000, key=b"k", value=value, headers=[("codec", codec.encode())])
            await asyncio.to_thread(batch.prepare)
            if transactional:
                await producer.begin_transaction()
            await (await producer.send_batch(batch, topic, partition=0))
            if transactional:
                await producer.commit_transaction()
            sent += values
    finally:
        await producer.stop()
    read = await receive(kafka.bootstrap_servers, [TopicPartition(topic, 0)], len(sent), 60)
    assert [record.value for record in read] == sent
    assert {record.timestamp for record in read} == {1_700_000_000_000}


@pytest.mark.timeout(300)
async def test_no_output_is_compressed_by_the_event_loop(
    kafka: Broker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, (number, gzip_encode) = list[threading.Thread](), prepared_batch.CODECS["gzip"]

    def encode(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return gzip_encode(*arguments)

    monkeypatch.setitem(prepared_batch.CODECS, "gzip", (number, encode))
    settings = Settings.model_validate(
        {"kafka": {"bootstrap_servers": kafka.bootstrap_servers}, "service": {"compression": "gzip"}}
    )
    topic = topics("compressed")
    producer = output_producer(settings, None)
    await producer.start()
    try:
        batch = prepared_batch.PreparedBatch(900_000, "gzip", transactional=False)
        batch.append(timestamp=0, key=None, value=html_of(1).encode(), headers=[])
        await asyncio.to_thread(batch.prepare)
        await (await producer.send_batch(batch, topic, partition=0))
    finally:
        await producer.stop()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def send_untimed(topics: TopicSet, messages: list[PageMessage]) -> None:
    """Messages without a time, as clients of the first formats send them."""
    async with AIOKafkaProducer(bootstrap_servers=topics.servers) as producer:
        batch = BatchBuilder(900_000, 0)
        for message in messages:
            batch.append(timestamp=-1, key=message.key, value=message.value, headers=[])
        batch.close()
        await (await producer.send_batch(batch, topics.names["input"], partition=0))


@pytest.mark.timeout(600)
def test_untimed_messages_move_the_horizon_and_a_large_tombstone_stays_one(kafka: Broker, tmp_path: Path) -> None:
    key = b"a key as long as a message " * 60_000
    with (
        TopicSet(kafka.bootstrap_servers, config={"max.message.bytes": "1000000"}) as topics,
        TopicSet(kafka.bootstrap_servers) as usual,
        Spotsieve(
            tmp_path,
            topics.toml().replace(topics.names["log"], usual.names["log"])
            + "index.horizon_hours = 1\nlog.summary_seconds = 1\n",
        ) as service,
    ):
        service.start().until_ready()
        asyncio.run(send_untimed(topics, [json_page(number, html_of(number)) for number in range(3)]))
        topics.send([PageMessage(key, None)], compression_type="zstd")
        service.until_committed(4)
        service.until_metric("spotsieve_watermark_seconds", 1_700_000_000)
        assert service.metric("spotsieve_future_times_total") == 0
        assert service.terminate() == 0, service.text()
        written = {record.key: record.value for record in topics.read("novel")}
        assert len(written) == 4
        assert written[key] is None


MOST_BYTES = 1_048_588
"""max.message.bytes, Kafka's default."""
STRICT = {"compression.type": "uncompressed", "message.timestamp.before.max.ms": "3600000"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("guarantee", "compression", "config", "rejected"),
    [
        ("exactly_once", "gzip", {}, 0),
        ("at_least_once", "none", STRICT, 1),
    ],
)
def test_pages_that_outputs_would_refuse_stop_no_worker(
    kafka: Broker, tmp_path: Path, guarantee: str, compression: str, config: dict[str, str], rejected: int
) -> None:
    """Just below the limit and not to be compressed; above it, for a topic that compresses nothing; dated long ago."""
    noise = random.Random(3)
    pages = [json_page(number, html_of(number)) for number in range(7)]
    # Their batches, with our headers, have from some 400 bytes less than the outputs take to as many as they take.
    short = [json_page(number, f"<p>{number}</p>") for number in range(4)]
    full = [
        replace(page, headers=(("noise", noise.randbytes(MOST_BYTES - len(page.value or b"") - room)),))
        for page, room in zip(short, (700, 440, 370, 330), strict=True)
    ]
    folded = json_page(4, html_of(4), more="x" * 2_000_000)
    old = replace(pages[5], timestamp_ms=978_307_200_000)
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        TopicSet(kafka.bootstrap_servers, config=config) as outputs,
    ):
        toml = topics.toml() + f'service.guarantee = "{guarantee}"\nservice.compression = "{compression}"\n'
        for role in ("novel", "duplicates", "rejected"):
            toml = toml.replace(topics.names[role], outputs.names[role])
        with Spotsieve(tmp_path, toml) as service:
            topics.send([*full, old, pages[6]])
            topics.send([folded], compression_type="gzip")
            service.start()
            service.until_committed(7)
            assert service.terminate() == 0, service.text()
        novel, dead = outputs.read("novel"), outputs.read("rejected")
    assert (len(novel), len(dead)) == (7 - rejected, rejected)
    assert {len(dict(record.headers)["noise"]) for record in novel[:4]} == {len(page.headers[0][1]) for page in full}
    (passed,) = [record for record in novel if record.value == old.value]
    assert (passed.timestamp == old.timestamp_ms) is (not config)
    assert passed.timestamp == old.timestamp_ms or abs(passed.timestamp / 1000 - time.time()) < 300
    assert [dict(record.headers)["spotsieve-reason"] for record in dead] == [b"too_large"] * rejected


@pytest.mark.timeout(300)
def test_messages_without_keys_pass_into_compacted_outputs(kafka: Broker, topics: Topics, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as made:
        toml = made.toml()
        for role in ("novel", "duplicates", "rejected"):
            compacted = topics(role, config={"cleanup.policy": "compact"})
            toml, made.names[role] = toml.replace(made.names[role], compacted), compacted
            made.made.remove(role)
        page = json_page(1, html_of(1)).value
        with Spotsieve(tmp_path, toml) as service:
            made.send([PageMessage(None, page), PageMessage(None, page), PageMessage(None, b"no json")])
            service.start().until_ready()
            made.until_all_committed()
            assert service.terminate() == 0, service.text()
        for offset, role in enumerate(("novel", "duplicates", "rejected")):
            (record,) = made.read(role)
            assert record.key == f"{made.names['input']}/0/{offset}".encode()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["filter", "annotate"])
def test_a_page_that_no_output_can_hold_is_no_original_of_later_pages(kafka: Broker, tmp_path: Path, mode: str) -> None:
    page, later = json_page(0, html_of(0)), json_page(1, html_of(0))
    # The input takes it; with our headers it exceeds the limit of the output, and it cannot be compressed.
    noise = random.Random(3).randbytes(MOST_BYTES - len(page.value or b"") - 120)
    large = PageMessage(None, page.value, (("noise", noise),))
    with TopicSet(kafka.bootstrap_servers) as topics:
        with Spotsieve(tmp_path, topics.toml() + f'service.mode = "{mode}"\n') as service:
            topics.send([large])
            topics.send([later, json_page(2, html_of(0))])
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
            assert main(["replay", "-c", str(service.config), "--fail-on-difference"]) == 0
        novel, reports, dead = (topics.read(role) for role in ("novel", "duplicates", "rejected"))
    assert [dict(record.headers)["spotsieve-reason"] for record in dead] == [b"too_large"]
    assert novel[0].key == later.key
    assert [len(novel), len(reports)] == ([2, 1] if mode == "annotate" else [1, 1])


@pytest.mark.timeout(300)
def test_pages_older_than_the_retention_of_outputs_are_not_deleted_at_once(tmp_path: Path) -> None:
    prepare()
    month_ms = 30 * 86_400_000
    written_ms = int(time.time() * 1000) - month_ms
    pages = [replace(json_page(number, html_of(number % 5)), timestamp_ms=written_ms + number) for number in range(8)]
    often = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
    with (
        LocalKafka(settings=often) as broker,
        TopicSet(broker.bootstrap_servers) as topics,
        TopicSet(broker.bootstrap_servers, config={"retention.ms": str(7 * 86_400_000)}) as outputs,
    ):
        toml = topics.toml()
        for role in ("novel", "duplicates", "rejected"):
            toml = toml.replace(topics.names[role], outputs.names[role])
        with Spotsieve(tmp_path, toml) as service:
            topics.send([*pages, PageMessage(b"k", b"no json", timestamp_ms=written_ms)])
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
            time.sleep(3)  # Time itself: the broker looks for old messages several times.
        assert {role: len(outputs.read(role)) for role in ("novel", "duplicates", "rejected")} == {
            "novel": 5,
            "duplicates": 3,
            "rejected": 1,
        }
