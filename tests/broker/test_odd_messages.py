"""Messages that Kafka takes and nobody expects: each comes out once, and the page behind them is judged."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.odd_headers import AnyName
from tests.fixtures.brokers.topics import TopicSet, header
from tests.fixtures.pages.crawls import PageMessage, html_of
from tests.fixtures.services.service import Spotsieve

MOST_BYTES = 1_048_588
"""max.message.bytes, Kafka's default."""
LONG_URL = "https://" + "a" * 400_000 + "@long.example/"


def message(number: int, url: str = "", **fields: Any) -> bytes:
    page = {"id": f"p{number}", "url": url or f"https://a.example/{number}", "body": html_of(number), **fields}
    return json.dumps(page).encode()


async def send_by_hand(servers: str, topic: str, value: bytes, headers: list[tuple[str, bytes | None]]) -> None:
    """A record whose header names are whatever bytes: no client of Java's could write it, librdkafka could."""
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        batch = BatchBuilder(MOST_BYTES, 0, is_transactional=0)
        batch._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, MOST_BYTES)
        batch.append(timestamp=1_700_000_000_000, key=None, value=value, headers=headers)
        batch.close()
        await (await producer.send_batch(batch, topic, partition=0))


def at_the_limit(number: int) -> PageMessage:
    """A message whose batch has exactly the bytes that the topic takes; with our headers it has more."""
    overhead = 61 + 20  # of a batch, and of a record of this size without key and headers
    value = message(number, more="")
    return PageMessage(None, value[:-2] + b"x" * (MOST_BYTES - overhead - len(value)) + value[-2:])


@pytest.mark.timeout(900)
@pytest.mark.guarantee(
    "hostile input crashes nothing",
    fault="headers with names of any bytes, of megabytes, null; bombs in compressed batches",
)
def test_odd_messages_come_out_once_each_and_the_page_behind_them_is_judged(kafka: Broker, tmp_path: Path) -> None:
    plain = [
        PageMessage(b"k", message(2), tuple((f"h{n}", b"12345") for n in range(20_000))),
        PageMessage(b"k", message(3), (("large", b"x" * 900_000),)),
        PageMessage(None, message(4), (("null", None), ("", b""))),  # type: ignore[arg-type]
        PageMessage(b"", message(5)),
        at_the_limit(6),
        PageMessage(b"k", message(7, LONG_URL)),
        PageMessage(b"k" * 500_000, message(8, LONG_URL, body=html_of(7, template=2))),
    ]
    folded = [
        PageMessage(b"k", message(9, more="x" * 5_000_000)),
        PageMessage(b"k", message(10, body=" " * 40_000_000)),
        PageMessage(b"k", message(11), (("large", b"x" * 5_000_000),)),
    ]
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        bad = [(AnyName("b\xffad"), b"one"), ("null", None)]
        asyncio.run(send_by_hand(topics.servers, topics.names["input"], message(1), bad))
        topics.send(plain)
        topics.send(folded, compression_type="gzip")
        topics.send([PageMessage(b"k", message(12))])
        service.start()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        for command in (["clusters", "--topics"], ["replay"], ["topics", "save", str(tmp_path / "pages.jsonl")]):
            assert main([*command, "-c", str(service.config)]) == 0, command
        novel, duplicates, rejected = (topics.read(role) for role in ("novel", "duplicates", "rejected"))
    pages = [header(record, "spotsieve-page") for record in (*novel, *rejected)]
    pages += [orjson.loads(report.value)["page"]["id"].encode() for report in duplicates]
    assert len(set(pages)) == len(pages) == 12
    (first,) = [record for record in novel if orjson.loads(record.value)["id"] == "p1"]
    assert [name for name, _ in first.headers[:2]] == ["b\\xffad", "null"]
    assert (header(first, "b\\xffad"), header(first, "null")) == (b"one", None)
    (report,) = duplicates
    assert len(orjson.loads(report.value)["page"]["url"]) == 2048
    assert report.key is None
    # a page whose header of 5 MB came in compressed goes out compressed, and whole
    assert not rejected
    (heavy,) = [record for record in novel if orjson.loads(record.value)["id"] == "p11"]
    assert header(heavy, "large") == b"x" * 5_000_000
    reasons = {orjson.loads(record.value)["id"]: header(record, "spotsieve-reason") for record in novel}
    assert reasons.pop("p10") == b"not_text"
    assert set(reasons.values()) == {b"no_match"}
    assert "p12" in reasons
