"""Owns applying the log: each record is decoded, judged and filed once, in order, whoever wrote it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from state.forgetting import PageId, removal_of
from state.identity import check_settings_digest
from state.index import State
from state.logrecord import LogRecord, decode
from state.rocks import RocksState
from stream.config import IndexSettings, Settings
from stream.judge import judge
from stream.schemes import Scheme
from stream.schemes.registry import scheme_of
from stream.verdict import Verdicts, no_verdicts
from stream.verdict_settings import settings_digest, verdict_settings_text


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying one record did; the numbers are for metrics.

    filed: pages filed  capped: filings left out because their bucket was full
    bucket_sizes: int64[b], postings of the buckets that grew
    filled_buckets: how many of them became full  again: the record had been applied before, nothing was filed
    forgotten: page ids that a record of kind 2 took out of the state; the others it names were forgotten before
    """

    record: LogRecord
    verdicts: Verdicts
    filed: int
    capped: int
    bucket_sizes: NDArray[np.int64]
    filled_buckets: int
    again: bool
    forgotten: tuple[PageId, ...] = ()


def open_engine(settings: Settings, log_name: str) -> "Engine":
    """The engine over the state directory of the settings. Raises SettingError, StateError, SettingsMismatch."""
    text = verdict_settings_text(settings)
    scheme = scheme_of(settings.scheme)
    state = RocksState.open(settings.index.directory, text, log_name, settings.index)
    return Engine(scheme, state, settings.index, settings_digest(text), log_name)


class Engine:
    """The one that judges: a scheme over a state that follows one log. Call it from one thread."""

    def __init__(
        self, scheme: Scheme, state: State, limits: IndexSettings, settings_digest: bytes, log_name: str
    ) -> None:
        self.scheme = scheme
        self.state = state
        self.limits = limits
        self.settings_digest = settings_digest
        self.log_name = log_name

    def apply(self, record: bytes | LogRecord, offset: int) -> Applied:
        """Judge the record at this log offset and file its novel pages, or forget those it names; state and position
        move together.

        A record before the state's position is judged again without filing: every page in it finds its first attempt
        or the original that it had, so the verdicts are those of then. An offset may be skipped (Kafka numbers
        transaction markers too).
        Raises CorruptRecord, SettingsMismatch, StateError; the state is then as it was before the call.
        """
        if isinstance(record, bytes):
            record = decode(record, self.log_name, offset)
        check_settings_digest(record.settings_digest, self.settings_digest, self.log_name, offset)
        if record.forgotten:
            return forget(self.state, record, offset)
        verdicts, filing = judge(
            record.signatures, self.scheme, self.state, self.limits.bucket_cap, self.limits.candidate_limit
        )
        again = offset < self.state.position
        if not again:
            self.state.file(filing, offset + 1, record.checksum)
        sizes = np.diff(filing.buckets.bounds[:1] if again else filing.buckets.bounds)
        return Applied(
            record,
            verdicts,
            0 if again else len(filing.pages),
            0 if again else filing.capped,
            sizes,
            int(np.count_nonzero(sizes >= self.limits.bucket_cap)),
            again,
        )


def forget(state: State, record: LogRecord, offset: int) -> Applied:
    """Take the pages out that a record of kind 2 names; for this no scheme is needed.

    Raises CorruptRecord, StateError; the state is then as it was before the call.
    """
    again, gone = offset < state.position, tuple[PageId, ...]()
    if not again:
        removal = removal_of(record.forgotten, state)
        state.remove(removal, offset + 1, record.checksum)
        gone = removal.page_ids
    return Applied(record, no_verdicts(), 0, 0, np.zeros(0, np.int64), 0, again, gone)
