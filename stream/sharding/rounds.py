"""Cuts the log into rounds, groups of pages that all shards process together, and checks the limits of a round.

The end of a round changes no verdict, like the end of a micro-batch. Two ends are mandatory. A round lies within one
step of the deduplication window's clock, so that all of its pages share one lower bound of live entries. And pending
verdicts are kept until their pages are committed: a round ends before a page that a mark of an earlier record in the
round commits. A record whose own marks commit some of its pages is never split.

limits_in_shards rejects settings that shards and a resolver cannot implement. URLs decide nothing here: a response does
not contain the URL of another shard's page in time. And a shard that sees only some of a page's keys cannot count how
many of all its keys a candidate shares.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from spotsieve.state.horizon import Clock, runs_of
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.loaded import EVERY_PARTITION
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import OnebitSettings, SpotsigsSettings
from spotsieve.stream.base.signature import Signatures, join_signatures, page_ids_of
from spotsieve.stream.judge.policy import policy_of
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.url_rules import rule_name


class LogPlace(NamedTuple):
    """A place in the log, before a page: the offset of its record, and its row in the record."""

    record: int
    page: int

    @property
    def record_end(self) -> int:
        """The offset behind the last record that has pages before this place."""
        return self.record + (self.page > 0)


class RoundMark(NamedTuple):
    """The commit mark of a record of a round. first, end: the pages of that record, by their rows in the round"""

    first: int
    end: int
    committed: CommitMark


class Round(NamedTuple):
    """The pages between two places of the log.

    first_number: the entry number of the next page that becomes indexed
    clock: the clock by which the pages are judged
    marks: the commit marks of the records that begin in the round
    last_record: checksum of the last record that has pages in the round
    excluded: rows of poison pages (isolation.py), ascending; the round treats them as empty
    """

    start: LogPlace
    end: LogPlace
    signatures: Signatures
    first_number: int
    clock: Clock
    marks: tuple[RoundMark, ...]
    last_record: int
    excluded: tuple[int, ...] = ()


def next_round(
    records: Sequence[tuple[int, LogRecord]], first_page: int, clock: Clock, entry_count: int, step_ms: int, most: int
) -> Round:
    """The next round of the pages of these records, each with its offset in the log.

    first_page: row in the first record at which the round begins
    clock, entry_count: of the state before the round
    step_ms: the step of the clock (state.horizon.step_of)
    most: the maximum number of pages, except that some records are not split
    """
    parts, marks, pages = list[Signatures](), list[RoundMark](), 0
    for number, (_, record) in enumerate(records):
        begin = 0 if number else first_page
        end = min(len(record.signatures), begin + most - pages)
        if record.committed and end < len(record.signatures) and _lies_below_own_marks(record):
            end = len(record.signatures)
        part = record.signatures.part(begin, end)
        # The marks of a record belong to the round of its first page.
        marks += [] if begin else [RoundMark(pages, pages + len(part), mark) for mark in record.committed]
        parts.append(part)
        pages += len(part)
        if pages >= most:
            break
    signatures = join_signatures(parts)
    end = min(_within_step(signatures, clock, step_ms), _before_known(signatures, marks))
    signatures = signatures.part(0, end)
    if step_ms and end:
        watermark = max(clock.watermark_ms, int(signatures.event_time_ms.max()))
        clock = clock.moved(watermark, step_ms, entry_count)
    return _cut(records, first_page, signatures, clock, entry_count)


def round_between(
    records: Sequence[tuple[int, LogRecord]], start: LogPlace, end: LogPlace, first_number: int, clock: Clock
) -> Round | None:
    """The round between two places, cut by another process; None if these records do not have such places.

    records: all records of pages from the start to the end, each with its offset  clock: of the round
    """
    parts = list[Signatures]()
    for offset, record in records:
        rows = len(record.signatures)
        begin, stop = (start.page if offset == start.record else 0), (end.page if offset == end.record else rows)
        if not start.record <= offset <= end.record or not begin <= stop <= rows:
            return None
        parts.append(record.signatures.part(begin, stop))
    if not parts or records[0][0] != start.record:
        return None
    round_ = _cut(records, start.page, join_signatures(parts), clock, first_number)
    return round_ if round_.end == end else None


def _cut(
    records: Sequence[tuple[int, LogRecord]], first_page: int, signatures: Signatures, clock: Clock, entry_count: int
) -> Round:
    """The round of these pages, which are the first pages of the records from row `first_page` on."""
    end, start = len(signatures), LogPlace(records[0][0], first_page)
    place, last, taken, found = start, records[0][1].checksum, 0, list[RoundMark]()
    for offset, record in records:
        begin = first_page if offset == start.record else 0
        rows = min(len(record.signatures) - begin, end - taken)
        if taken == end and (place.page > begin or len(record.signatures) > begin):
            break
        # The marks of a record belong to the round of its first page.
        found += [] if begin else [RoundMark(taken, taken + rows, mark) for mark in record.committed]
        taken, last = taken + rows, record.checksum
        row = begin + rows
        place = LogPlace(offset + 1, 0) if row == len(record.signatures) else LogPlace(offset, row)
    return Round(start, place, signatures, entry_count, clock, tuple(found), last)


def _within_step(signatures: Signatures, clock: Clock, step_ms: int) -> int:
    """Number of pages, from the first on, that lie in one step of the clock."""
    if not step_ms or not len(signatures):
        return len(signatures)
    return next(runs_of(signatures.event_time_ms, clock.watermark_ms, step_ms)).end


def _before_known(signatures: Signatures, marks: Sequence[RoundMark]) -> int:
    """Number of pages before the first one that an earlier record commits."""
    if not any(mark.end < len(signatures) for mark in marks):
        return len(signatures)
    committed, coming = CommittedPages(), deque(marks)
    for page, page_id in enumerate(page_ids_of(signatures)):
        while coming and coming[0].end <= page:
            committed.add(coming.popleft().committed)
        if page_id in committed:
            return page
    return len(signatures)


def _lies_below_own_marks(record: LogRecord) -> bool:
    """Whether a record commits pages of its own: these were submitted again much later."""
    committed = CommittedPages()
    for mark in record.committed:
        committed.add(mark)
    return any(page_id in committed for page_id in page_ids_of(record.signatures))


def has_pages(record: LogRecord) -> bool:
    """Whether a record belongs to a round: it has pages or commit marks."""
    bodies = record.configuration, record.skips, record.handover
    return not record.foreign and not record.forgotten and all(one is None for one in bodies)


class CommittedPages:
    """The pages that marks commit. A page takes one look-up, however many marks there are."""

    def __init__(self) -> None:
        self._every = False
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, mark: CommitMark) -> None:
        """Add the pages that a mark commits."""
        place = mark.source, mark.partition
        self._every |= mark.partition == EVERY_PARTITION
        self._ends[place] = max(mark.offset, self._ends.get(place, 0))

    def __contains__(self, page_id: PageId) -> bool:
        return self._every or page_id[2] < self._ends.get(page_id[:2], 0)


_ONE_PROCESS = "or judge in one process (cluster.shards = 0; spotsieve filter), which has no such limit"


def limits_in_shards(settings: Settings, scheme: Scheme) -> Limits:
    """The limits of a round, with the scheme's own candidate limit if index.candidate_limit is 0.

    scheme: the scheme by scheme_in_scope(settings)

    Raises SettingError for settings that only one process implements: policy.recrawl, policy.keep by time or rank,
    index.scope = domain, rules with a threshold or a scope, and a scheme whose candidates must share several keys.
    """
    index, policy = settings.index, settings.policy
    if policy.recrawl != "drop":
        raise SettingError("policy.recrawl", "must be drop in shards", policy.recrawl, f"leave it out, {_ONE_PROCESS}")
    if index.scope == "domain":
        raise SettingError(
            "index.scope", "must be global or host in shards", index.scope, f"choose one of these, {_ONE_PROCESS}"
        )
    if policy.keep not in ("first", "longest"):
        then = f"choose one of these, {_ONE_PROCESS}"
        raise SettingError("policy.keep", "must be first or longest in shards", policy.keep, then)
    for number, rule in enumerate(settings.rules):
        for name, value in (("threshold", rule.threshold), ("scope", rule.scope or None)):
            if value is not None:
                named = f"{name} of {rule_name(number, rule)}"
                then = f"leave it out (exempt alone is kept to), {_ONE_PROCESS}"
                raise SettingError(named, "must not be given in shards", value, then)
    if isinstance(settings.scheme, OnebitSettings | SpotsigsSettings) and settings.scheme.least_shared > 1:
        least = settings.scheme.least_shared
        then = f"set scheme.c = 1 or raise scheme.{settings.scheme.threshold.setting}, {_ONE_PROCESS}"
        raise SettingError("scheme.c", "must stand for 1 in shards", least, then)
    return Limits(index.bucket_cap, index.candidate_limit or scheme.candidate_limit, policy_of(settings).longer_by)
