"""The service's summary line warns if so many messages are not pages that [input] probably does not fit the topic."""

import structlog

from spotsieve.stream.base.errors import RejectReason
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.run import ServiceSummary


def line_of(summary: ServiceSummary) -> dict[str, object]:
    with structlog.testing.capture_logs() as lines:
        summary.log()
    (line,) = lines
    return dict(line)


def test_the_first_summary_line_warns_where_no_message_is_a_page() -> None:
    metrics = Metrics()
    summary = ServiceSummary(metrics, structlog.stdlib.get_logger("test"))
    metrics.dead_letters.labels(RejectReason.NOT_JSON.value).inc(200)
    line = line_of(summary)
    assert (line["log_level"], line["rejected"], line["rejected_share"]) == ("warning", 200, 1.0)
    assert line["rejected_most"] == "not_json"
    assert "input.format (html: the message is the page itself)" in str(line["advice"])


def test_a_tenth_is_not_too_much_and_a_line_counts_only_what_came_since_the_last_one() -> None:
    metrics = Metrics()
    summary = ServiceSummary(metrics, structlog.stdlib.get_logger("test"))
    metrics.pages.labels(Kind.NOVEL.name.lower(), Reason.NO_MATCH.label).inc(90)
    metrics.dead_letters.labels(RejectReason.NO_BODY.value).inc(10)
    assert line_of(summary)["log_level"] == "info"
    metrics.dead_letters.labels(RejectReason.NO_BODY.value).inc(1)
    assert "input.fields.body" in str(line_of(summary)["advice"])
    assert line_of(summary)["rejected"] == 0
