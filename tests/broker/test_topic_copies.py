"""Topics with three copies survive a broker, and a log that one broker can lose is warned of, on real clusters."""

import asyncio
import uuid
from pathlib import Path

import pytest

from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.cli import main
from spotsieve.stream.kafka.topics import topic_facts, topic_names
from tests.conftest import Broker
from tests.fixtures.brokers.cluster import three_brokers


def written(path: Path, servers: str) -> Path:
    """A configuration with topics of its own."""
    roles = ("input", "novel", "duplicates", "rejected", "log")
    names = [f'topics.{role} = "{role}-{uuid.uuid4().hex[:8]}"' for role in roles]
    path.write_text("\n".join([*names, f'kafka.bootstrap_servers = "{servers}"', 'log.format = "json"', ""]), "utf-8")
    return path


@pytest.mark.timeout(600)
def test_topics_of_three_copies_are_written_to_two_brokers_and_are_not_warned_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with three_brokers() as broker:
        config = written(tmp_path / "three.toml", broker.bootstrap_servers)
        create = ["topics", "create", "-c", str(config), "--partitions", "1", "--replication", "3"]
        assert main(create) == 0
        settings = load_settings(config, {}, {})
        facts = asyncio.run(topic_facts(settings, list(topic_names(settings.topics).values())))
        assert {(fact.replication, fact.settings["min.insync.replicas"]) for fact in facts.values()} == {(3, "2")}
        assert "the loss of one broker" not in capfd.readouterr().err


@pytest.mark.timeout(600)
def test_a_log_of_one_copy_is_warned_of_by_the_check(
    kafka: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path / "one.toml", kafka.bootstrap_servers)
    assert main(["topics", "create", "-c", str(config), "--partitions", "1"]) == 0
    capfd.readouterr()
    assert main(["topics", "check", "-c", str(config)]) == 0
    assert "the loss of one broker loses the log" in capfd.readouterr().err
