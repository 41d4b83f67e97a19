"""A replay gives equal verdicts, finds exactly what other settings change, and touches nothing."""

import asyncio
import gzip
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.state.log.record import decode
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.cli import main
from spotsieve.stream.insight.replay.report import as_text
from spotsieve.stream.insight.replay.run import Replay, ReplayRequest
from spotsieve.stream.kafka.clients import administrator
from spotsieve.stream.research.evaluation.trial import Trial
from spotsieve.stream.sign.intake import Decoder, Message
from tests.conftest import Broker, Topics
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet, receive
from tests.fixtures.pages.crawls import PageMessage, crawl, edited, html_of, json_page
from tests.fixtures.services.oracle import Verdict, ids_by_key, settings_from, verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES = 2_400
PARTITIONS = 3
EDITED, SHORT, BROKEN, EMPTY = 60, 20, 5, 5
"""Near copies, pages with too few features, messages that are no page, messages without value."""


@dataclass(frozen=True)
class Recorded:
    """A crawl that two workers have judged, one of them killed midway; no worker runs any more."""

    topics: TopicSet
    config: Path
    toml: str
    states: tuple[Path, ...]

    def replay(self, *arguments: str) -> int:
        return main(["replay", "-c", str(self.config), *arguments])

    def traces(self) -> dict[str, object]:
        """All that a replay must leave as it is: ends of the topics, the group's offsets, the states' files."""
        return {
            **asyncio.run(self._on_broker()),
            **{
                str(path): (path.stat().st_mtime_ns, path.read_bytes())
                for state in self.states
                for path in files(state)
            },
        }

    async def groups(self) -> set[str]:
        """The groups of the broker. It removes those of earlier tests some time after their topics."""
        async with administrator(bootstrap_servers=self.topics.servers) as admin:
            return {name for name, _ in await admin.list_consumer_groups()}

    async def _on_broker(self) -> dict[str, object]:
        names = self.topics.names
        at = [TopicPartition(names[role], n) for role in names for n in range(1 if role == "log" else PARTITIONS)]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.topics.servers)
        async with administrator(bootstrap_servers=self.topics.servers) as admin, consumer:
            offsets = await admin.list_consumer_group_offsets(self.topics.group)
            return {
                "ends": await consumer.end_offsets(at),
                "committed": {partition: found.offset for partition, found in offsets.items()},
            }


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def messages() -> list[PageMessage]:
    pages = crawl(PAGES, seed=11).messages
    # Pages of articles that the crawl shows too, each with a line of the editor's: near, and not the same text.
    first = 11 * 10_000_000
    pages += [json_page(PAGES + n, edited(html_of(first + n, sentences=4))) for n in range(EDITED)]
    pages += [json_page(PAGES + EDITED + n, f"<p>short page {n}</p>") for n in range(SHORT)]
    pages += [PageMessage(b"broken%d" % n, b"{") for n in range(BROKEN)]
    return pages + [PageMessage(b"empty%d" % n, None) for n in range(EMPTY)]


@pytest.fixture(scope="module")
def recorded(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    directory = tmp_path_factory.mktemp("recorded")
    with TopicSet(kafka.bootstrap_servers, partitions=PARTITIONS) as topics:
        toml = topics.toml(KILLED_SESSION_MS)
        toml += "service.batch_pages = 48\n"
        with Spotsieve(directory, toml, "first") as first, Spotsieve(directory, toml, "second") as second:
            first.start().until_ready()
            second.start().until_ready()
            second.until_metric("spotsieve_assigned_partitions", 1)
            pages = messages()
            # A part is kept back: this process may stand still, and the workers be done with all that was sent.
            kept = len(pages) // 4
            with ThreadPoolExecutor(1) as sending:
                sent = sending.submit(topics.send, pages[:-kept])
                first.until_committed(100)
                first.kill()
                sent.result()
            topics.send(pages[-kept:])
            first.start().until_ready()
            topics.until_all_committed()
            assert first.terminate() == 0, first.text()
            assert second.terminate() == 0, second.text()
        yield Recorded(topics, first.config, toml, (first.state, second.state))


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def by_other_settings(topics: TopicSet, toml: str) -> dict[str, Verdict]:
    """Page id -> verdict, from the input's bytes: page after page, in the order in which the log names them first."""
    settings = settings_from(toml)
    trial, decoder = Trial(settings), Decoder(settings.input)
    inputs = {page_id_text(record.topic, record.partition, record.offset): record for record in topics.read("input")}
    found: dict[str, Verdict] = {}
    for record in topics.read("log"):
        named = decode(record.value).signatures
        for row in range(len(named)):
            page = page_id_text(topics.names["input"], int(named.partition[row]), int(named.offset[row]))
            if page in found:
                continue
            sent = inputs[page]
            place = (sent.topic, sent.partition, sent.offset, sent.timestamp)
            for _, verdicts, at in trial.judge([decoder.decode(Message(sent.key, sent.value, sent.headers, *place))]):
                original = verdicts.originals[at]
                found[page] = (Kind(verdicts.kind[at]).name.lower(), original.id if original else None)
    return found


@pytest.mark.guarantee("a replay gives equal verdicts", fault="two workers, kill -9 of one of them in mid-run")
@pytest.mark.timeout(900)
def test_a_replay_of_the_whole_topic_gives_the_recorded_verdicts(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.replay("--json", "--fail-on-difference") == 0
    report = as_json(capsys)
    sent = len(messages())
    assert report["messages"] == sent
    assert report["differ"] == report["recorded_but_not_replayed"] == 0
    assert report["compared"] == sent - EMPTY
    assert report["tombstones"] == EMPTY
    assert report["order"]["by_log"] == sent - EMPTY - BROKEN
    matrix = report["recorded_by_replayed"]
    assert all(matrix[kind][kind] > 0 for kind in ("novel", "duplicate", "unchecked", "rejected"))
    assert matrix["rejected"]["rejected"] == BROKEN
    assert report["settings_differ"] == ""


@pytest.mark.timeout(900)
def test_other_settings_give_exactly_the_differences_that_judging_page_by_page_finds(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.replay("--set", "scheme.min_containment=0.99", "--json", "--examples", str(PAGES)) == 0
    report = as_json(capsys)
    expected = by_other_settings(recorded.topics, recorded.toml + "scheme.min_containment = 0.99\n")
    ids = ids_by_key(recorded.topics)
    was = {ids[key]: verdicts[0] for key, verdicts in verdicts_sent(recorded.topics).items() if verdicts[0][0]}
    differing = {page: verdict for page, verdict in expected.items() if verdict != was[page]}
    assert len(differing) >= EDITED // 2
    found = {row["page"]: (row["replayed"]["verdict"], row["replayed"]["duplicate_of"]) for row in report["examples"]}
    assert found == differing
    shown = {row["page"]: (row["recorded"]["verdict"], row["recorded"]["duplicate_of"]) for row in report["examples"]}
    assert shown == {page: was[page] for page in differing}
    assert report["differ"] == len(differing)
    assert "scheme.min_containment is " in report["settings_differ"]


@pytest.mark.guarantee(
    "a replay changes nothing in the service", fault="none: ends, groups, offsets and files compared"
)
@pytest.mark.timeout(900)
def test_a_replay_into_a_file_writes_every_verdict_and_leaves_the_service_untouched(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, groups = recorded.traces(), asyncio.run(recorded.groups())
    assert before["committed"]
    arguments = ("--into", str(tmp_path / "verdicts.jsonl.gz"), "--state", str(tmp_path / "state"))
    assert recorded.replay(*arguments) == 0
    assert recorded.traces() == before
    assert asyncio.run(recorded.groups()) <= groups
    assert "0 differ" in capsys.readouterr().out
    lines = [json.loads(line) for line in gzip.decompress((tmp_path / "verdicts.jsonl.gz").read_bytes()).splitlines()]
    written = {line["id"]: (line["verdict"], line["duplicate_of"]) for line in lines}
    ids = ids_by_key(recorded.topics)
    sent = verdicts_sent(recorded.topics)
    assert written == {ids[key]: verdicts[0] for key, verdicts in sent.items() if not key.startswith(b"empty")}
    assert len(lines) == len(written)
    assert (tmp_path / "state" / "index" / "CURRENT").exists()
    assert recorded.replay(*arguments, "--force") == 4, "a state directory that is not empty must be refused"
    assert "must be a new or an empty directory" in capsys.readouterr().err


@pytest.mark.timeout(900)
def test_a_replay_into_a_topic_sends_the_novel_pages_as_the_service_did(
    recorded: Recorded, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topics("replayed", partitions=PARTITIONS)
    assert recorded.replay("--into", f"topic:{name}") == 0
    assert "0 differ" in capsys.readouterr().out
    at = [TopicPartition(name, number) for number in range(PARTITIONS)]
    found = asyncio.run(receive(recorded.topics.servers, at, None, 20))
    assert sorted(map(whole, found)) == sorted(map(whole, recorded.topics.read("novel")))


def test_the_clusters_of_the_output_topics_are_those_of_the_verdicts(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clusters", "-c", str(recorded.config), "--topics"]) == 0
    listed = {line["id"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    ids = ids_by_key(recorded.topics)
    verdicts = {ids[key]: sent[0] for key, sent in verdicts_sent(recorded.topics).items() if sent[0][0]}
    assert {page: line["verdict"] for page, line in listed.items()} == {
        page: kind for page, (kind, _) in verdicts.items()
    }
    assert {page: line["cluster"] for page, line in listed.items()} == {
        page: original or page for page, (_, original) in verdicts.items()
    }
    assert all(line["url"].startswith("http") for line in listed.values())
    assert {line["size"] > 1 for line in listed.values()} == {True, False}


def whole(message: ConsumerRecord) -> tuple[object, ...]:
    """All of a message but its offset; the first attempt of a page and a later one give another reason."""
    headers = [pair for pair in message.headers if pair[0] != "spotsieve-reason"]
    return message.partition, message.key, message.value or b"", message.timestamp, headers


@pytest.mark.parametrize("role", ["novel", "log", "input"])
def test_topics_of_the_service_are_rejected_as_a_target(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    assert recorded.replay("--into", f"topic:{recorded.topics.names[role]}") == 2
    assert "--into must not be a topic of a service" in capsys.readouterr().err


@pytest.mark.timeout(900)
def test_duplicates_of_pages_before_the_range_are_counted_separately(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.replay("--from", "300", "--to", "0:700,1:300", "--json", "--fail-on-difference") == 0
    report = as_json(capsys)
    assert report["range"]["0"] == [300, 700]
    assert report["range"]["1"] == [300, 300]
    assert report["range"]["2"][0] == 300
    inputs = recorded.topics.read("input")
    inside = [m for m in inputs if 300 <= m.offset < {0: 700, 1: 300}.get(m.partition, len(inputs))]
    assert report["messages"] == len(inside)
    ids = {page_id_text(m.topic, m.partition, m.offset) for m in inside}
    by_key = ids_by_key(recorded.topics)
    original = {by_key[key]: found[0][1] for key, found in verdicts_sent(recorded.topics).items()}
    outside = [page for page in ids if original.get(page) is not None and original[page] not in ids]
    # A copy of an original outside the range is now novel, or the copy of one in the range.
    assert report["original_outside_range"] == len(outside) > 0
    assert report["differ"] == 0


@pytest.mark.timeout(900)
def test_times_choose_the_range_and_differences_can_fail_the_command(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stamps = sorted(message.timestamp for message in recorded.topics.read("input"))
    middle = stamps[len(stamps) // 2]
    other = tmp_path / "other.toml"
    other.write_text("scheme.min_containment = 0.99\n")
    assert recorded.replay("--with", str(other), "--fail-on-difference", "--examples", "1") == 6
    text = capsys.readouterr().out
    assert "recorded as duplicate, replayed as novel" in text
    assert text.count("  recorded  ") <= 2, "one example of each kind"
    assert "settings   scheme.min_containment is 0.6 in the service's settings and 0.99 in" in text
    assert recorded.replay("--from", str(middle)) == 0
    text = capsys.readouterr().out
    assert f"replayed   {sum(stamp >= middle for stamp in stamps):,} messages" in text
    assert recorded.replay("--from", "2100-01-01T00:00:00Z") == 2
    assert "has no messages in the range" in capsys.readouterr().err
    assert recorded.replay("--to", "0") == 2
    assert "has no messages in the range" in capsys.readouterr().err


@pytest.mark.timeout(900)
def test_without_the_log_pages_are_judged_by_timestamp_and_the_report_says_so(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = f"{recorded.topics.names['log']}-gone"
    reports = []
    for number in (1, 2):
        verdicts = tmp_path / f"{number}.jsonl"
        assert recorded.replay("--set", f"topics.log={gone}", "--json", "--into", str(verdicts)) == 0
        reports.append((as_json(capsys)["order"], verdicts.read_bytes()))
    assert reports[0] == reports[1], "the order must be the same each time"
    assert reports[0][0] == {"log": gone, "by_log": 0, "before_log": len(messages()), "beside_log": 0, "after_log": 0}
    assert recorded.replay("--set", f"topics.log={gone}") == 0
    text = capsys.readouterr().out
    assert f"{len(messages()):,} by timestamp, partition and offset: the log has none of them" in text
    assert f"the log {gone} does not exist" in text


@pytest.mark.timeout(900)
def test_an_interrupted_replay_reports_the_compared_pages(recorded: Recorded, tmp_path: Path) -> None:
    command = ("replay", "--into", str(tmp_path / "verdicts.jsonl"))
    # Every page a micro-batch of its own, so that there is time to interrupt it.
    toml = recorded.toml.replace("batch_pages = 48", "batch_pages = 1")
    with Spotsieve(tmp_path, toml, "replay", command) as replay:
        replay.start()
        assert replay.process is not None
        process, partial = replay.process, tmp_path / "verdicts.jsonl.partial"
        wait_until(
            lambda: process.poll() is not None or (partial.exists() and partial.stat().st_size > 0),
            SECONDS,
            "the first verdicts",
        )
        assert process.poll() is None, replay.text()
        process.send_signal(signal.SIGINT)
        assert replay.wait() == 130, replay.text()
        text = replay.text()
        assert "interrupted: the report covers the pages compared so far" in text
        assert " 0 differ" in text
        assert not (tmp_path / "verdicts.jsonl").exists()


def test_the_state_of_the_service_is_rejected_for_a_replay(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    for state in recorded.states:
        assert recorded.replay("--state", str(state)) == 4
        assert "--state must " in capsys.readouterr().err


def test_a_replay_that_is_interrupted_before_it_judges_has_compared_nothing(recorded: Recorded, tmp_path: Path) -> None:
    messages: list[str] = []

    def tell(text: str) -> None:
        messages.append(text)
        if text.startswith("reading the log"):
            os.kill(os.getpid(), signal.SIGINT)

    settings = settings_from(recorded.toml)
    into = tmp_path / "verdicts.jsonl"
    report = Replay(ReplayRequest(settings, settings, tmp_path / "state", into=str(into)), tell).run()
    assert report.interrupted
    assert (report.comparison.messages, report.comparison.compared) == (0, 0)
    assert not any(text.startswith("judging") for text in messages)
    assert "interrupted: the report covers the pages compared so far" in as_text(report)
    assert not into.exists()


@pytest.mark.parametrize("flag", ["-c", "--with"])
def test_a_file_of_settings_is_not_overwritten(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("scheme.min_features = 9\n")
    target = recorded.config if flag == "-c" else other
    assert recorded.replay("--with", str(other), "--into", str(target)) == 2
    assert "--into must not go to the same place as " in capsys.readouterr().err
    assert other.read_text() == "scheme.min_features = 9\n"
