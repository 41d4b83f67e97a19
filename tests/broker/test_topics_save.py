"""`spotsieve topics save`: the newest pages of a topic in a file, under the ids that verdicts have."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage

PAGES = 40


@pytest.fixture
def topics(kafka: Broker) -> Iterator[TopicSet]:
    with TopicSet(kafka.bootstrap_servers, 2, leave_out=("novel", "duplicates", "rejected", "log")) as made:
        yield made


def test_the_newest_pages_are_saved_as_they_are_named_in_verdicts(
    topics: TopicSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = "The old mill by the river will open again in spring, the council said, after years of work on the roof."
    bodies = [f"<p>{story} It was number {number // 2} of many." for number in range(PAGES)]
    found = [{"url": f"https://a.example/{number}", "body": body} for number, body in enumerate(bodies)]
    messages = [PageMessage(b"%d" % number, json.dumps(page).encode()) for number, page in enumerate(found)]
    topics.send([*messages, PageMessage(b"x", b"no page"), PageMessage(b"y", None)])
    config, out = tmp_path / "spotsieve.toml", tmp_path / "pages.jsonl"
    config.write_text(topics.toml(), "utf-8")
    assert main(["topics", "save", "-c", str(config), str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"{PAGES} pages of {topics.names['input']} in {out}" in printed
    assert "2 messages were skipped: they hold no text page" in printed
    saved = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert sorted(page["body"] for page in saved) == sorted(bodies)
    assert {page["id"].rpartition("/")[0] for page in saved} <= {f"{topics.names['input']}/{n}" for n in (0, 1)}
    assert main(["review", "--topic", "-c", str(config), "-o", str(tmp_path / "review.html")]) == 0
    printed = capsys.readouterr().out
    assert f"{PAGES} pages of {topics.names['input']} in {tmp_path / 'review.pages.jsonl.zst'}" in printed
    assert f"pairs in {tmp_path / 'review.html'}" in printed
    assert (tmp_path / "review.html").stat().st_size < 2_000_000
    assert (
        main(["review", "--topic", "-c", str(config), "-o", str(tmp_path / "other.html"), "--set", "topics.input=none"])
        == 2
    )
    assert "topics.input does not exist on the broker" in capsys.readouterr().err
    assert not list(tmp_path.glob("other*"))
    assert main(["topics", "save", "-c", str(config), str(out), "--pages", "10", "--force"]) == 0
    assert 5 <= len(out.read_text("utf-8").splitlines()) <= 10
    capsys.readouterr()
    assert main(["topics", "save", "-c", str(config), str(out)]) == 2
    assert "must be a new file" in capsys.readouterr().err
    missing = ["--set", "topics.input=nowhere"]
    assert main(["topics", "save", "-c", str(config), str(tmp_path / "none.jsonl"), *missing]) == 2
    assert "topics.input does not exist on the broker" in capsys.readouterr().err
    assert not list(tmp_path.glob("none*"))
