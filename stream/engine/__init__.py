"""Applies the log: decodes, judges and files each record once, in order, whoever wrote it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock, runs_of, step_of
from spotsieve.state.identity import check_last_record, check_settings_digest, closed_log_error
from spotsieve.state.index import Buckets, IndexUpdate, LiveView
from spotsieve.state.log.record import NO_PAGES, LogRecord, checksum_of, decode
from spotsieve.state.removal import removal_of
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts, concatenate, no_verdicts
from spotsieve.stream.judge import PLAIN, Policy, RecordJudgment, judge_isolated, judge_record, policy_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What applying one record did; the numbers are for metrics.

    indexed: pages filed  capped: filings left out because their bucket was full
    bucket_sizes: int64[b], postings of the buckets that grew
    filled_buckets: how many of them became full  again: the record had been applied before, nothing was filed
    forgotten: page ids that a record of kind 2 took out of the state; the others it names were forgotten before
    broken: the error of each page that broke the judge, by its row; such a page is unchecked
    """

    record: LogRecord
    verdicts: Verdicts
    indexed: int
    capped: int
    bucket_sizes: NDArray[np.int64]
    filled_buckets: int
    again: bool
    forgotten: tuple[PageId, ...] = ()
    broken: Mapping[int, Exception] = field(default_factory=dict)


def open_engine(settings: Settings, log_name: str) -> "Engine":
    """The engine over the state directory of the settings. Raises SettingError, StateError, SettingsMismatch."""
    text = verdict_settings_text(settings)
    scheme = scheme_in_scope(settings)
    state = disk_state(settings.index.directory, text, log_name, settings.index)
    return Engine(scheme, state, settings.index, settings_digest(text), log_name, policy_of(settings))


class Engine:
    """The one that judges: a scheme over a state that follows one log. Call it from one thread."""

    def __init__(
        self,
        scheme: Scheme,
        state: State,
        limits: IndexSettings,
        settings_digest: bytes,
        log_name: str,
        policy: Policy = PLAIN,
    ) -> None:
        self.scheme = scheme
        self.state = state
        self.limits = limits
        self.settings_digest = settings_digest
        self.log_name = log_name
        self._policy = policy
        self._step_ms = step_of(limits.horizon_hours)
        self._broken: dict[int, Exception] = {}

    def apply(self, record: bytes | LogRecord, offset: int) -> ApplyResult:
        """Judge the record at this log offset and file its novel pages, or forget those it names; state and position
        move together.

        With a horizon a record is judged and filed run by run, a run being pages of one step of event time; nearly
        every record is one run. After a crash between two runs it goes on behind the pages that the state has applied.
        The marks of a record, of what its writer knew to be committed, are filed with its first run; a record may have
        marks and no pages.
        A record before the state's position is judged again without index_update: every page in it finds its first
        attempt
        or the original that it had, so the verdicts are those of then; of what has left the horizon, those of now. An
        offset may be skipped (Kafka numbers transaction markers too).
        Records that are none of ours only move the position, and so do configurations: whoever opens a log has checked
        that its first record is of these settings, and a later one of others lost the race for an empty log.
        The record that ends a log moves nothing: whoever comes to it stops there, at every start again.
        Raises DamagedRecord, SettingsMismatch, StateError; the state is then as before the call, or before a run.
        """
        if isinstance(record, bytes):
            record = decode(record, self.log_name, offset)
        if not record.foreign and record.configuration is None:
            check_settings_digest(record.settings_digest, self.settings_digest, self.log_name, offset)
        state, signatures = self.state, record.signatures
        again = offset < state.position
        done = len(signatures) if again else state.pages_applied
        if done and not again:
            check_last_record(self.log_name, state.position + 1, state.last_record, record.checksum)
        if record.forgotten:
            return forget(state, record, offset)
        if record.handover is not None and record.handover.closed:
            raise closed_log_error(self.log_name, offset, record.handover.log)
        if record.foreign or any(told is not None for told in (record.configuration, record.skips, record.handover)):
            return self._pass_over(record, offset)
        parts, filings = list[Verdicts](), list[IndexUpdate]()
        self._broken = {}
        if done or again:
            parts.append(self._judge(signatures, 0, done, state.clock)[0])
        for start, end, clock in () if again else self._runs(signatures.event_time_ms, done):
            verdicts, index_update = self._judge(signatures, start, end, clock)
            if not start:
                # Once for a record: a later run may have remembered an attempt that lies below a mark.
                index_update = replace(index_update, committed=record.committed)
            if end == len(signatures):
                state.file(index_update, offset + 1, record.checksum, clock=clock)
            else:
                state.file(index_update, offset, record.checksum, end, clock)
            parts.append(verdicts)
            filings.append(index_update)
        applied = _applied(record, parts, filings, self.limits.bucket_cap, again)
        return replace(applied, broken=self._broken) if self._broken else applied

    def skip(self, value: bytes, offset: int) -> ApplyResult:
        """Pass over a record that cannot be applied, as the log tells all of its readers. Raises StateError."""
        return self._pass_over(LogRecord(b"", 0, b"", NO_PAGES, checksum_of(value)), offset)

    def _pass_over(self, record: LogRecord, offset: int) -> ApplyResult:
        """Move the position behind a record that has neither pages nor forgotten ones."""
        again = offset < self.state.position
        if not again:
            self.state.file(None, offset + 1, record.checksum)
        return ApplyResult(record, no_verdicts(), 0, 0, np.zeros(0, np.int64), 0, again)

    def _runs(self, event_time_ms: NDArray[np.int64], done: int) -> Iterator[tuple[int, int, Clock]]:
        """Pages start..end - 1 from page `done` on, each run with the clock it is judged by.

        Ask for the next run after the one before is indexed: a mark holds the number of the next entry.
        """
        state = self.state
        if not self._step_ms or done == len(event_time_ms):
            yield done, len(event_time_ms), state.clock
            return
        for run in runs_of(event_time_ms[done:], state.clock.watermark_ms, self._step_ms):
            yield (
                done + run.start,
                done + run.end,
                state.clock.moved(run.watermark_ms, self._step_ms, state.entry_count),
            )

    def _judge(self, signatures: Signatures, start: int, end: int, clock: Clock) -> tuple[Verdicts, IndexUpdate]:
        """Pages start..end - 1, by what lives at this time of the clock."""
        if not len(signatures):
            return no_verdicts(), empty_update(signatures, self.state.entry_count)
        part = signatures if end - start == len(signatures) else signatures.part(start, end)
        verdicts, index_update, broken = judge_isolated(lambda pages: self._judge_all(pages, clock)[:2], part)
        self._broken |= {start + row: error for row, error in broken.items()}
        return verdicts, index_update

    def _judge_all(self, pages: Signatures, clock: Clock) -> RecordJudgment:
        """What is found of pages, none of which may break the code, by what lives at this time of the clock."""
        view = LiveView(self.state, clock.floor) if clock.floor else self.state
        limits = self.limits
        return judge_record(pages, self.scheme, view, limits.bucket_cap, limits.candidate_limit, self._policy)


def empty_update(signatures: Signatures, first_number: int) -> IndexUpdate:
    """The filing of a record without pages: its marks are all that it may have."""
    none = np.empty(0, np.int64)
    no_words = np.empty(0, np.uint64)
    return IndexUpdate(signatures, none, first_number, no_words, Buckets(np.zeros(1, np.int64), no_words, no_words), 0)


def _applied(
    record: LogRecord, parts: Sequence[Verdicts], filings: Sequence[IndexUpdate], cap: int, again: bool
) -> ApplyResult:
    """What judging and filing a record run by run did."""
    sizes = np.concatenate(
        [np.empty(0, np.int64), *(sizes_of(index_update.buckets.bounds) for index_update in filings)]
    )
    return ApplyResult(
        record,
        parts[0] if len(parts) == 1 else concatenate(parts),
        sum(len(index_update.pages) for index_update in filings),
        sum(index_update.capped for index_update in filings),
        sizes,
        int(np.count_nonzero(sizes >= cap)),
        again,
    )


def forget(state: State, record: LogRecord, offset: int, whole: bool = True) -> ApplyResult:
    """Take out the pages that a record of kind 2 names; this needs no scheme. whole: the state holds all entries

    Raises CorruptRecord, StateError; the state is then as it was before the call.
    """
    again, gone = offset < state.position, tuple[PageId, ...]()
    if not again:
        removal = removal_of(record.forgotten, state, state.clock.floor, whole)
        state.remove(removal, offset + 1, record.checksum)
        gone = removal.page_ids
    return ApplyResult(record, no_verdicts(), 0, 0, np.zeros(0, np.int64), 0, again, gone)
