"""Log lines have one form, and no value can write beyond its own line."""

import json
import logging

import pytest
from aiokafka.errors import NotEnoughReplicasError, ProducerFenced

from spotsieve.stream.base.settings.runtime import LogSettings
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.observe.logs import configure_logs, logger


def test_away_from_a_terminal_a_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings())
    logger().info("summary", pages=3, share=0.5)
    parsed = json.loads(capsys.readouterr().err)
    assert (parsed["event"], parsed["pages"], parsed["share"], parsed["level"]) == ("summary", 3, 0.5, "info")
    assert parsed["timestamp"].endswith("Z")


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_value_with_line_ends_and_escapes_stays_on_its_line(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings.model_validate({"format": style}))
    hostile = "a\nlevel=error\x1b[2J\x9b\u2028\u202e"
    logger().warning("event", url=hostile, listed=[hostile], inside={"url": hostile})
    logging.getLogger("aiokafka").error("from %s", hostile)
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_a_level_hides_what_is_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(level="warning"))
    logger().info("hidden")
    logger().warning("shown")
    assert "hidden" not in (shown := capsys.readouterr().err)
    assert "shown" in shown


def test_libraries_say_warnings_only_even_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    # aiokafka's debug lines hold whole messages and requests.
    configure_logs(LogSettings(level="debug"))
    logging.getLogger("aiokafka.conn").debug("secret request")
    logging.getLogger("aiokafka.conn").warning("trouble")
    shown = capsys.readouterr().err
    assert "secret" not in shown
    assert "trouble" in shown


def test_an_exception_is_told_with_its_traceback_inside_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings())
    try:
        raise RuntimeError("broken\nhere")  # noqa: TRY301 - the test is about its telling
    except RuntimeError:
        logger().exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "RuntimeError" in json.loads(line)["exception"]


def test_missing_replicas_are_told_when_they_stay_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = logging.getLogger("aiokafka.producer.sender")
    monkeypatch.setattr(sender, "filters", [])
    configure_logs(LogSettings())
    for _ in range(30):
        sender.warning("Got error produce response: %s", NotEnoughReplicasError())
    assert 1 <= len(capsys.readouterr().err.splitlines()) < 30, "the first few are Kafka finishing a transaction"


def test_what_aiokafka_says_all_the_time_is_thinned_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings())
    client = logging.getLogger("aiokafka")
    for tenth in range(600):  # A minute without a broker, by the clock of the records.
        for number, text in enumerate(("Unable connect to node with id %s", "Failed fetch messages from %s")):
            record = client.makeRecord(client.name, logging.ERROR, "", 0, text, (tenth % 3 + number,), None)
            record.created = tenth / 10
            client.handle(record)
    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert 10 <= len(lines) <= 25
    counted = [int(line.split("(and ")[1].split()[0]) for line in lines if "more of this kind" in line]
    assert len(lines) + sum(counted) >= 1_200 - 2 * 101, "all but those of the last seconds are shown or counted"
    logger().error("ours")
    for _ in range(20):
        logger().error("ours")
    assert len(capsys.readouterr().err.splitlines()) == 21


def test_kinds_of_lines_take_no_memory_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings())
    client = logging.getLogger("aiokafka")
    for number in range(2_000):
        client.handle(client.makeRecord(client.name, logging.ERROR, "", 0, f"connection {number}", (), None))
    assert len(capsys.readouterr().err.splitlines()) == 2_000, "different lines are all shown"
    (handler,) = logging.getLogger().handlers
    (thinning,) = handler.filters
    assert len(vars(thinning)["_kinds"]) <= 256


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain ü 漢 🎉", "plain ü 漢 🎉"),
        ("a\x00b\tc\nd\re", r"a\x00b\x09c\x0ad\x0de"),
        ("\x1b[2J\x7f\x9b", r"\x1b[2J\x7f\x9b"),
        ("\u2028\u202e\u2066\u200f", r"\u2028\u202e\u2066\u200f"),
    ],
)
def test_control_characters_are_shown_by_their_number(text: str, safe: str) -> None:
    assert escape_control_characters(text) == safe


@pytest.mark.parametrize(
    ("error", "shown"), [(ConnectionResetError(), False), (ProducerFenced(), False), (ValueError(), True)]
)
def test_the_user_of_a_connection_or_producer_tells_how_it_ended_not_its_garbage(
    error: Exception, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogSettings())
    logging.getLogger("asyncio").error("Future exception was never retrieved\nfuture: ...", exc_info=error)
    assert ("never retrieved" in capsys.readouterr().err) is shown
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: ...", exc_info=error)
    assert "never retrieved" in capsys.readouterr().err
