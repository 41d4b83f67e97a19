"""Applies the log to the state: decodes, judges and indexes each record once, in log order, whoever wrote it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.meta import LogIdentity, rules_of_settings
from spotsieve.state.horizon import Clock, runs_of, step_of
from spotsieve.state.identity import check_last_record, check_settings_digest, closed_log_error
from spotsieve.state.index import IndexUpdate, LiveView
from spotsieve.state.log.record import NO_PAGES, LogRecord, check_sketches, checksum_of, decode
from spotsieve.state.removal import removal_of
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import ENVIRONMENT_ERRORS
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Verdicts, concatenate, marks_of_pages, no_verdicts
from spotsieve.stream.judge import (
    PLAIN,
    Policy,
    RecordJudgment,
    empty_update,
    entry_of,
    judge_isolated,
    judge_record,
    policy_of,
)
from spotsieve.stream.judge.by_host.confirmation import look_up_page
from spotsieve.stream.judge.by_host.distinctive_text import is_template
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope

LOGGER = logging.getLogger("spotsieve")


@dataclass(slots=True)
class ApplyResult:
    """Verdicts of one applied record, and numbers for metrics.

    indexed: number of indexed pages
    capped: postings not indexed because their bucket was full
    bucket_sizes: int64[b], postings per bucket that grew
    filled_buckets: number of these buckets that became full
    again: the record had been applied before, so nothing was indexed
    forgotten: page ids that a record of kind 2 removed from the state, without ids that were removed before
    poison: the error of each poison page, by its row; a poison page is unchecked
    """

    record: LogRecord
    verdicts: Verdicts
    indexed: int
    capped: int
    bucket_sizes: NDArray[np.int64]
    filled_buckets: int
    again: bool
    forgotten: tuple[PageId, ...] = ()
    poison: Mapping[int, Exception] = field(default_factory=dict)


def open_engine(settings: Settings, log_name: str) -> "Engine":
    """Open the state directory of the settings. Raises SettingError, StateError, SettingsMismatch."""
    text = verdict_settings_text(settings)
    scheme = scheme_in_scope(settings)
    state = disk_state(settings.index.directory, text, log_name, settings.index)
    return Engine(scheme, state, settings.index, settings_digest(text), log_name, policy_of(settings))


class Engine:
    """Judges the records of one log by a scheme over a state. Call it from one thread."""

    def __init__(
        self,
        scheme: Scheme,
        state: State,
        limits: IndexSettings,
        settings_digest: bytes,
        log_name: str,
        policy: Policy = PLAIN,
    ) -> None:
        """scheme: signs with the salt of the state from now on"""
        self.scheme = salted(scheme, state.salt)
        self.state = state
        self.limits = limits
        self.settings_digest = settings_digest
        self.log_name = log_name
        self._policy = policy
        self._sketch_words = rules_of_settings(state.identity.settings).sketch_words
        self._step_ms = step_of(limits.horizon_hours)
        self._poison: dict[int, Exception] = {}

    def adopt(self, log: LogIdentity | None) -> None:
        """Bind a new state to its log, or check that it belongs to this log; then sign with the salt of the log.

        log: None if the log has lost its first record  Raises StateError.
        """
        if log is not None:
            self.state.adopt(log)
        self.scheme = salted(self.scheme, self.state.salt)

    def apply(self, record: bytes | LogRecord, offset: int) -> ApplyResult:
        """Judge the record at this log offset and index its novel pages, or forget the pages that it names.

        State and position move together. Offsets may have gaps, because Kafka numbers transaction markers too.

        With a deduplication window, a record is judged and indexed in runs of pages of one step of event time; nearly
        every record is one run. After a crash between two runs, the call continues after the pages that the state has
        applied. The commit marks of a record are stored with its first run. A record may have marks and no pages.

        A record before the state's position is judged again, and nothing is indexed: each page finds its pending
        verdict or its original, so it gets the same verdict again. Only pages outside the window may get a new one.

        Records of other programs and configurations only move the position. The log's first record has the settings of
        this engine, which is checked when the log is opened; a later configuration lost the race for the empty log. The
        record that closes a log does not move the position, so every start stops at it.

        Raises DamagedRecord, SettingsMismatch, StateError. The state is then as before the call, or before a run.
        """
        if isinstance(record, bytes):
            record = decode(record, self.log_name, offset)
        if not record.foreign and record.configuration is None:
            check_settings_digest(record.settings_digest, self.settings_digest, self.log_name, offset)
            check_sketches(record, self._sketch_words, self.log_name, offset)
        state, signatures = self.state, record.signatures
        again = offset < state.position
        done = len(signatures) if again else state.pages_applied
        if done and not again:
            check_last_record(self.log_name, state.position + 1, state.last_record, record.checksum)
        if record.forgotten:
            return forget(state, record, offset)
        if record.handover is not None and record.handover.closed:
            raise closed_log_error(self.log_name, offset, record.handover.log)
        moves = record.skips is not None or record.handover is not None
        if record.foreign or record.configuration is not None or moves:
            return self._move_past(record, offset)
        parts, updates = list[Verdicts](), list[IndexUpdate]()
        self._poison = {}
        if done or again:
            parts.append(self._judge(signatures, 0, done, state.clock)[0])
        for start, end, clock in () if again else self._runs(signatures.event_time_ms, done):
            verdicts, index_update = self._judge(signatures, start, end, clock)
            if not start and record.committed:
                # Only for the first run: a later run may have stored a pending verdict that lies below a mark.
                index_update = replace(index_update, committed=record.committed)
            if end == len(signatures):
                state.file(index_update, offset + 1, record.checksum, clock=clock)
            else:
                state.file(index_update, offset, record.checksum, end, clock)
            parts.append(verdicts)
            updates.append(index_update)
        applied = _apply_result(record, parts, updates, self.limits.bucket_cap, again)
        return replace(applied, poison=self._poison) if self._poison else applied

    def skip(self, value: bytes, offset: int) -> ApplyResult:
        """Skip a record that cannot be applied, because a later record of the log says so. Raises StateError."""
        return self._move_past(LogRecord(b"", 0, b"", NO_PAGES, checksum_of(value)), offset)

    def _move_past(self, record: LogRecord, offset: int) -> ApplyResult:
        """Move the position past a record without pages."""
        again = offset < self.state.position
        if not again:
            self.state.file(None, offset + 1, record.checksum)
        return ApplyResult(record, no_verdicts(), 0, 0, np.zeros(0, np.int64), 0, again)

    def _runs(self, event_time_ms: NDArray[np.int64], done: int) -> Iterator[tuple[int, int, Clock]]:
        """Yield (start, end, clock) for each run of pages from page `done` on.

        Take the next run after the previous one is indexed: a mark of the clock holds the number of the next entry.
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
        """Judge the pages start..end - 1 against the entries that are live at this clock. Poison pages are isolated."""
        if not len(signatures):
            return no_verdicts(), empty_update(signatures, self.state.entry_count)
        part = signatures if end - start == len(signatures) else signatures.part(start, end)
        verdicts, index_update, poison = judge_isolated(lambda pages: self._judge_all(pages, clock)[:2], part)
        self._poison |= {start + row: error for row, error in poison.items()}
        return verdicts, index_update

    def _judge_all(self, pages: Signatures, clock: Clock) -> RecordJudgment:
        """Judge pages against the entries that are live at this clock. An error is not isolated."""
        view = LiveView(self.state, clock.floor) if clock.floor else self.state
        limits = self.limits
        return judge_record(pages, self.scheme, view, limits.bucket_cap, limits.candidate_limit, self._policy)

    def with_marks(self, verdicts: Verdicts, signatures: Signatures) -> Verdicts:
        """The verdicts with the template marks of all novel pages.

        A page that was judged before is marked by the present memory of its host. A page has no marks if the look-up
        fails with an internal error, which is logged.
        Raises ValueError for a scheme without host memory.
        """
        host_thresholds = self.scheme.host_thresholds
        if host_thresholds is None:
            raise ValueError(f"the scheme {self.scheme.name} has no memory of hosts")
        novel = verdicts.kind == Kind.NOVEL
        marks = verdicts.marks
        if marks is not None and bool(marks.known[novel].all()):
            return verdicts
        pages = [None if marks is None else marks.of_page(row) for row in range(len(verdicts))]
        for row in np.flatnonzero(novel).tolist():
            if pages[row] is None:
                page = signatures.part(row, row + 1)
                try:
                    pages[row] = is_template(look_up_page(page, self.state, host_thresholds, self._policy.rules))
                except ENVIRONMENT_ERRORS:
                    raise
                except Exception:
                    text = "looking up template text failed with an internal error for %s; please report the error"
                    LOGGER.exception(text, escape_control_characters(entry_of(page, 0).id))
        return replace(verdicts, marks=marks_of_pages(pages))


def _apply_result(
    record: LogRecord, parts: Sequence[Verdicts], updates: Sequence[IndexUpdate], cap: int, again: bool
) -> ApplyResult:
    """Combine the runs of one record. cap: postings of a full bucket"""
    grown = [sizes_of(index_update.buckets.bounds) for index_update in updates]
    sizes = grown[0] if len(grown) == 1 else np.concatenate([np.empty(0, np.int64), *grown])
    full = np.count_nonzero(sizes >= cap) if len(sizes) else 0
    return ApplyResult(
        record,
        concatenate(parts),
        sum([len(index_update.pages) for index_update in updates]),
        sum([index_update.capped for index_update in updates]),
        sizes,
        int(full),
        again,
    )


def forget(state: State, record: LogRecord, offset: int, whole: bool = True) -> ApplyResult:
    """Remove the pages that a record of kind 2 names. This needs no scheme.

    whole: the state holds all entries, and not only those of a shard
    Raises CorruptRecord, StateError. The state is then as before the call.
    """
    again, removed = offset < state.position, tuple[PageId, ...]()
    if not again:
        removal = removal_of(record.forgotten, state, state.clock.floor, whole)
        state.remove(removal, offset + 1, record.checksum)
        removed = removal.page_ids
    return ApplyResult(record, no_verdicts(), 0, 0, np.zeros(0, np.int64), 0, again, removed)
