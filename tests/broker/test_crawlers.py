"""Messages of scrapy-cluster and Norconex go through the filter with the settings that docs/integrations.md prints."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import REPOSITORY, Broker
from tests.fixtures.brokers.topics import TopicSet, header
from tests.fixtures.debian import needs_debian
from tests.fixtures.pages.crawler_messages import UNSERIALISED, norconex, norconex_deletion, scrapy_cluster
from tests.fixtures.pages.crawls import PageMessage, article, edited, html_of
from tests.fixtures.services.service import Spotsieve

TEXT = (REPOSITORY / "docs" / "integrations.md").read_text("utf-8")
SETTINGS = {
    settings["input"]["preset"]: settings
    for settings in map(tomllib.loads, re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
}


def through_the_filter(kafka: Broker, directory: Path, preset: str, messages: list[PageMessage]) -> dict[str, Any]:
    """What comes out, by topic, under the document's [input] and topics of the test's own."""
    assert set(SETTINGS[preset]) == {"topics", "input"}
    settings = "".join(f"input.{name} = {json.dumps(value)}\n" for name, value in SETTINGS[preset]["input"].items())
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(directory, topics.toml() + settings) as service:
        topics.send(messages)
        service.start()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        return {role: topics.read(role) for role in ("novel", "duplicates", "rejected")}


@pytest.mark.timeout(600)
def test_scrapy_clusters_pages_are_filtered_and_forwarded_byte_for_byte(kafka: Broker, tmp_path: Path) -> None:
    messages = [
        scrapy_cluster("https://a.example/1", html_of(1)),
        scrapy_cluster("https://b.example/1", edited(html_of(1, template=2))),
        scrapy_cluster("https://c.example/1", html_of(1, template=3), encoding="cp1252", coded=True),
        scrapy_cluster("https://d.example/2", html_of(2).replace("the ", "thé "), encoding="cp1252", coded=True),
        scrapy_cluster("https://e.example/gone", html_of(1), status_code=404, status_msg="Not Found"),
        UNSERIALISED,
    ]
    out = through_the_filter(kafka, tmp_path, "scrapy-cluster", messages)
    assert [record.value for record in out["novel"]] == [messages[place].value for place in (0, 3, 4)]
    assert [header(record, "spotsieve-verdict") for record in out["novel"]] == [b"novel", b"novel", b"unchecked"]
    reports = [orjson.loads(record.value) for record in out["duplicates"]]
    assert [report["page"]["url"] for report in reports] == ["https://b.example/1", "https://c.example/1"]
    assert {report["duplicate_of"]["url"] for report in reports} == {"https://a.example/1"}
    (rejected,) = out["rejected"]
    assert (rejected.value, header(rejected, "spotsieve-reason")) == (UNSERIALISED.value, b"not_json")


@pytest.mark.timeout(600)
def test_norconex_documents_are_filtered_and_deletions_pass(kafka: Broker, tmp_path: Path) -> None:
    metadata = {"Content-Type": ["text/html"], "document.contentType": ["text/html"], "title": ["One", "Two"]}
    messages = [
        norconex("https://a.example/1", article(1), metadata),
        norconex("https://b.example/1", f"A line of the editor. {article(1)}", metadata),
        norconex("https://c.example/1", html_of(1), {}),
        norconex("https://d.example/2", article(2), metadata),
        norconex_deletion("https://a.example/1"),
    ]
    out = through_the_filter(kafka, tmp_path, "norconex", messages)
    assert [(record.key, record.value) for record in out["novel"]] == [
        (message.key, message.value) for message in (messages[0], messages[3], messages[4])
    ]
    reports = [orjson.loads(record.value) for record in out["duplicates"]]
    assert [report["page"]["url"] for report in reports] == ["https://b.example/1", "https://c.example/1"]
    assert not out["rejected"]


def test_messages_are_the_bytes_that_the_crawlers_write() -> None:
    """Norconex: of ApacheKafkaCommitterIT; scrapy-cluster: of a run of its own KafkaPipeline."""
    produced = norconex(
        "http://www.simpsons.com", "Homer says DÖH!", {"category": ["TV Show"], "sub-category": ["Cartoon"]}
    )
    assert produced.value == (
        rb'{"id":"http:\/\/www.simpsons.com","category":"TV Show","sub-category":"Cartoon",'
        rb'"content":"Homer says D\u00D6H!"}'
        b"\n"
    )
    produced = scrapy_cluster("https://a.example/", "<p>\xe9</p>", links=[], url="https://a.example/", timestamp="T")
    assert produced.value == (
        rb'{"appid":"testapp","attrs":null,"body":"<p>\u00e9<\/p>","crawlid":"abc123","encoding":"utf-8","links":[],'
        rb'"request_headers":{"User-Agent":["x"]},"response_headers":{"Content-Type":["text\/html; charset=utf-8"],'
        rb'"Server":["nginx"]},"response_url":"https:\/\/a.example\/","status_code":200,"status_msg":"OK",'
        rb'"timestamp":"T","url":"https:\/\/a.example\/"}'
    )


def test_files_of_norconex_are_filtered_by_the_line_of_the_document(tmp_path: Path) -> None:
    needs_debian("jq", "jq")
    upserts = [(f"https://{name}.example/", article(number)) for name, number in (("a", 1), ("b", 2), ("c", 1))]
    entries: list[object] = [
        {"upsert": {"reference": url, "metadata": {"title": ["x"]}, "content": text}} for url, text in upserts
    ]
    entries.append({"delete": {"reference": "https://a.example/", "metadata": {}}})
    (tmp_path / "upsert.json").write_text(json.dumps(entries), "utf-8")
    (line,) = re.findall(r"^jq .*$", TEXT, re.MULTILINE)
    line = line.replace("spotsieve filter", f"{sys.executable} -m spotsieve.stream filter")
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True, capture_output=True)
    passed = [json.loads(one)["url"] for one in (tmp_path / "novel.jsonl").read_text("utf-8").splitlines()]
    assert passed == ["https://a.example/", "https://b.example/"]
