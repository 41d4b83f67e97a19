"""Trouble with broker or state ends in one clear line and its exit code, and loses no page."""

import resource
import socket
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_SETTING, EXIT_STATE
from tests.conftest import Broker
from tests.fixtures.brokers.listeners import NOBODY
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet, header
from tests.fixtures.pages.crawls import PageMessage, crawl, html_of, json_page
from tests.fixtures.services.service import Spotsieve


def test_an_empty_topic_is_waited_on_and_stopping_is_clean(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.start().until_ready()
        assert service.metric("spotsieve_pages_total") == 0
        topics.send(crawl(3).messages)
        service.until_committed(3)
        assert service.terminate() == 0, service.text()


@pytest.mark.parametrize("role", ["input", "novel", "duplicates", "rejected", "log"])
def test_a_missing_topic_is_named_with_the_command_that_makes_it(kafka: Broker, tmp_path: Path, role: str) -> None:
    with TopicSet(kafka.bootstrap_servers, leave_out=[role]) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        assert service.run_to_end() == EXIT_SETTING
        line = service.error()
        assert f"topics.{role}" in line
        assert topics.names[role] in line
        assert "spotsieve topics create" in line


def test_a_log_with_several_partitions_is_refused(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=3) as topics:
        toml = topics.toml().replace(topics.names["log"], topics.names["rejected"] + "x")
        toml = toml.replace(f'rejected = "{topics.names["rejected"]}"', f'rejected = "{topics.names["log"]}"')
        toml = toml.replace(topics.names["rejected"] + "x", topics.names["rejected"])
        with Spotsieve(tmp_path, toml) as service:
            assert service.run_to_end() == EXIT_SETTING
            assert "must have one partition" in service.error()


@pytest.mark.parametrize("command", [("run",), ("topics", "check"), ("topics", "create")])
def test_a_broker_that_is_not_there_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    toml = f'kafka.bootstrap_servers = "{NOBODY}"\nmetrics.port = 0\nmetrics.host = "127.0.0.1"\n'
    with Spotsieve(tmp_path, toml, command=command) as service:
        assert service.run_to_end() == EXIT_BROKER
        line = service.error()
        assert "kafka.bootstrap_servers" in line
        assert NOBODY in line
        assert "check" in line


@pytest.mark.parametrize(
    "address",
    ["localhost:kafka", "no-such-host.invalid:9092", ":::", "http://localhost:9092", ",", "h:99999", "a..b:9092"],
)
def test_an_address_that_is_none_is_named(tmp_path: Path, address: str) -> None:
    toml = f'kafka.bootstrap_servers = "{address}"\nmetrics.port = 0\nmetrics.host = "127.0.0.1"\n'
    with Spotsieve(tmp_path, toml, command=("topics", "check")) as service:
        assert service.run_to_end() in {EXIT_BROKER, EXIT_SETTING}
        line = service.error()
        assert "kafka.bootstrap_servers" in line
        assert address in line


def test_a_port_that_speaks_no_kafka_is_no_broker(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        toml = f'kafka.bootstrap_servers = "{address}"\nkafka.request_timeout_ms = 1500\nmetrics.port = 0\n'
        with Spotsieve(tmp_path, toml, command=("topics", "check")) as service:
            assert service.run_to_end() == EXIT_BROKER
            assert address in service.error()


@pytest.mark.timeout(900)
def test_a_message_of_50_mb_passes_unchanged_and_unchecked(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, config={"max.message.bytes": str(64 * 2**20)}) as topics:
        huge = json_page(1, html_of(1) + "<p>" + "word and the page " * (50 * 2**20 // 18))
        assert huge.value is not None
        assert len(huge.value) > 50 * 2**20
        topics.send([json_page(0, html_of(0)), huge, json_page(2, html_of(2)), huge])
        with Spotsieve(tmp_path, topics.toml()) as service:
            service.start().until_ready()
            service.until_committed(4)
            assert service.metric("spotsieve_pages_total", reason="not_text") == 1
            assert service.metric("spotsieve_pages_total", reason="exact") == 1
            assert service.terminate() == 0, service.text()
        novel = topics.read("novel")
        assert [record.key for record in novel] == [b"https://crawl.example/%d" % number for number in range(3)]
        assert novel[1].value == huge.value
        assert header(novel[1], "spotsieve-verdict") == b"unchecked"


def test_outputs_that_cannot_hold_the_inputs_largest_message_are_refused_at_start(
    kafka: Broker, tmp_path: Path
) -> None:
    large, small = (
        TopicSet(kafka.bootstrap_servers, config={"max.message.bytes": str(size)}) for size in (8 * 2**20, 2**20)
    )
    with large, small:
        toml = small.toml().replace(small.names["input"], large.names["input"])
        with Spotsieve(tmp_path, toml) as service:
            assert service.run_to_end() == EXIT_SETTING
            line = service.error()
            assert "max.message.bytes" in line
            assert small.names["novel"] in line


def test_messages_at_the_limit_and_their_dead_letters_fit_and_stop_nothing(kafka: Broker, tmp_path: Path) -> None:
    limit = 2**20
    with TopicSet(kafka.bootstrap_servers, config={"max.message.bytes": str(limit)}) as topics:
        page, broken = json_page(1, html_of(1)), json_page(2, html_of(2))
        assert page.value is not None
        assert broken.value is not None
        # The broker takes all of these; with the headers of a verdict or a reason they would be too large.
        padded = page.value[:-1] + b" " * (limit - len(page.value) - 250) + b"}"
        cut = broken.value[:-1] + b" " * (limit - len(broken.value) - 600)
        long_key = b"k" * (limit - 3_000)
        sent = [
            PageMessage(page.key, padded, page.headers),
            PageMessage(broken.key, cut, broken.headers),
            PageMessage(long_key, b"no JSON" * 300),
            PageMessage(long_key, json_page(4, html_of(4)).value),
            PageMessage(long_key, json_page(5, html_of(4)).value),
            json_page(6, html_of(6), more="https://crawl.example/" + "x" * 500_000),
            PageMessage(b"far", json_page(7, html_of(6)).value, (), None),
        ]
        for message in sent:
            topics.send([message])
        with Spotsieve(tmp_path, topics.toml() + 'service.mode = "annotate"\n') as service:
            service.start().until_ready()
            service.until_committed(len(sent))
            assert service.terminate() == 0, service.text()
        letters = {header(letter, "spotsieve-page") or b"": letter for letter in topics.read("rejected")}
        assert sorted(letters) == [f"{topics.names['input']}/0/{offset}".encode() for offset in (1, 2)]
        assert {header(letter, "spotsieve-reason") for letter in letters.values()} == {b"not_json"}
        novel = topics.read("novel")
        assert len(novel) == 5
        assert novel[0].value == padded
        assert len(topics.read("duplicates")) == 2


def test_a_page_that_only_fits_its_topic_compressed_passes_unchanged(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics:
        large = json_page(1, html_of(1) + "<p>" + "word and the page " * (5 * 2**20 // 18))
        topics.send([json_page(0, html_of(0)), large, json_page(2, html_of(2))], compression_type="zstd")
        with Spotsieve(tmp_path, topics.toml()) as service:
            service.start().until_ready()
            service.until_committed(3)
            assert service.terminate() == 0, service.text()
        assert [record.value for record in topics.read("novel")][1] == large.value


def test_a_log_that_cannot_take_our_records_is_refused_at_start(kafka: Broker, tmp_path: Path) -> None:
    limited = TopicSet(kafka.bootstrap_servers, config={"max.message.bytes": "500000"})
    with limited as topics, Spotsieve(tmp_path, topics.toml()) as service:
        assert service.run_to_end() == EXIT_SETTING
        line = service.error()
        assert topics.names["log"] in line
        assert "max.message.bytes" in line


@pytest.mark.guarantee("no page is lost silently", fault="the log or an output is compacted while the service runs")
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_topic_compacted_under_a_service_stops_it_and_a_restart_says_what_to_do(
    kafka: Broker, tmp_path: Path, guarantee: str
) -> None:
    pages = [PageMessage(None, page.value) for page in crawl(60, copies_percent=0).messages]
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + f'service.guarantee = "{guarantee}"\n'
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            topics.send(pages[:20])
            service.until_committed(20)
            for role, sent in (("novel", pages[20:40]), ("log", pages[40:])):
                topics.configure(role, cleanup_policy="compact")
                topics.send(sent)
                assert service.wait() == EXIT_BROKER, service.text()
                assert "was probably compacted while the service ran" in service.error()
                assert "set its cleanup.policy=delete first" in service.error()
                if role == "novel":
                    service.start().until_ready()
                    topics.until_all_committed()
            assert service.run_to_end() == EXIT_SETTING
            assert "topics.log must not be compacted" in service.error()
            topics.configure("log", cleanup_policy="delete")
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
        assert sorted(record.value for record in topics.read("novel")) == sorted(page.value or b"" for page in pages)


def test_outputs_with_a_small_limit_get_smaller_batches(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(400, seed=11)
    limited = {"max.message.bytes": "20000"}
    with TopicSet(kafka.bootstrap_servers, config=limited) as small, TopicSet(kafka.bootstrap_servers) as usual:
        toml = small.toml().replace(small.names["log"], usual.names["log"])
        for first in range(0, 400, 10):
            small.send(pages.messages[first : first + 10])
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            service.until_committed(400)
            assert service.terminate() == 0, service.text()
        assert len(small.read("novel")) + len(small.read("duplicates")) == 400


def test_a_state_directory_belongs_to_one_process(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics:
        shared = topics.toml() + f'index.directory = "{tmp_path / "state"}"\n'
        with Spotsieve(tmp_path, shared, "first") as first, Spotsieve(tmp_path, shared, "second") as second:
            first.start().until_ready()
            assert second.run_to_end() == EXIT_STATE
            line = second.error()
            assert str(tmp_path / "state") in line
            assert "another" in line
            assert "stop the other" in line
            # The first is not disturbed.
            topics.send(crawl(5).messages)
            first.until_committed(5)
            assert first.terminate() == 0


def test_a_state_path_that_is_a_file_is_refused(kafka: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    toml = f'kafka.bootstrap_servers = "{kafka.bootstrap_servers}"\nmetrics.port = 0\nmetrics.host = "127.0.0.1"\n'
    with Spotsieve(tmp_path, toml + f'index.directory = "{tmp_path / "file"}"\n') as service:
        assert service.run_to_end() == EXIT_STATE
        assert str(tmp_path / "file") in service.error()


@pytest.mark.guarantee(
    "other settings than those of the state or log are rejected, and the error names them",
    fault="the service's settings changed",
)
def test_another_configuration_on_a_state_is_refused_with_what_differs(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        topics.send(crawl(5).messages)
        service.start().until_ready()
        service.until_committed(5)
        assert service.terminate() == 0
        service.toml += "scheme.min_features = 3\nservice.batch_pages = 7\n"
        assert service.run_to_end() == EXIT_STATE
        line = service.error()
        assert "scheme.min_features is 8 in the state and 3 in the configuration" in line
        assert "batch_pages" not in line, "what only changes speed is no difference"
        assert "index.directory" in line


@pytest.mark.guarantee(
    "other settings than those of the state or log are rejected, and the error names them",
    fault="the service's settings and state changed, the log did not",
)
def test_another_configuration_on_a_log_is_refused_even_with_a_new_state(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics:
        with Spotsieve(tmp_path, topics.toml(), "first") as first:
            topics.send(crawl(5).messages)
            first.start().until_ready()
            first.until_committed(5)
            assert first.terminate() == 0
        with Spotsieve(tmp_path, topics.toml() + "scheme.min_containment = 0.4\nscheme.minima = 6\n", "other") as other:
            assert other.run_to_end() == EXIT_STATE
            assert topics.names["log"] in other.error()


def test_a_full_disk_stops_the_service_and_loses_no_page(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(3_000, seed=6)
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.start().until_ready()
        # No file of the process may grow beyond this: RocksDB fails as on a full disk, with EFBIG for ENOSPC.
        resource.prlimit(service.alive.pid, resource.RLIMIT_FSIZE, (128 * 2**10, 128 * 2**10))
        topics.send(pages.messages)
        assert service.wait() == EXIT_STATE, service.text()
        line = service.error()
        assert "index.directory" in line
        assert "raise the limit of file sizes (ulimit -f)" in line
        # There is room again: everything continues where it stopped.
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        through = [record.key for record in (*topics.read("novel"), *topics.read("duplicates"))]
        assert sorted(through) == sorted(pages.articles)


def test_a_state_ahead_of_its_log_is_refused(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        topics.send(crawl(5).messages)
        service.start().until_ready()
        service.until_committed(5)
        assert service.terminate() == 0
        topics.recreate("log")
        assert service.run_to_end() == EXIT_STATE
        line = service.error()
        assert topics.names["log"] in line
        assert "delete the index of the state" in line


def test_metrics_on_a_port_in_use_are_refused(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Spotsieve(tmp_path, topics.toml().replace("metrics.port = 0", f"metrics.port = {port}")) as service:
            assert service.run_to_end() == EXIT_SETTING
            line = service.error()
            assert "metrics.port" in line
            assert str(port) in line


@pytest.mark.timeout(900)
def test_pages_that_retention_removed_are_reported_and_the_rest_is_read(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        pages = crawl(40, copies_percent=0).messages
        topics.send(pages[:10])
        service.start().until_ready()
        service.until_committed(10)
        assert service.terminate() == 0
        topics.send(pages[10:30])
        topics.delete_before("input", 20)
        topics.send(pages[30:])
        service.start().until_ready()
        service.until_committed(20)
        assert service.metric("spotsieve_expired_messages_total") == 10
        assert any("retention" in str(line.get("event")) for line in service.lines())
        assert service.terminate() == 0
        keys = [record.key for record in topics.read("novel")]
        assert keys == [page.key for page in (*pages[:10], *pages[20:])]
