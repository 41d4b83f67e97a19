"""Owns which log topics are refused, and which are warned of."""

import pytest
import structlog

from stream.errors import SettingError
from stream.service.topics import LOG_RECORD_BYTES, TopicFacts, check_log

KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def test_a_log_that_keeps_every_record_is_taken_without_a_word() -> None:
    with structlog.testing.capture_logs() as lines:
        check_log("signatures", TopicFacts(1, KEPT))
    assert not lines


def test_a_log_that_forgets_is_warned_of() -> None:
    with structlog.testing.capture_logs() as lines:
        check_log("signatures", TopicFacts(1, {**KEPT, "retention.ms": "604800000"}))
    (line,) = lines
    assert line["log_level"] == "warning"
    assert line["retention.ms"] == "604800000"
    assert "retention.bytes" not in line


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (TopicFacts(2, KEPT), "must have one partition"),
        (TopicFacts(1, {**KEPT, "cleanup.policy": "compact,delete"}), "must not be compacted"),
        (TopicFacts(1, {**KEPT, "max.message.bytes": "1000"}), "must take records of"),
        (TopicFacts(1, {**KEPT, "max.message.bytes": str(LOG_RECORD_BYTES)}), "and their batch header"),
    ],
)
def test_a_log_that_cannot_carry_the_order_of_pages_is_refused(facts: TopicFacts, rule: str) -> None:
    with pytest.raises(SettingError, match=rule):
        check_log("signatures", facts)
