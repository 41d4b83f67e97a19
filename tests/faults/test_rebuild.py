"""The state is a function of the log: a deleted directory comes back equal, whoever reads."""

import shutil
from pathlib import Path

import pytest

from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import verdict_settings_text
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference


def open_state(service: Spotsieve, topics: TopicSet, directory: Path) -> State:
    settings = settings_from(service.toml)
    return disk_state(directory, verdict_settings_text(settings), topics.names["log"], settings.index)


@pytest.mark.guarantee("a lost state is rebuilt from the log, byte-identical", fault="the state directory is deleted")
@pytest.mark.timeout(900)
def test_a_deleted_state_directory_is_rebuilt_equal_from_the_log(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        topics.send(crawl(3_000, seed=5).messages)
        with Spotsieve(tmp_path, topics.toml() + "service.batch_pages = 100\n") as service:
            service.start().until_ready()
            service.until_committed(3_000)
            assert service.terminate() == 0, service.text()
            kept = tmp_path / "kept"
            shutil.move(service.state, kept)
            service.start().until_ready()
            assert service.metric("spotsieve_log_position") == service.metric("spotsieve_log_end") > 0
            logged = {str(line["event"]): line for line in service.lines() if "event" in line}
            assert logged["rebuilding the state from the log"]["position"] == 0
            done = logged["caught up with the log"]
            assert done["position"] == done["end"] == done["records"] == service.metric("spotsieve_log_end")
            assert done["pages"] >= 3_000
            assert done["pages_per_second"] > 0
            assert service.terminate() == 0, service.text()
        with open_state(service, topics, kept) as before, open_state(service, topics, service.state) as after:
            assert before.entry_count > 1_000
            assert first_difference(before, after) is None
            _, in_memory = judge_again(service.toml, topics.read("log"), topics.names["log"])
            assert first_difference(after, in_memory) is None
        # It continues from there: copies of pages indexed before are still found.
        again = crawl(3_000, seed=5)
        topics.send(again.messages)
        with service:
            service.start().until_ready()
            service.until_committed(3_000)
            assert service.metric("spotsieve_pages_total", verdict="novel") == 0
            assert service.terminate() == 0
