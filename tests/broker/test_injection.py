"""Nothing in a page can write to a log, a terminal or a header of ours."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pytest
from aiokafka.structs import ConsumerRecord

from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet, header
from tests.fixtures.pages.crawls import PageMessage, html_of
from tests.fixtures.services.service import Spotsieve

HOSTILE = "https://evil.example/\x1b[2J\x1b]0;owned\x07\r\nlevel=error event=forged\x9b1m\u2028\u202e"
"""Clears a screen, sets a title, begins a line of its own, turns the writing direction."""


@dataclass(frozen=True)
class Attack:
    """What came out of a service that met hostile messages."""

    log: str
    novel: list[ConsumerRecord]
    duplicates: list[ConsumerRecord]
    rejected: list[ConsumerRecord]


@pytest.fixture(scope="module", params=["json", "text"])
def attack(kafka: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Attack]:
    def page(body: object, **fields: object) -> PageMessage:
        message = json.dumps({"url": HOSTILE, "body": body, "id": HOSTILE + str(len(fields)), **fields})
        return PageMessage(HOSTILE.encode(), message.encode(), ((HOSTILE, HOSTILE.encode()),))

    sent = [
        page(html_of(1)),
        page(html_of(1, template=2), more=1),
        page({"no": HOSTILE}),
        page(None),
        page(html_of(2), fetched_at=HOSTILE),
        page(html_of(3), body_encoding=HOSTILE),
        PageMessage(b"cut", ('{"url": "' + HOSTILE).encode()),
        PageMessage(HOSTILE.encode(), None, ((HOSTILE, b"\xff\xfe"),)),
    ]
    with TopicSet(kafka.bootstrap_servers) as topics:
        toml = topics.toml() + (
            'input.fields.body_encoding = "body_encoding"\nservice.mode = "annotate"\nlog.level = "debug"\n'
            f'log.format = "{request.param}"\nlog.summary_seconds = 1\n'
        )
        with Spotsieve(tmp_path_factory.mktemp("attack"), toml) as service:
            topics.send(sent)
            service.command = ("run", "--set", "metrics.port=0")
            service.start()
            topics.until_all_committed(90)
            assert service.terminate() == 0, service.text()
            yield Attack(service.text(), *(topics.read(role) for role in ("novel", "duplicates", "rejected")))


def test_the_log_holds_no_control_character_and_no_forged_line(attack: Attack) -> None:
    raw = [character for character in attack.log if ord(character) < 0x20 and character != "\n"]
    assert not raw
    assert not any(0x7F <= ord(character) < 0xA0 for character in attack.log)
    assert not any(line.startswith("level=error") for line in attack.log.splitlines())


def test_headers_of_ours_are_one_line_of_plain_characters(attack: Attack) -> None:
    seen = 0
    for record in (*attack.novel, *attack.rejected):
        for name, value in record.headers:
            if name.startswith("spotsieve-"):
                seen += 1
                text = value.decode()
                assert text.isprintable(), (name, text)
                assert len(value) <= 1024
    assert seen > 10


def test_their_own_key_value_and_headers_are_passed_on_untouched(attack: Attack) -> None:
    first = attack.novel[0]
    assert first.key == HOSTILE.encode()
    assert header(first, HOSTILE) == HOSTILE.encode()
    tombstone = next(record for record in attack.novel if record.value is None)
    assert header(tombstone, HOSTILE) == b"\xff\xfe"


def test_a_report_is_one_line_of_json_that_keeps_the_address(attack: Attack) -> None:
    (report,) = attack.duplicates
    assert b"\n" not in report.value
    assert b"\x1b" not in report.value
    assert orjson.loads(report.value)["page"]["url"] == HOSTILE


def test_what_cannot_be_read_becomes_a_dead_letter_with_its_reason(attack: Attack) -> None:
    reasons = [header(record, "spotsieve-reason") for record in attack.rejected]
    assert sorted(filter(None, reasons)) == [b"bad_time", b"field_type", b"field_type", b"no_body", b"not_json"]
