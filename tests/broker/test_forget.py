"""Forgetting through a real log topic: the running service, one that starts later, and a state that is rebuilt."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spotsieve.state.log.record import encode_configuration
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_NOT_FOUND, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.base.settings.digest import verdict_settings_text
from tests.conftest import REPOSITORY, Broker
from tests.fixtures.brokers.listeners import NOBODY
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, html_of, json_page, url_of
from tests.fixtures.services.oracle import judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference


def novel(topics: TopicSet) -> list[str]:
    return [record.key.decode() for record in topics.read("novel")]


def copy_of(article: int, number: int) -> PageMessage:
    return json_page(number, html_of(article, template=number % 5))


def run(service: Spotsieve, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "spotsieve.stream", "state", "forget", "-c", str(service.config), *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)


def forget(service: Spotsieve, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run(service, "--json", *arguments)
    assert done.returncode == code, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.guarantee(
    "the next copy of a forgotten page is novel", fault="spotsieve state forget while the service runs"
)
@pytest.mark.guarantee("every reader of the log forgets the same pages", fault="the state directory is deleted")
@pytest.mark.timeout(900)
def test_a_page_is_forgotten_by_a_running_service_and_a_state_rebuilt_from_the_log(
    kafka: Broker, tmp_path: Path
) -> None:
    # With a log that forgets: the warning of it must not come among what a program reads.
    kept_for = {"retention.ms": str(10**13)}
    with TopicSet(kafka.bootstrap_servers, config=kept_for) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.start().until_ready()
        topics.send([copy_of(article, article) for article in range(1, 9)] + [copy_of(1, 101), copy_of(2, 102)])
        service.until_committed(10)
        assert service.metric("spotsieve_pages_total", verdict="duplicate") == 2
        report = forget(service, "--url", url_of(1))
        assert [found["url"] for found in report["found"]] == [url_of(1)]
        assert report["log"] == topics.names["log"]
        service.until_metric("spotsieve_forgotten_pages_total", 1)
        (logged,) = [line for line in service.lines() if line.get("event") == "forgot pages"]
        assert (logged["record"], logged["pages"], logged["forgotten_before"]) == (report["records"][0], 1, 0)
        assert logged["ids"] == [report["found"][0]["page"]]
        topics.send([copy_of(1, 201), copy_of(2, 202), copy_of(1, 203)])
        service.until_committed(13)
        assert novel(topics) == [url_of(number) for number in (*range(1, 9), 201)]
        # Named once more, it is not there: but the copy is, which is the original now.
        assert forget(service, "--url", url_of(1), code=EXIT_NOT_FOUND)["records"] == []
        # By its id, as reports have it, while no service runs; the next start forgets it.
        reports = [json.loads(record.value) for record in topics.read("duplicates")]
        original = reports[-1]["duplicate_of"]
        assert original["url"] == url_of(201)
        assert service.terminate() == 0, service.text()
        assert forget(service, "--id", original["id"])["found"][0]["url"] == url_of(201)
        service.start().until_ready()
        assert service.metric("spotsieve_forgotten_pages_total") == 1
        topics.send([copy_of(1, 301), copy_of(3, 302)])
        service.until_committed(2)
        assert novel(topics)[9:] == [url_of(301)]
        assert service.terminate() == 0, service.text()
        kept = tmp_path / "kept"
        shutil.move(service.state, kept)
        service.start().until_ready()
        assert service.terminate() == 0, service.text()
        settings = settings_from(service.toml)
        text, log = verdict_settings_text(settings), topics.names["log"]
        _, in_memory = judge_again(service.toml, topics.read("log"), log)
        with (
            disk_state(kept, text, log, settings.index) as before,
            disk_state(service.state, text, log, settings.index) as rebuilt,
        ):
            assert first_difference(before, rebuilt) is None
            assert first_difference(rebuilt, in_memory) is None


@pytest.mark.timeout(900)
def test_forgetting_is_refused_where_the_topic_is_not_the_log_of_the_state(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        topics.send([copy_of(article, article) for article in range(1, 4)])
        service.start().until_ready()
        service.until_committed(3)
        assert service.terminate() == 0
        topics.recreate("log")

        def refused(code: int, rule: bytes, *arguments: str) -> None:
            done = run(service, "--url", url_of(1), *arguments)
            assert done.returncode == code, done.stderr
            assert rule in done.stderr

        refused(EXIT_STATE, b"must reach the state's position")
        topics.send([PageMessage(None, encode_configuration("{}", bytes(16)))], "log")
        refused(EXIT_STATE, b"must follow the log that it was built from, which is")
        topics.recreate("log")
        topics.delete("log")
        refused(EXIT_SETTING, b"does not exist on the broker")
        refused(EXIT_BROKER, b"leads to no broker that responds", "--set", f"kafka.bootstrap_servers={NOBODY}")
        topics.recreate("log")
