"""The local broker is a real one: it serves, survives faults, and never outlives its owner."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.demo.localkafka import LocalKafka
from spotsieve.stream.demo.localkafka.broker import serves_clients
from tests.conftest import REPOSITORY, Broker, Topics
from tests.fixtures.waiting import SECONDS, wait_until

OWNER = """
import sys, time
from spotsieve.stream.demo.localkafka import LocalKafka
kafka = LocalKafka()
kafka.start()
print(kafka.pid, kafka.directory, flush=True)
time.sleep(600)  # Time itself: it lives no longer, whatever becomes of the test.
"""


async def send(servers: str, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def receive(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        return [(await asyncio.wait_for(consumer.getone(), SECONDS)).value or b"" for _ in range(count)]
    finally:
        await consumer.stop()


async def test_what_was_sent_is_read_back(kafka: Broker, topics: Topics) -> None:
    topic = topics("echo", partitions=1)
    await send(kafka.bootstrap_servers, topic, [b"one", b"two"])
    assert await receive(kafka.bootstrap_servers, topic, 2) == [b"one", b"two"]


async def test_transactions_commit_on_one_node(kafka: Broker, topics: Topics) -> None:
    topic = topics("transactions")
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"id-of-{topic}")
    async with producer, producer.transaction():
        await producer.send_and_wait(topic, b"committed")
    assert await receive(kafka.bootstrap_servers, topic, 1) == [b"committed"]


def test_a_misspelt_topic_is_not_made_by_accident(own_kafka: LocalKafka) -> None:
    settings = (own_kafka.directory / "server.properties").read_text("utf-8")
    assert "auto.create.topics.enable=false" in settings


def test_a_killed_broker_keeps_port_and_data_over_a_restart(own_kafka: LocalKafka) -> None:
    servers = own_kafka.bootstrap_servers
    cluster = (own_kafka.directory / "data" / "meta.properties").read_text("utf-8")
    own_kafka.kill()
    assert own_kafka.pid is None
    own_kafka.start()
    assert own_kafka.bootstrap_servers == servers
    assert (own_kafka.directory / "data" / "meta.properties").read_text("utf-8") == cluster
    own_kafka.restart()
    assert own_kafka.bootstrap_servers == servers


def test_a_paused_broker_answers_nothing_until_resumed(own_kafka: LocalKafka) -> None:
    own_kafka.pause()
    assert not serves_clients("127.0.0.1", own_kafka.port, timeout_s=0.5)
    own_kafka.resume()
    wait_until(lambda: serves_clients("127.0.0.1", own_kafka.port), SECONDS, "a resumed broker to respond")


def test_stopping_removes_the_brokers_own_directory() -> None:
    kafka = LocalKafka()
    with kafka:
        directory = kafka.directory
        assert directory.is_dir()
    assert not directory.exists()
    assert kafka.pid is None


def test_a_directory_of_the_callers_is_kept(tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka"):
        pass
    assert (tmp_path / "kafka" / "data" / "meta.properties").is_file()


def test_no_broker_outlives_an_owner_killed_outright() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        broker = psutil.Process(int(pid))
        os.kill(owner.pid, signal.SIGKILL)
    broker.wait(timeout=SECONDS)
    wait_until(lambda: not Path(directory).exists(), SECONDS, "its directory to go")


def test_a_broker_that_cannot_start_says_why_with_the_end_of_its_log(tmp_path: Path) -> None:
    kafka = LocalKafka(tmp_path, settings={"num.io.threads": "none"})
    with pytest.raises(BrokerError, match=r"num\.io\.threads"):
        kafka.start()
    assert kafka.pid is None


def test_the_foreground_broker_ends_with_a_signal() -> None:
    command = [sys.executable, "-m", "spotsieve.stream.demo.localkafka", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=SECONDS) == 0
    assert "Ctrl-C stops it" in line
