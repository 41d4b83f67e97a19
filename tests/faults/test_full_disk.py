"""On a disk that is really full (a small tmpfs) the service stops cleanly with a whole state, and goes on later."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.state.store.opening import disk_state
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_STATE, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.small_disk import SmallDisk
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import RECORDS, apply_log, open_state


def judged(path: Path) -> list[tuple[str, str, str | None]]:
    """A page that was judged before the disk was full finds its first attempt: the verdict is the same."""
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return [(line["id"], line["verdict"], line["duplicate_of"]) for line in lines]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk") as disk:
        yield disk


@pytest.mark.guarantee(
    "a full disk stops the filter cleanly; with free space it continues where it stopped",
    fault="the disk fills below `spotsieve filter`",
)
@pytest.mark.timeout(900)
def test_a_filter_stops_cleanly_on_a_full_disk_and_goes_on_with_the_same_verdicts(
    disk: SmallDisk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, expected = tmp_path / "pages.jsonl", tmp_path / "expected.jsonl"
    pages.write_bytes(b"".join(message.value + b"\n" for message in crawl(4_000, seed=8).messages if message.value))
    small = ["--set", "service.batch_pages=50", "--set", "index.write_buffer_mb=1"]
    assert main(["filter", str(pages), "--verdicts", str(expected), *small]) == 0
    for kib in (300, 700, 1_500):
        state, verdicts = disk.path / str(kib), tmp_path / f"{kib}.jsonl"
        disk.resize(kib)
        capsys.readouterr()
        arguments = ["filter", str(pages), "--state", str(state), "--verdicts", str(verdicts), *small]
        assert main(arguments) == EXIT_STATE
        printed = capsys.readouterr().err
        assert "no space left" in printed.lower()
        assert "free disk space" in printed
        assert "Traceback" not in printed
        assert not verdicts.exists()
        disk.resize(65_536)
        assert main(arguments) == 0
        assert judged(verdicts) == judged(expected)
        assert verify(state).damaged == 0
        subprocess.run(["rm", "-r", state], check=True)


@pytest.mark.guarantee(
    "a full disk stops the filter cleanly; with free space it continues where it stopped",
    fault="the disk fills below `spotsieve run`",
)
@pytest.mark.timeout(900)
def test_a_service_stops_cleanly_on_a_full_disk_and_goes_on_where_it_stopped(
    kafka: Broker, disk: SmallDisk, tmp_path: Path
) -> None:
    pages = crawl(4_000, seed=9)
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml() + f'index.directory = "{disk.path / "state"}"\nservice.batch_pages = 50\n'
        with Spotsieve(tmp_path, toml) as service:
            disk.resize(65_536)
            service.start().until_ready()
            disk.resize(400)
            topics.send(pages.messages)
            assert service.wait() == EXIT_STATE, service.text()
            line = service.error()
            assert "index.directory must have room to grow" in line
            assert "free disk space and start again: the state is intact" in line
            disk.resize(65_536)
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
        through = [record.key for record in (*topics.read("novel"), *topics.read("duplicates"))]
        assert sorted(through) == sorted(pages.articles)
        settings = settings_from(toml)
        text = verdict_settings_text(settings)
        assert verify(disk.path / "state").damaged == 0
        _, in_memory = judge_again(toml, topics.read("log"), topics.names["log"])
        with disk_state(disk.path / "state", text, topics.names["log"], settings.index) as state:
            assert first_difference(state, in_memory) is None


def test_a_snapshot_without_room_is_refused_and_leaves_nothing(disk: SmallDisk, tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state:
        apply_log(tmp_path / "state", 0, RECORDS, state)
    target = disk.path / "snapshot"
    with pytest.raises(StateError, match=r"TARGET must be a directory that can be made: No space left") as refused:
        take_snapshot(tmp_path / "state", target)
    assert "free disk space" in str(refused.value)
    assert list(disk.path.iterdir()) == []
    disk.resize(65_536)
    assert take_snapshot(tmp_path / "state", target).log_position == RECORDS
    assert verify(target).damaged == 0
    disk.resize(max(64, sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) // 1024 + 200))
    assert main(["state", "restore", str(target), "--state", str(disk.path / "restored")]) == EXIT_STATE
    assert not (disk.path / "restored" / "index").exists()
    disk.resize(65_536)
    assert main(["state", "restore", str(target), "--state", str(disk.path / "restored")]) == 0
