"""Owns the proof that a replay gives equal verdicts, finds exactly what other settings change, and touches nothing."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from state.logrecord import decode
from stream.cli import main
from stream.files.trial import Trial
from stream.intake import Decoder, Message
from stream.signature import page_id_text
from stream.verdict import Kind
from tests.broker.crawls import PageMessage, crawl, edited, html_of, json_page
from tests.broker.harness import Spotsieve, TopicSet
from tests.broker.oracle import Verdict, ids_by_key, settings_from, verdicts_sent
from tests.conftest import Broker

PAGES = 3_000
PARTITIONS = 3
EDITED, SHORT, BROKEN, EMPTY = 60, 20, 5, 5
"""Near copies, pages with too few features, messages that are no page, messages without value."""


@dataclass(frozen=True)
class Recorded:
    """A crawl that two workers have judged, one of which was killed on the way; nobody works on it any more."""

    topics: TopicSet
    config: Path
    toml: str
    states: tuple[Path, ...]

    def replay(self, *arguments: str) -> int:
        return main(["replay", "-c", str(self.config), *arguments])


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
        toml = topics.toml().replace("session_timeout_ms = 6000", "session_timeout_ms = 3000")
        toml += "service.batch_pages = 48\n"
        with Spotsieve(directory, toml, "first") as first, Spotsieve(directory, toml, "second") as second:
            first.start().until_ready()
            second.start().until_ready()
            second.until_metric("spotsieve_assigned_partitions", 1)
            with ThreadPoolExecutor(1) as sending:
                sent = sending.submit(topics.send, messages())
                first.until_committed(100)
                first.kill()
                assert topics.uncommitted() > 0, "pages must still have been flowing, or the kill shows nothing"
                sent.result()
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


@pytest.mark.promise("a replay gives equal verdicts", fault="two workers, kill -9 of one of them in mid-run")
@pytest.mark.timeout(240)
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


@pytest.mark.timeout(240)
def test_other_settings_give_exactly_the_differences_that_judging_page_by_page_finds(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.replay("--set", "scheme.same_host_min_jaccard=0.99", "--json", "--examples", str(PAGES)) == 0
    report = as_json(capsys)
    expected = by_other_settings(recorded.topics, recorded.toml + "scheme.same_host_min_jaccard = 0.99\n")
    ids = ids_by_key(recorded.topics)
    was = {ids[key]: verdicts[0] for key, verdicts in verdicts_sent(recorded.topics).items() if verdicts[0][0]}
    differing = {page: verdict for page, verdict in expected.items() if verdict != was[page]}
    assert len(differing) >= EDITED // 2
    found = {row["page"]: (row["replayed"]["verdict"], row["replayed"]["duplicate_of"]) for row in report["examples"]}
    assert found == differing
    told = {row["page"]: (row["recorded"]["verdict"], row["recorded"]["duplicate_of"]) for row in report["examples"]}
    assert told == {page: was[page] for page in differing}
    assert report["differ"] == len(differing)
    assert "scheme.same_host_min_jaccard is " in report["settings_differ"]
