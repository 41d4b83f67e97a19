"""The parts of the local broker that can be tested without a broker: jars, ports, settings, watchdog."""

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import jgo
import pytest

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.demo.localkafka import LocalKafka, jars, prepare, watchdog
from spotsieve.stream.demo.localkafka.broker import (
    HIGHEST_PORT,
    LOWEST_PORT,
    free_port,
    is_free,
    serves_clients,
    write_properties,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = tmp_path / "spotsieve"
    directory.mkdir()
    return directory


@pytest.fixture
def no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("the registry was asked")

    monkeypatch.setattr(jgo, "build", refuse)


def fill(cache: Path) -> None:
    directory = cache / f"kafka-{jars.KAFKA_VERSION}"
    directory.mkdir()
    for name in jars._locked_digests():
        (directory / name).touch()
    jars.startup_cache().touch()


@pytest.mark.usefixtures("no_registry")
def test_a_second_preparation_uses_no_registry_and_prints_nothing(cache: Path) -> None:
    fill(cache)
    messages: list[str] = []
    prepare(messages.append)
    assert messages == []


@pytest.mark.usefixtures("cache", "no_registry")
def test_an_unreachable_registry_is_reported_with_the_next_step() -> None:
    with pytest.raises(BrokerError, match="connect to the network") as caught:
        prepare(lambda _: None)
    assert "the registry was asked" in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_jar_with_another_digest_is_rejected_and_nothing_is_stored(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, digest = next(iter(jars._locked_digests().items()))

    def resolve(scratch: Path) -> list[Path]:
        scratch.mkdir()
        (scratch / name).write_bytes(b"something else")
        return [scratch / name]

    monkeypatch.setattr(jars, "_resolve", resolve)
    with pytest.raises(BrokerError, match=digest) as caught:
        prepare(lambda _: None)
    assert hashlib.sha256(b"something else").hexdigest() in str(caught.value)
    assert not (cache / f"kafka-{jars.KAFKA_VERSION}").exists()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("version", "named"), [("4.1.0", "43 MB, 7 s at 50"), ("3.9.1", "44 MB, 7 s at 50")])
def test_the_size_and_the_duration_of_the_download_are_named_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, version: str, named: str
) -> None:
    messages: list[str] = []

    def resolve(_: Path) -> list[Path]:
        assert [named in line for line in messages] == [True]
        raise BrokerError("the registry", "was asked")

    monkeypatch.setenv(jars.RELEASE_VARIABLE, version)
    monkeypatch.setattr(jars, "_resolve", resolve)
    with pytest.raises(BrokerError, match="was asked"):
        prepare(messages.append)
    assert messages[0].startswith(f"fetching Apache Kafka {version}, once: ")


@pytest.mark.parametrize("version", jars.RELEASES)
def test_the_lock_file_has_a_digest_for_every_jar(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.RELEASE_VARIABLE, version)
    locked = jars._locked_digests()
    assert f"kafka_2.13-{version}.jar" in locked
    assert all(len(digest) == 64 for digest in locked.values())
    assert len(set(locked.values())) == len(locked)


def test_a_free_port_is_below_the_ephemeral_range() -> None:
    port = free_port()
    assert LOWEST_PORT <= port < HIGHEST_PORT
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert not is_free(port)
        assert free_port(taken=port) != port


@pytest.mark.usefixtures("cache")
def test_an_occupied_port_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "classpath", list)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"is in use on 127.0.0.1, got {port}"):
            LocalKafka(tmp_path, port=port).start()


def test_a_release_without_a_lock_file_is_rejected_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.RELEASE_VARIABLE, "2.8.0")
    with pytest.raises(BrokerError, match=r"SPOTSIEVE_LOCAL_KAFKA must be one of 4\.1\.0, 3\.9\.1"):
        prepare(lambda _: None)


def test_the_classic_coordinator_is_chosen_where_kafka_has_two(tmp_path: Path) -> None:
    for classic in (False, True):
        write_properties(tmp_path / "p", tmp_path, 1, 2, {}, classic=classic)
        assert ("group.coordinator.rebalance.protocols=classic" in (tmp_path / "p").read_text("utf-8")) is classic


def test_settings_of_the_caller_override_ours(tmp_path: Path) -> None:
    write_properties(tmp_path / "p", tmp_path, 1, 2, {"node.id": "7", "message.max.bytes": "60000000"})
    written = dict(line.split("=", 1) for line in (tmp_path / "p").read_text("utf-8").splitlines())
    assert written["node.id"] == "7"
    assert written["message.max.bytes"] == "60000000"
    assert written["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"


def test_a_server_that_is_not_a_broker_does_not_count_as_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not serves_clients("127.0.0.1", silent.getsockname()[1], timeout_s=0.2)


def test_a_broker_that_does_not_start_is_reported() -> None:
    for act in (LocalKafka().kill, LocalKafka().pause, LocalKafka().resume, LocalKafka().restart):
        with pytest.raises(BrokerError, match="is not running"):
            act()


@pytest.mark.parametrize(("goodbye", "survives"), [(b"stopped\n", True), (b"", False)])
def test_the_watchdog_kills_when_its_owner_vanishes_but_not_after_a_goodbye(
    tmp_path: Path, goodbye: bytes, survives: bool
) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    # Time itself: it lives no longer, whatever becomes of the test.
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as broker:
        command = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(broker.pid), str(directory)]
        subprocess.run(command, input=goodbye, check=True, timeout=240)
        if survives:
            assert broker.poll() is None
            broker.kill()
        else:
            assert broker.wait(timeout=240) == -9
    assert directory.exists() == survives
