"""The metrics of a running service are there, move and are well named, and its port is safe."""

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl, edited, html_of, json_page
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS

RULES = '[{host = "crawl.example", scope = "global"}, {host = "nowhere.example", exempt = true}]'
"""The first changes no verdict, and the second matches no page."""


@dataclass(frozen=True)
class Live:
    """A ready service that has committed pages of every kind, and its metrics before them."""

    service: Spotsieve
    before: dict[str, Metric]


def families(service: Spotsieve) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(service.get("/metrics")[1])}


@pytest.fixture(scope="module")
def live(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml() + f"index.bucket_cap = 2\nrules = {RULES}\n"
        with Spotsieve(tmp_path_factory.mktemp("metrics"), toml) as service:
            service.start().until_ready()
            before = families(service)
            pages = crawl(200).messages
            odd = [
                PageMessage(b"gone", None),
                PageMessage(b"cut", b'{"url": "x", "bo'),
                json_page(900, "<p>too short"),
                json_page(901, "<p>too short"),
                json_page(902, ""),
                json_page(903, "\0\1\2\3" * 50),
                json_page(904, html_of(1), body_encoding="text"),
                json_page(905, edited(html_of(1))),
            ]
            topics.send([*pages, *odd])
            service.until_committed(len(pages) + len(odd))
            service.until_metric("spotsieve_state_entries", 100)
            yield Live(service, before)
            assert service.terminate() == 0
            (warning,) = [line for line in service.text().splitlines() if "these rules matched no page" in line]
            assert "nowhere.example" in warning
            assert "crawl.example" not in warning
            assert "compare it with the URLs of the pages" in warning


MOVING = [
    ("spotsieve_pages_total", {"verdict": "novel", "reason": "no_match"}),
    ("spotsieve_pages_total", {"verdict": "duplicate", "reason": "contained"}),
    ("spotsieve_pages_total", {"verdict": "duplicate", "reason": "exact"}),
    ("spotsieve_pages_total", {"verdict": "unchecked", "reason": "too_few_features"}),
    ("spotsieve_pages_total", {"verdict": "unchecked", "reason": "empty"}),
    ("spotsieve_pages_total", {"verdict": "unchecked", "reason": "not_text"}),
    ("spotsieve_page_bytes_total", {"verdict": "novel"}),
    ("spotsieve_page_bytes_total", {"verdict": "duplicate"}),
    ("spotsieve_page_size_bytes_count", {}),
    ("spotsieve_page_languages_total", {"language": "en"}),
    ("spotsieve_page_texts_total", {"text": "in_need"}),
    ("spotsieve_page_texts_total", {"text": "too_little"}),
    ("spotsieve_page_texts_total", {"text": "none"}),
    ("spotsieve_duplicates_by_key_total", {"key": "body"}),
    ("spotsieve_duplicates_by_key_total", {"key": "block_fingerprints"}),
    ("spotsieve_duplicates_by_key_total", {"key": "minhash"}),
    *[
        ("spotsieve_stage_duration_seconds_count", {"stage": stage})
        for stage in ("fetch", "sign", "append", "judge", "commit")
    ],
    ("spotsieve_batch_pages_sum", {}),
    ("spotsieve_page_candidates_count", {}),
    ("spotsieve_page_candidates_sum", {}),
    ("spotsieve_bucket_entries_count", {}),
    ("spotsieve_state_entries", {}),
    ("spotsieve_disk_size_bytes", {}),
    ("spotsieve_disk_free_bytes", {}),
    ("spotsieve_log_position", {}),
    ("spotsieve_log_end", {}),
    ("spotsieve_commits_total", {}),
    ("spotsieve_dead_letters_total", {"reason": "not_json"}),
    ("spotsieve_tombstones_total", {}),
    ("spotsieve_host_pages_total", {"host": "crawl.example"}),
    ("spotsieve_host_dropped_pages_total", {"host": "crawl.example"}),
    ("spotsieve_rule_pages_total", {"rule": 'rule 1 (host = "crawl.example")'}),
    ("spotsieve_ready", {}),
    ("spotsieve_assigned_partitions", {}),
    ("spotsieve_rebalances_total", {}),
]


@pytest.mark.parametrize(("name", "labels"), MOVING, ids=[f"{name}{labels or ''}" for name, labels in MOVING])
def test_a_metric_moves_when_pages_are_filtered(live: Live, name: str, labels: dict[str, str]) -> None:
    assert live.service.metric(name, **labels) > 0


@pytest.mark.parametrize(
    "family",
    [
        "spotsieve_commit_failures",
        "spotsieve_rule_pages",
        "spotsieve_capped_postings",
        "spotsieve_candidate_limited_pages",
        "spotsieve_state_bytes",
        "spotsieve_consumer_lag",
        "spotsieve_broker_retries",
        "spotsieve_expired_messages",
        "spotsieve_build_info",
        "process_resident_memory_bytes",
    ],
)
def test_a_metric_that_stands_still_in_good_times_is_there_too(live: Live, family: str) -> None:
    assert family in families(live.service)


def test_counts_agree_with_what_was_sent(live: Live) -> None:
    service = live.service
    assert service.metric("spotsieve_pages_total") == 206
    assert service.metric("spotsieve_batch_pages_sum") == 208
    assert service.metric("spotsieve_page_candidates_count") == 206
    assert service.metric("spotsieve_page_size_bytes_count") == 206
    assert service.metric("spotsieve_consumer_lag") == 0
    assert service.metric("spotsieve_log_position") == service.metric("spotsieve_log_end")


def test_top_shows_the_running_service(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--every", ".1", f"127.0.0.1:{live.service.port()}"]) == 0
    shown = [re.sub(" +", " ", line) for line in capsys.readouterr().out.splitlines()]
    assert "pages 0.0/s 206" in shown
    assert "rejected 0.0/s 1" in shown
    assert "workers ready 1 of 1" in shown


def test_metrics_are_named_by_the_conventions_of_prometheus(live: Live) -> None:
    """The rules of promtool check metrics, and few label values."""
    problems = []
    for family in families(live.service).values():
        if not family.name.startswith("spotsieve_"):
            continue
        if not re.fullmatch(r"[a-z][a-z0-9_]*", family.name):
            problems.append(f"{family.name}: lower case and underscores only")
        if not family.documentation.endswith("."):
            problems.append(f"{family.name}: no sentence of help")
        if re.search(r"_(ms|millis|milliseconds|minutes|hours|kb|mb|kib|mib|percent)(_|$)", family.name):
            problems.append(f"{family.name}: base units only (seconds, bytes, ratios)")
        if re.search(r"_(counter|gauge|histogram|summary)(_|$)", family.name):
            problems.append(f"{family.name}: the type is no part of the name")
        if family.type != "counter" and family.name.endswith("_total"):
            problems.append(f"{family.name}: only counters end in _total")
        if family.type not in {"counter", "histogram"} and family.name.endswith(("_count", "_sum", "_bucket")):
            problems.append(f"{family.name}: the ending of a histogram")
        if family.type == "unknown":
            problems.append(f"{family.name}: no type")
        labels = {tuple(sorted(sample.labels.items())) for sample in family.samples}
        if len(labels) > 80:
            problems.append(f"{family.name}: {len(labels)} label sets")
        for name, value in {pair for label_set in labels for pair in label_set}:
            if not re.fullmatch(r"[a-z][a-z_]*", name) or "\n" in value:
                problems.append(f"{family.name}: label {name}={value!r}")
    assert not problems


def test_healthz_and_readyz_answer_ok(live: Live) -> None:
    assert live.service.get("/healthz") == (200, "ok\n")
    assert live.service.get("/readyz") == (200, "ok\n")


def test_another_path_is_404_and_says_what_there_is(live: Live) -> None:
    status, text = live.service.get("/admin")
    assert status == 404
    assert "/metrics" in text


def exchange(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_another_method_is_405_and_no_body_is_read(live: Live) -> None:
    # The body is announced and never sent: a response shows that the port does not wait for it.
    response = exchange(live.service.port(), b"POST /metrics HTTP/1.0\r\nContent-Length: 1000000000\r\n\r\n")
    assert response.startswith(b"HTTP/1.0 405 ")
    assert b"Allow: GET, HEAD" in response


def test_a_scrape_is_no_log_line_even_with_control_characters_in_its_path(live: Live) -> None:
    written = len(live.service.text())
    exchange(live.service.port(), b"GET /\x1b[2J%0a%0dadmin HTTP/1.0\r\n\r\n")
    exchange(live.service.port(), b"\x00\xff garbage\r\n\r\n")
    new = live.service.text()[written:]
    assert "\x1b" not in new
    assert "garbage" not in new
    assert "admin" not in new


def test_ready_is_503_until_the_log_is_caught_up_and_partitions_may_come(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A member of the group that is silent: until its session is over the service waits for its partition.
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path_factory.mktemp("silent"), topics.toml(session_ms=10_000)) as silent,
        Spotsieve(tmp_path_factory.mktemp("unready"), topics.toml()) as service,
    ):
        silent.start().until_ready()
        silent.freeze()
        port = service.start().port()
        first = exchange(port, b"GET /readyz HTTP/1.0\r\n\r\n")
        assert first.startswith(b"HTTP/1.0 503 ")
        assert first.splitlines()[-1], "it says what it waits for"
        assert exchange(port, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")
        service.until_ready()
