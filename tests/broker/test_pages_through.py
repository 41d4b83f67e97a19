"""Pages come out as they went in, in order, with verdicts, reports and dead letters."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet, header
from tests.fixtures.pages.crawls import PageMessage, article, edited, html_of, json_page, url_of
from tests.fixtures.services.oracle import check_verdicts_sent, verdicts_sent
from tests.fixtures.services.service import Spotsieve

SENT_AT_MS = 1_600_000_000_000
"""Years ago: neither intake nor outputs may replace a crawl's own times."""


def sent_at(message: PageMessage, place: int) -> PageMessage:
    return PageMessage(message.key, message.value, message.headers, SENT_AT_MS + place, 0)


def messages() -> list[PageMessage]:
    """One partition's messages, in order; the comment says what becomes of each."""
    pdf = base64.b64encode(b"%PDF-1.7\n" + bytes(range(256)) * 8).decode()
    listed = [
        json_page(0, html_of(1)),  # novel
        json_page(1, html_of(2), id="page-two"),  # novel, with a name of its own
        json_page(2, html_of(1)),  # an exact copy of 0
        PageMessage(b"gone", None, (("reason", b"404"),)),  # tombstone
        json_page(3, html_of(1, template=7)),  # 0 in another frame
        json_page(4, html_of(2, template=3)),  # 1 in another frame
        PageMessage(b"half", json_page(5, html_of(3)).value[:-20], (("crawl", b"half"),)),  # type: ignore[index]
        PageMessage(b"latin", b'{"url": "https://crawl.example/l", "body": "caf\xe9"}'),  # invalid UTF-8 in JSON
        PageMessage(b"list", b"[1, 2]"),
        PageMessage(b"no-url", json.dumps({"body": html_of(9)}).encode()),
        PageMessage(b"no-body", json.dumps({"url": url_of(1)}).encode()),
        json_page(6, pdf, body_encoding="base64"),  # not text
        json_page(7, "<p>the end is near"),  # too few words
        json_page(8, ""),  # no bytes
        json_page(9, article(4), content_type="text/plain"),  # plain text: judged
        json_page(10, html_of(4)),  # the same article as HTML
        json_page(11, "<p>the end is near"),  # an exact copy of 7, which has no fingerprint
        PageMessage(None, json_page(12, html_of(5)).value),  # no key
        PageMessage(b"gone", None),  # tombstone
        json_page(13, html_of(6)),  # novel
        json_page(14, edited(html_of(1, template=5))),  # 0 in another frame, with a line above it
    ]
    return [sent_at(message, place) for place, message in enumerate(listed)]


@dataclass(frozen=True)
class Run:
    """What went in and what came out."""

    sent: list[PageMessage]
    topics: TopicSet
    novel: list[ConsumerRecord]
    duplicates: list[ConsumerRecord]
    rejected: list[ConsumerRecord]
    service: Spotsieve

    def let_through(self, key: bytes | None) -> ConsumerRecord:
        (found,) = [record for record in self.novel if record.key == key and record.value is not None]
        return found


def run_through(
    kafka: Broker, directory: pytest.TempPathFactory, settings: str, sent: list[PageMessage]
) -> Iterator[Run]:
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml() + settings
        with Spotsieve(directory.mktemp("pages"), toml).start() as service:
            topics.send(sent)
            service.until_ready()
            service.until_committed(len(sent))
            assert service.terminate() == 0, service.text()
            novel, duplicates, rejected = (topics.read(role) for role in ("novel", "duplicates", "rejected"))
            yield Run(sent, topics, novel, duplicates, rejected, service)


@pytest.fixture(scope="module")
def run(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    yield from run_through(kafka, tmp_path_factory, 'input.fields.body_encoding = "body_encoding"\n', messages())


@pytest.fixture(scope="module")
def annotated(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    settings = (
        'input.fields.body_encoding = "body_encoding"\nservice.mode = "annotate"\nservice.guarantee = "at_least_once"\n'
        'service.compression = "zstd"\n'
    )
    yield from run_through(kafka, tmp_path_factory, settings, messages())


def test_a_page_let_through_keeps_its_bytes_key_headers_and_time(run: Run) -> None:
    through = {record.timestamp - SENT_AT_MS: record for record in run.novel}
    assert through
    for place, record in through.items():
        message = run.sent[place]
        assert (record.value, record.key) == (message.value, message.key)
        assert list(record.headers)[: len(message.headers)] == list(message.headers)
        added = [name for name, _ in record.headers[len(message.headers) :]]
        ours = ["spotsieve-verdict", "spotsieve-reason", "spotsieve-scheme", "spotsieve-page"]
        assert added == ([] if message.value is None else ours)


def test_novel_pages_and_tombstones_come_out_in_their_order(run: Run) -> None:
    places = [record.timestamp - SENT_AT_MS for record in run.novel]
    assert places == [0, 1, 3, 11, 12, 13, 14, 17, 18, 19]


def test_every_message_is_accounted_for_exactly_once(run: Run) -> None:
    places = [record.timestamp - SENT_AT_MS for record in (*run.novel, *run.duplicates, *run.rejected)]
    assert sorted(places) == list(range(len(run.sent)))


def test_verdict_headers_say_why(run: Run) -> None:
    def why(number: int) -> tuple[bytes | None, bytes | None]:
        record = run.let_through(url_of(number).encode())
        return header(record, "spotsieve-verdict"), header(record, "spotsieve-reason")

    assert why(0) == (b"novel", b"no_match")
    assert why(6) == (b"unchecked", b"not_text")
    assert why(7) == (b"unchecked", b"too_few_features")
    assert why(8) == (b"unchecked", b"empty")
    assert why(9) == (b"novel", b"no_match")


def test_a_report_names_the_page_its_original_the_scheme_and_the_score(run: Run) -> None:
    topic = run.topics.names["input"]
    reports = {record.key: orjson.loads(record.value) for record in run.duplicates}
    assert reports[url_of(3).encode()] == {
        "page": {"id": f"{topic}/0/4", "url": url_of(3)},
        "duplicate_of": {
            "id": f"{topic}/0/0",
            "page": f"{topic}/0/0",
            "url": url_of(0),
            "event_time_ms": SENT_AT_MS,
        },
        "scheme": "spotsieve",
        # The other frame has two words of its own, and its title one.
        "score": 0.989247,
        "reason": "contained",
    }
    near = reports[url_of(14).encode()]
    assert (near["reason"], near["duplicate_of"]["url"]) == ("contained", url_of(0))
    assert 0.7 < near["score"] < 1
    assert reports[url_of(4).encode()]["duplicate_of"]["id"] == "page-two"
    assert reports[url_of(10).encode()]["duplicate_of"]["url"] == url_of(9)
    assert reports[url_of(11).encode()]["reason"] == "exact"
    assert len(reports) == 6


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"half", b"not_json"),
        (b"latin", b"not_json"),
        (b"list", b"not_json"),
        (b"no-url", b"no_url"),
        (b"no-body", b"no_body"),
    ],
)
def test_a_dead_letter_holds_the_message_and_the_reason(run: Run, key: bytes, reason: bytes) -> None:
    (letter,) = [record for record in run.rejected if record.key == key]
    (message,) = [message for message in run.sent if message.key == key]
    assert letter.value == message.value
    assert list(letter.headers)[: len(message.headers)] == list(message.headers)
    assert header(letter, "spotsieve-reason") == reason
    text = (header(letter, "spotsieve-error") or b"").decode()
    assert "must" in text
    assert ";" in text, "a next step follows the rule"
    place = run.sent.index(message)
    assert header(letter, "spotsieve-page") == f"{run.topics.names['input']}/0/{place}".encode()


def test_annotate_passes_every_page_with_its_verdict(annotated: Run) -> None:
    places = [record.timestamp - SENT_AT_MS for record in annotated.novel]
    assert places == [place for place in range(21) if place not in {6, 7, 8, 9, 10}]
    copy = annotated.let_through(url_of(3).encode())
    assert copy.value == annotated.sent[4].value
    assert header(copy, "spotsieve-verdict") == b"duplicate"
    assert header(copy, "spotsieve-duplicate-of") == f"{annotated.topics.names['input']}/0/0".encode()
    assert header(copy, "spotsieve-score") == b"0.9892"
    assert len(annotated.duplicates) == 6


def test_at_least_once_sends_the_same_as_exactly_once_where_nothing_goes_wrong(run: Run, annotated: Run) -> None:
    def reports(of: Run) -> list[bytes]:
        return sorted(record.value.replace(of.topics.suffix.encode(), b"") for record in of.duplicates)

    def letters(of: Run) -> list[tuple[bytes, bytes | None]]:
        return [(record.value, header(record, "spotsieve-error")) for record in of.rejected]

    assert reports(run) == reports(annotated)
    assert letters(run) == letters(annotated)


@pytest.mark.parametrize("place", ["key", "header:page-address"])
def test_raw_html_finds_its_address_in_the_key_or_a_header(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    def page(number: int, html: bytes, charset: bytes = b"utf-8") -> PageMessage:
        url = url_of(number).encode()
        kind = ("Content-Type", b"text/html; charset=" + charset)
        if place == "key":
            return PageMessage(url, html, (kind,))
        return PageMessage(b"k%d" % number, html, (("Page-Address", url), kind))

    accented = html_of(21).replace(" was ", " café was ")
    sent = [
        page(0, html_of(20).encode()),
        page(1, html_of(20, template=2).encode()),
        page(2, accented.encode()),
        page(3, accented.encode("latin-1"), b"iso-8859-1"),  # the same text in another character set
        page(4, b"\xff\xfe\xfd<p>" + html_of(22).encode() + b"\xc3\x28"),  # invalid UTF-8 is tolerated
        PageMessage(None, html_of(23).encode()),  # no address
    ]
    settings = f'input.format = "html"\ninput.url_from = "{place}"\n'
    for run in run_through(kafka, tmp_path_factory, settings, [sent_at(m, n) for n, m in enumerate(sent)]):
        assert [record.timestamp - SENT_AT_MS for record in run.novel] == [0, 2, 4]
        assert [record.value for record in run.novel] == [sent[number].value for number in (0, 2, 4)]
        reports = [orjson.loads(record.value) for record in run.duplicates]
        urls = [(report["page"]["url"], report["duplicate_of"]["url"]) for report in reports]
        assert urls == [(url_of(1), url_of(0)), (url_of(3), url_of(2))]
        assert [header(record, "spotsieve-reason") for record in run.rejected] == [b"no_url"]


@pytest.mark.guarantee(
    "with policy.keep = longest a page is dropped only for an emitted page that is not clearly shorter",
    fault="kill -9 of a worker in mid-run, then every page again through a worker without a state",
)
@pytest.mark.timeout(900)
def test_longer_copies_replace_shorter_ones_whatever_crashes_or_comes_again(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every article twelve sentences long, then in another frame, then fifteen and eighteen long, then as at first. Two
    # thirds of the longest are in the shortest, which is enough for a copy.
    versions = [(12, 0), (12, 1), (15, 0), (18, 0), (12, 2)]
    sent = [
        json_page(turn * 60 + number, html_of(number, template, sentences))
        for turn, (sentences, template) in enumerate(versions)
        for number in range(60)
    ]
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + 'policy.keep = "longest"\nservice.batch_pages = 16\n'
        topics.send(sent)
        with Spotsieve(tmp_path, toml, "first") as service:
            service.start().until_ready()
            service.until_committed(40)
            service.kill()
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
            config = service.config
        check_verdicts_sent(topics, toml, [page.key for page in sent if page.key])
        verdicts = [verdict for (verdict,) in (verdicts_sent(topics)[page.key or b""] for page in sent)]
        ids = [f"{topics.names['input']}/0/{place}" for place in range(len(sent))]
        copies = [("duplicate", page) for page in ids[:60]]
        replacing = [("novel", page) for page in (*ids[:60], *ids[120:180])]
        assert verdicts == [*[("novel", None)] * 60, *copies, *replacing, *copies]
        assert main(["replay", "-c", str(config), "--json", "--fail-on-difference"]) == 0
        assert json.loads(capsys.readouterr().out)["compared"] == len(sent)
        assert main(["replay", "-c", str(config), "--json", "--set", "policy.keep=first", "--examples", "1"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["differ"], report["differ_in_original_only"]) == (120, 0)
        assert report["examples"][0]["recorded"]["replaces"] == ids[0]
        topics.group += "-again"
        more = toml[toml.index("policy.") :] + 'kafka.restart_from = "earliest"\n'
        with Spotsieve(tmp_path, topics.toml() + more, "again") as service:
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
        # What a page replaced is known until a record says that it is committed, as the records after it do; sent again
        # later it is novel, and no more. The last ones may have no record after them.
        again = verdicts_sent(topics)
        for page, verdict in zip(sent, verdicts, strict=True):
            first, second = again[page.key or b""]
            assert first == verdict
            assert second in ((verdict, ("novel", None)) if verdict[0] == "novel" else (verdict,))
        assert again[sent[0].key or b""][1] == ("novel", None)
        assert again[sent[120].key or b""][1] == ("novel", None)
