"""Snapshots of the running service: taken while it files pages, restored after kill -9, caught up from the log."""

import shutil
from pathlib import Path

import pytest

from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.state.store.opening import disk_state
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_STATE
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference

SNAPSHOT_SECONDS = 240


@pytest.mark.guarantee(
    "a restored snapshot catches up with the log, byte-identical", fault="kill -9 of the service, its disk is lost"
)
@pytest.mark.timeout(900)
def test_a_snapshot_of_a_running_service_is_restored_after_kill_9_and_catches_up(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(6_000, seed=12).messages
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml(KILLED_SESSION_MS) + "service.batch_pages = 64\n") as service,
    ):
        service.start().until_ready()
        topics.send(pages[:3_000])
        service.until_metric("spotsieve_log_position", 5)
        first = take_snapshot(service.state, tmp_path / "first", SNAPSHOT_SECONDS)
        topics.send(pages[3_000:])
        second = take_snapshot(service.state, tmp_path / "second", SNAPSHOT_SECONDS)
        assert 0 < first.log_position <= second.log_position
        assert sum("made a checkpoint" in str(line.get("event")) for line in service.lines()) == 2
        service.until_committed(4_000)
        service.kill()
        # The disk is lost; the snapshot is not.
        shutil.rmtree(service.state)
        assert verify(tmp_path / "first").damaged == 0
        assert main(["state", "restore", str(tmp_path / "first"), "--state", str(service.state)]) == 0
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        settings = settings_from(service.toml)
        text = verdict_settings_text(settings)
        _, in_memory = judge_again(service.toml, topics.read("log"), topics.names["log"])
        with disk_state(service.state, text, topics.names["log"], settings.index) as state:
            assert state.entry_count > first.entries
            assert first_difference(state, in_memory) is None


@pytest.mark.guarantee(
    "a log that lacks a part is rejected; the error names the range and the choice",
    fault="retention removed what the state needs",
)
@pytest.mark.timeout(900)
def test_a_log_that_retention_has_cut_is_refused_with_the_range_and_the_choice(kafka: Broker, tmp_path: Path) -> None:
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml() + "service.batch_pages = 10\n") as service,
    ):
        topics.send(crawl(60, seed=13).messages)
        service.start().until_ready()
        service.until_committed(60)
        assert service.terminate() == 0
        snapshot = take_snapshot(service.state, tmp_path / "snapshot")
        kept = tmp_path / "kept"
        shutil.move(service.state, kept)
        topics.delete_before("log", 3)
        assert snapshot.log_position > 3
        assert service.run_to_end() == EXIT_STATE
        line = service.error()
        assert f"log {topics.names['log']}" in line
        assert "offsets 0..2 are gone" in line
        assert "spotsieve state restore" in line
        assert "start with another log" in line
        # A snapshot that is new enough needs only the rest of the log.
        shutil.rmtree(service.state, ignore_errors=True)
        assert main(["state", "restore", str(tmp_path / "snapshot"), "--state", str(service.state)]) == 0
        service.start().until_ready()
        assert service.terminate() == 0, service.text()


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="bytes flipped below a service")
@pytest.mark.timeout(900)
def test_a_service_on_a_damaged_state_stops_and_judges_nothing_by_it(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        pages = crawl(400, seed=14).messages
        topics.send(pages)
        service.start().until_ready()
        service.until_committed(400)
        assert service.terminate() == 0
        for table in (service.state / "index").glob("*.sst"):
            content = bytearray(table.read_bytes())
            for place in range(20, len(content) - 2_000, 500):
                content[place] ^= 0x10
            table.write_bytes(content)
        topics.send(pages)
        assert service.run_to_end() == EXIT_STATE
        assert ".sst" in service.error()
        assert topics.uncommitted() == 400
        assert len(topics.read("duplicates")) + len(topics.read("novel")) == 400
        # Rebuilt from the log, it goes on where it stopped.
        shutil.rmtree(service.state / "index")
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        assert len(topics.read("duplicates")) + len(topics.read("novel")) == 800
