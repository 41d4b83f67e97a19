"""The report of a replay as text and JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.insight.replay.comparison import COMPARED, Comparison, Difference, PageOutcome, ReplayVerdict
from spotsieve.stream.insight.replay.order import LogOrder

ROWS = (*COMPARED, PageOutcome.UNDELIVERED, PageOutcome.NOT_RECORDED)
_MAX_CONTRADICTIONS = 3


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay.

    log: topic of the log  settings: the settings that differ from the service's, or ""
    by_log: pages judged in the order of the log
    before, beside, after: pages missing in the log: before its first page of their partition, between its pages, and
    after its last page  gone: offsets that retention removed during the replay
    forgotten: pages forgotten as in the log  again: pages judged again  seconds: time of judging
    interrupted: whether the user stopped it  notices: full sentences for people
    """

    comparison: Comparison
    order: LogOrder
    log: str
    settings: str = ""
    by_log: int = 0
    before: int = 0
    beside: int = 0
    after: int = 0
    gone: int = 0
    forgotten: int = 0
    again: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    notices: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether all compared pages have equal verdicts."""
        return not self.comparison.differ


def as_json(report: ReplayReport) -> dict[str, Any]:
    """The report for machines."""
    comparison, places = report.comparison, report.comparison.recorded.places
    recorded = comparison.recorded
    return {
        "topic": places.topic,
        "range": {str(partition): [first, end] for partition, (first, end) in enumerate(places.spans)},
        "settings_differ": report.settings,
        "messages": comparison.messages,
        "tombstones": comparison.tombstones,
        "seconds": round(report.seconds, 3),
        "messages_per_second": round(comparison.messages / report.seconds, 1) if report.seconds else 0.0,
        "order": {
            "log": report.log,
            "by_log": report.by_log,
            "before_log": report.before,
            "beside_log": report.beside,
            "after_log": report.after,
        },
        "replayed": {outcome.name.lower(): comparison.replayed[outcome] for outcome in COMPARED},
        "recorded_by_replayed": {
            row.name.lower(): {column.name.lower(): comparison.pages[row, column] for column in COMPARED}
            for row in ROWS
        },
        "compared": comparison.compared,
        "differ": comparison.differ,
        "differ_in_original_only": comparison.other_original.total(),
        "original_outside_range": comparison.original_outside,
        "recorded_but_not_replayed": comparison.not_replayed(),
        "gone_meanwhile": report.gone,
        "forgotten": report.forgotten,
        "judged_again": report.again,
        "recorded_again": recorded.again,
        "recorded_differently_again": [comparison.page_id(place) for place in recorded.differing],
        "foreign_messages": recorded.foreign,
        "interrupted": report.interrupted,
        "notices": report.notices,
        "examples": [_difference_json(one) for differences in _examples(comparison) for one in differences],
    }


def as_text(report: ReplayReport) -> str:
    """The report for people: the range and its order, the matrix of verdicts, the differences, and examples."""
    comparison = report.comparison
    places = comparison.recorded.places
    rate = comparison.messages / report.seconds if report.seconds else 0.0
    ranges = [(partition, first, end) for partition, (first, end) in enumerate(places.spans) if end > first]
    spans = ", ".join(f"{partition}: {first:,} to {end - 1:,}" for partition, first, end in ranges[:4])
    more = f" and {len(ranges) - 4:,} more partitions" if len(ranges) > 4 else ""
    dropped = comparison.replayed[PageOutcome.DUPLICATE] / max(comparison.replayed.total(), 1)
    others = comparison.other_original.total()
    lines = [
        f"replayed   {comparison.messages:,} messages of topic {places.topic} at {rate:,.0f}/s, {dropped:.1%} dropped",
        f"range      offsets {spans}{more}",
        f"order      {_order_text(report)}",
        *_settings_lines(report.settings),
        "",
        *_matrix(comparison),
        "",
        f"compared   {comparison.compared:,} pages: {comparison.compared - comparison.differ:,} equal, "
        f"{comparison.differ:,} differ" + (f" ({others:,} only in the original)" if others else ""),
    ]
    lines.extend(f"           {line}" for line in _counts(report))
    lines.extend(f"notice     {notice}" for notice in report.notices)
    if report.interrupted:
        lines.append("interrupted: the report covers the pages compared so far")
    for differences in _examples(comparison):
        lines += ["", _heading(comparison, differences[0])]
        for difference in differences:
            lines.extend(_difference_lines(difference))
    return "\n".join(escape_control_characters(line) for line in lines)


def _counts(report: ReplayReport) -> Iterator[str]:
    """The other counts, except zeros."""
    comparison, recorded = report.comparison, report.comparison.recorded
    counts = (
        (comparison.tombstones, "tombstones were emitted without judging"),
        (report.forgotten, "pages were forgotten, as in the log"),
        (report.again, "pages were judged again, because the log has them again"),
        (
            comparison.original_outside,
            "pages are recorded as copies of a page outside the range and differ: not compared",
        ),
        (comparison.not_replayed(), "pages have a recorded verdict but were not replayed"),
        (report.gone, "offsets were removed by retention during the replay"),
        (recorded.again, "further messages in the output topics repeat a verdict"),
        (recorded.foreign, "messages in the output topics are not from Spotsieve"),
    )
    for number, text in counts:
        if number:
            yield f"{number:,} {text}"
    if recorded.differing:
        shown = ", ".join(comparison.page_id(place) for place in recorded.differing[:_MAX_CONTRADICTIONS])
        yield f"{len(recorded.differing):,} further messages in the output topics CONTRADICT the first one, for {shown}"


def _order_text(report: ReplayReport) -> str:
    parts = [f"{report.by_log:,} as in the log {report.log}"]
    unnamed = (
        (report.before, "before the first page of their partition in the log, by timestamp"),
        (report.beside, "between pages of the log, but missing in it"),
        (report.after, "after the last page of their partition in the log, by timestamp"),
    )
    if not report.by_log:
        return f"{report.before + report.after:,} by timestamp, partition and offset: the log has none of them"
    parts.extend(f"{number:,} {where}" for number, where in unnamed if number)
    return "; ".join(parts)


def _settings_lines(differences: str) -> Iterator[str]:
    for number, clause in enumerate(differences.split("; ")):
        yield f"{'' if number else 'settings':<11}{clause or 'same as -c'}"


def _matrix(comparison: Comparison) -> Iterator[str]:
    yield f"{'recorded / replayed':<20}" + "".join(f"{column.label:>12}" for column in COMPARED)
    for row in ROWS:
        counts = [comparison.pages[row, column] for column in COMPARED]
        if row in COMPARED or any(counts):
            yield f"{row.label:<20}" + "".join(f"{count:>12,}" for count in counts)


def _examples(comparison: Comparison) -> list[list[Difference]]:
    return [differences for _, differences in sorted(comparison.differences.items()) if differences]


def _heading(comparison: Comparison, first: Difference) -> str:
    pair = (first.recorded, first.replayed.outcome)
    if first.recorded == first.replayed.outcome:
        is_duplicate = first.recorded == PageOutcome.DUPLICATE
        other = "of another original" if is_duplicate else "superseding another page, or none"
        return f"recorded and replayed as {pair[0].label}, {other}: {comparison.other_original[pair[0]]:,}"
    return f"recorded as {pair[0].label}, replayed as {pair[1].label}: {comparison.pages[pair]:,}, such as"


def _difference_lines(difference: Difference) -> Iterator[str]:
    relation, original = _relation(difference.recorded), difference.recorded_original
    of_original = f"{relation}{original}" if original else ""
    yield f"  page      {difference.page}  {difference.url}"
    yield f"  recorded  {difference.recorded.label} ({difference.recorded_reason}){of_original}"
    yield f"  replayed  {_replayed_text(difference.replayed)}"


def _replayed_text(replayed: ReplayVerdict) -> str:
    text = f"{replayed.outcome.label} ({replayed.reason})"
    original = replayed.original
    if original is not None:
        text += f"{_relation(replayed.outcome)}{original.page_id}  {original.url}"
    if replayed.score is not None:
        text += f"  score {replayed.score:.4f}"
    return text


def _relation(outcome: PageOutcome) -> str:
    return " of " if outcome == PageOutcome.DUPLICATE else " superseding "


def _difference_json(difference: Difference) -> dict[str, Any]:
    recorded, replayed = difference.recorded, difference.replayed
    original = replayed.original
    return {
        "page": difference.page,
        "url": difference.url,
        "recorded": {
            "verdict": difference.recorded.name.lower(),
            "reason": difference.recorded_reason,
            **_originals(recorded, difference.recorded_original),
        },
        "replayed": {
            "verdict": difference.replayed.outcome.name.lower(),
            "reason": difference.replayed.reason,
            **_originals(replayed.outcome, original.page_id if original else None),
            "original_url": original.url if original else None,
            "score": difference.replayed.score,
        },
    }


def _originals(outcome: PageOutcome, page: str | None) -> dict[str, str | None]:
    """The original of a duplicate, or the page that a novel page supersedes."""
    if outcome == PageOutcome.DUPLICATE or page is None:
        return {"duplicate_of": page}
    return {"duplicate_of": None, "replaces": page}
