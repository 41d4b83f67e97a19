"""A worker joins its group only when the log's end, which moves on while it reads, is seconds away."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from spotsieve.state.log.record import LogRecord, encode
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import ApplyResult, Engine, open_engine
from spotsieve.stream.kafka.clients import pages_consumer
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.signature_log import SignatureLog
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet, send
from tests.fixtures.pages.crawls import PageMessage
from tests.reference.signatures import make_signatures, without_sketches

FIRST, MORE, LATER = 20, 60, 3
SLOW_SECONDS = 0.06


def records(engine: Engine, first: int, number: int) -> list[PageMessage]:
    """Log records of a page each, of another worker."""
    writer = os.urandom(16)
    pages = {n: without_sketches(make_signatures(1, seed=n, first=n)) for n in range(first, first + number)}
    return [PageMessage(None, encode(page, writer, n, engine.settings_digest), (), None) for n, page in pages.items()]


@pytest.mark.timeout(300)
async def test_records_that_come_while_the_log_is_read_are_read_before_the_worker_joins(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log grows by 3.6 s of reading when its first end is reached, and then by less than is waited for."""
    topics = await asyncio.to_thread(TopicSet(kafka.bootstrap_servers).__enter__)
    settings_file = tmp_path / "settings.toml"
    settings_file.write_text(topics.toml() + f'index.directory = "{tmp_path / "state"}"\n', "utf-8")
    settings = load_settings(settings_file, {}, {})
    engine = open_engine(settings, settings.topics.log)
    apply = engine.apply

    def slow_apply(record: bytes | LogRecord, offset: int) -> ApplyResult:
        time.sleep(SLOW_SECONDS)  # Time itself: the rest of the log is reported in seconds.
        for reached, number in ((FIRST, MORE), (FIRST + MORE, LATER)):
            if offset == reached - 1:
                topics.send(records(engine, reached, number), role="log")
        return apply(record, offset)

    monkeypatch.setattr(engine, "apply", slow_apply)
    await send(topics.servers, topics.names["log"], records(engine, 0, FIRST))
    metrics, messages, gaps = Metrics(), list[str](), list[float]()

    def progress(text: str) -> None:
        messages.append(text)
        gaps.append(metrics.registry.get_sample_value("spotsieve_log_gap_seconds") or 0.0)

    log = SignatureLog(settings, engine, bytes(16), metrics, Waits(metrics), Heartbeats())
    try:
        await log.start(progress)
        assert engine.state.position >= FIRST + MORE
        assert any(f"of {FIRST + MORE}" in text for text in messages), "it says the gap to the new end"
        assert max(gaps) > 0
        assert metrics.registry.get_sample_value("spotsieve_log_gap_seconds") == 0
    finally:
        await log.close()
        engine.state.close()
        await asyncio.to_thread(topics.__exit__, None)


async def test_the_group_s_patience_with_a_worker_that_takes_no_page_is_a_setting() -> None:
    settings = Settings.model_validate({"kafka": {"max_poll_interval_ms": 123_000}})
    consumer = pages_consumer(settings)
    assert consumer._max_poll_interval_ms == 123_000
    await consumer.stop()
