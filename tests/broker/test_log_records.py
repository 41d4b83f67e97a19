"""The log topic as others leave it: records of strangers, of a second configuration, and damaged ones."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import EXIT_SETTING, EXIT_STATE
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from tests.conftest import REPOSITORY, Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, html_of, json_page
from tests.fixtures.services.oracle import check_verdicts_sent, judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.waiting import START_SECONDS, wait_until
from tests.reference.signatures import one_page

STRANGERS = (b"", None, b"{}", b"\xf5sp", b'{"url":"https://a.example/","body":"<p>a page"}', bytes(1000))


def write(topics: TopicSet, values: Sequence[bytes | None], transaction: str | None = None) -> None:
    """Write to the log as a stranger: the end of a transaction leaves a marker that no reader sees as a record."""

    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=topics.servers, transactional_id=transaction)
        async with producer:
            if transaction is not None:
                await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topics.names["log"], value, key=b"k", partition=0)
            if transaction is not None:
                await producer.commit_transaction()

    asyncio.run(send())


def pages(first: int, count: int) -> list[PageMessage]:
    """Each second page is a copy of the one before it, and those of two hundreds are copies of each other."""
    numbers = range(first, first + count)
    return [json_page(number, html_of(number % 100 // 2, template=number % 2)) for number in numbers]


def skip_record(service: Spotsieve, offset: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "spotsieve.stream", "topics", "skip-record", "-c", str(service.config)]
    return subprocess.run([*command, "--offset", str(offset)], cwd=REPOSITORY, capture_output=True, check=False)


def check_state_of_log(topics: TopicSet, service: Spotsieve, *states: Path) -> None:
    """Check that these states equal the states that the log gives, byte for byte."""
    settings = settings_from(service.toml)
    text, log = verdict_settings_text(settings), topics.names["log"]
    _, in_memory = judge_again(service.toml, topics.read("log"), log)
    for directory in states:
        with disk_state(directory, text, log, settings.index) as state:
            assert first_difference(state, in_memory) is None


@pytest.mark.timeout(900)
@pytest.mark.guarantee(
    "every reader of a log reaches the same verdicts", fault="others write to the log, with and without transactions"
)
def test_records_of_strangers_are_passed_over_by_every_reader(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        write(topics, STRANGERS)
        first, second = pages(0, 20), pages(105, 20)
        service.start().until_ready()
        topics.send(first)
        topics.until_all_committed()
        write(topics, STRANGERS, "stranger")
        topics.send(second)
        topics.until_all_committed()
        assert service.metric("spotsieve_log_skipped_records_total", why="foreign") == 2 * len(STRANGERS)
        warnings = [
            line for line in service.lines() if "a log record that another program wrote" in str(line.get("event"))
        ]
        assert [(line["offset"], line["bytes"], line["log"]) for line in warnings] == [(0, 0, topics.names["log"])]
        # The log ends with a marker, which moves its end and is no record: a start must not wait for one.
        write(topics, STRANGERS[:1], "stranger")
        assert service.terminate() == 0, service.text()
        old = tmp_path / "old"
        shutil.copytree(service.state, old)
        third = pages(210, 20)
        topics.send(third)
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        kept = tmp_path / "kept"
        shutil.move(service.state, kept)
        service.start().until_ready()
        assert service.terminate() == 0, service.text()
        fresh = tmp_path / "fresh"
        shutil.move(service.state, fresh)
        shutil.move(old, service.state)
        service.start().until_ready()
        assert service.terminate() == 0, service.text()
        check_state_of_log(topics, service, kept, fresh, service.state)
        check_verdicts_sent(topics, service.toml, [page.key or b"" for page in (*first, *second, *third)])


@pytest.mark.timeout(900)
@pytest.mark.guarantee(
    "other settings than those of the state or log are rejected, and the error names them",
    fault="two configurations start together on an empty log",
)
def test_of_two_configurations_on_an_empty_log_the_first_holds_and_the_other_stops(
    kafka: Broker, tmp_path: Path
) -> None:
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml(), "one") as one,
        Spotsieve(tmp_path, topics.toml() + "scheme.min_features = 3\n", "other") as other,
    ):
        workers = (one.start(), other.start())
        wait_until(
            lambda: any(worker.alive.poll() is not None for worker in workers), START_SECONDS, "one of them to stop"
        )
        (stopped,) = [worker for worker in workers if worker.alive.poll() is not None]
        (holds,) = [worker for worker in workers if worker is not stopped]
        assert stopped.alive.returncode == EXIT_STATE
        values = ("3", "8") if holds is other else ("8", "3")
        assert "scheme.min_features is {} in the log and {} in the configuration".format(*values) in stopped.error()
        holds.until_ready()
        first = decode(topics.read("log")[0].value)
        assert first.configuration == verdict_settings_text(settings_from(holds.toml))
        topics.send(pages(0, 10))
        topics.until_all_committed()
        assert holds.terminate() == 0, holds.text()
        # Now the other one's configuration certainly comes to the log behind the first.
        assert stopped.run_to_end() == EXIT_STATE
        log = topics.read("log")
        assert len([record for record in log if decode(record.value).configuration is not None]) <= 2
        holds.start().until_ready()
        assert holds.terminate() == 0, holds.text()
        check_state_of_log(topics, holds, holds.state)


@pytest.mark.timeout(900)
@pytest.mark.guarantee("every reader of a log reaches the same verdicts", fault="a record of the log is damaged")
def test_a_damaged_record_stops_every_worker_until_the_log_says_to_pass_over_it(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.start().until_ready()
        topics.send(pages(0, 20))
        topics.until_all_committed()
        digest = digest_of_settings(settings_from(service.toml))
        record = bytearray(encode(one_page(), bytes(16), 0, digest))
        record[90] ^= 1
        write(topics, [bytes(record)])
        assert service.wait(START_SECONDS) == EXIT_STATE
        (offset,) = [found.offset for found in topics.read("log") if found.value == record]
        command = f"spotsieve topics skip-record --offset {offset} -c FILE"
        assert "must end in its xxh3-64 checksum" in service.error()
        assert command in service.error()
        # Also a worker that has no state yet.
        kept = tmp_path / "kept"
        shutil.move(service.state, kept)
        assert service.run_to_end(START_SECONDS) == EXIT_STATE
        assert command in service.error()
        for wrong, why in ((0, b"this one is valid"), (offset + 1, b"of a record in the log")):
            refused = skip_record(service, wrong)
            assert refused.returncode == EXIT_SETTING, refused.stderr
            assert why in refused.stderr
        done = skip_record(service, offset)
        assert done.returncode == 0, done.stderr
        topics.send(pages(110, 20))
        service.start().until_ready()
        topics.until_all_committed()
        assert service.metric("spotsieve_log_skipped_records_total", why="skipped") == 1
        assert service.terminate() == 0, service.text()
        fresh = tmp_path / "fresh"
        shutil.move(service.state, fresh)
        shutil.move(kept, service.state)
        service.start().until_ready()
        assert service.terminate() == 0, service.text()
        settings = settings_from(service.toml)
        text, log = verdict_settings_text(settings), topics.names["log"]
        with (
            disk_state(service.state, text, log, settings.index) as old,
            disk_state(fresh, text, log, settings.index) as rebuilt,
        ):
            assert first_difference(old, rebuilt) is None
