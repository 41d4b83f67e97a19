"""Checks a soak: every page id of the input has one verdict in the outputs, and it is the verdict of the log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import orjson
from aiokafka.structs import ConsumerRecord

from spotsieve.state.log.record import decode
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.signature import page_id_text
from tests.fixtures.brokers.topics import TopicSet, header
from tests.fixtures.services.oracle import Verdict, judge_again_in, settings_from

QUIET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """The outputs (read_committed), compared with the input and the log.

    missing: page ids of the input without a verdict  strange: verdicts of other page ids
    doubled: verdicts beyond a page's first  differing: verdicts that differ from a new judgment of the whole log
    submitted_again: pages that are in the log more than once, because a kill left their first verdict pending
    """

    pages: int
    missing: int
    strange: int
    doubled: int
    differing: int
    novel: int
    duplicate: int
    submitted_again: int

    @property
    def holds(self) -> bool:
        """Whether every page has exactly one verdict, the right one."""
        return not (self.missing or self.strange or self.doubled or self.differing)


def together(parts: Sequence[VerdictCounts]) -> VerdictCounts:
    """The sums of the counts of several services."""
    return VerdictCounts(*(sum(column) for column in zip(*map(astuple, parts), strict=True)))


def check(topics: TopicSet, toml: str, directory: Path) -> VerdictCounts:
    """Read all outputs and judge the log again, with a new state in the directory.

    Raises AssertionError if a page that is in the log twice got two different verdicts there.
    """
    sent = topics.read("novel", quiet_seconds=QUIET_SECONDS, keep=_of_page_let_through)
    sent += topics.read("duplicates", quiet_seconds=QUIET_SECONDS, keep=_of_report)
    name = topics.names["input"]
    pages = {
        page_id_text(name, number, offset) for number, end in topics.ends("input").items() for offset in range(end)
    }
    log, log_name = topics.read("log", quiet_seconds=QUIET_SECONDS), topics.names["log"]
    settings = settings_from(toml)
    state = disk_state(directory, verdict_settings_text(settings), log_name, settings.index)
    try:
        expected = judge_again_in(state, toml, log, log_name)
    finally:
        state.close()
    verdicts = Counter(page for page, _ in sent)
    kinds = Counter(kind for _, (kind, _) in sent)
    signed = sum(len(decode(record.value or b"", log_name, record.offset).signatures) for record in log)
    return VerdictCounts(
        pages=len(pages),
        missing=len(pages - verdicts.keys()),
        strange=len(verdicts.keys() - pages),
        doubled=sum(verdicts.values()) - len(verdicts),
        differing=sum(expected.get(page) != verdict for page, verdict in sent),
        novel=kinds["novel"],
        duplicate=kinds["duplicate"],
        submitted_again=signed - len(expected),
    )


def _of_page_let_through(record: ConsumerRecord) -> tuple[str, Verdict]:
    verdict = header(record, "spotsieve-verdict") or b""
    return (header(record, "spotsieve-page") or b"").decode(), (verdict.decode(), None)


def _of_report(record: ConsumerRecord) -> tuple[str, Verdict]:
    report = orjson.loads(record.value)
    return report["page"]["id"], ("duplicate", report["duplicate_of"]["id"])
