"""Runs the engine over a directory: a log in a file, and a state on disk.

Each micro-batch is signed, logged and judged. The state follows the log, as that of the service does.

Runs the engine in memory: no log, no directory, and nothing is left when it is closed.
"""

import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from spotsieve.state.directory import readable_by_others
from spotsieve.state.identity import check_first_record, check_last_record, check_log_range, unopened_log_error
from spotsieve.state.log.bodies import is_migrating
from spotsieve.state.log.local import RECORD_BYTES, LocalLog, TornTail
from spotsieve.state.log.record import (
    checksum_of,
    decode,
    encode,
    encode_and_keep,
    encode_configuration,
    first_of_ours,
    split,
    tells_open,
)
from spotsieve.state.snapshot.checkpoints import Requests
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.sign.schemes import Scheme

OnCatchUp = Callable[[int, int, int], None]
"""on_catch_up(records, of, pages) is called after each record that the state did not have yet."""
MakeEngine = Callable[[State, LocalLog], Engine]
"""make_engine(state, log) gives what applies the records of the log to the state."""


class LocalEngine:
    """The engine over a directory. Use it as a context.

    notices: what a person should know about the log
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        scheme: Scheme,
        on_catch_up: OnCatchUp = lambda *_: None,
        make_engine: MakeEngine | None = None,
    ) -> None:
        """Open log and state, and apply the records that the state does not have yet.

        make_engine: for an engine that judges in another way; None: the one of one process
        Raises StateError, StateLockedError, SettingsMismatch, CorruptRecord.
        """
        text = verdict_settings_text(settings)
        self._digest = settings_digest(text)
        self._writer = uuid.uuid4().bytes
        self._sequence = 0
        self._log, self.notices = open_log(directory)
        try:
            self._state = disk_state(directory, text, LocalLog.name, settings.index)
        except BaseException:
            self._log.close()
            raise
        try:
            check_log(self._log, self._state.position, self._state.last_record, self._state.pages_applied)
            self.engine = (
                Engine(scheme, self._state, settings.index, self._digest, LocalLog.name, policy_of(settings))
                if make_engine is None
                else make_engine(self._state, self._log)
            )
            self._requests = Requests(directory, self._state)
            self.notices.extend(filter(None, [readable_by_others(directory)]))
            self._begin_log(text, on_catch_up)
        except BaseException:
            self.close()
            raise

    def _begin_log(self, text: str, on_catch_up: OnCatchUp) -> None:
        """Check that the log is of these settings, and catch up with it. A new one gets its configuration."""
        first = first_of_ours(self._log.read_from(0), LocalLog.name)
        if first is not None:
            offset, record = first
            check_first_record(record.settings_digest, record.configuration, text, LocalLog.name, offset)
            if is_migrating(record.writer) and not is_open(self._log):
                raise unopened_log_error(str(self._log.path))
        self._catch_up(on_catch_up)
        if first is None:
            configuration = encode_configuration(text, self._writer)
            self.engine.apply(configuration, self._log.append(configuration))

    def _catch_up(self, on_catch_up: OnCatchUp) -> None:
        """Apply the records that the state lacks: a killed run did not judge its last ones, or the index was lost."""
        first, pages = self._state.position, 0
        wanted = self._log.end - first
        for offset, record in self._log.read_from(first):
            pages += len(self.engine.apply(record, offset).record.signatures)
            on_catch_up(offset + 1 - first, wanted, pages)
        if wanted:
            what = "was behind its log" if first else "was rebuilt from its log"
            self.notices.append(f"the state {what}: {wanted:,} records with {pages:,} pages were read again")

    @property
    def entry_count(self) -> int:
        """How many pages the state knows."""
        return self._state.entry_count - self._state.clock.floor

    def knows_source(self, source: str) -> bool:
        """Whether the state has a page of this path."""
        return self._state.knows_source(source)

    def judge(self, pages: Sequence[Page]) -> Iterator[tuple[Sequence[Page], Verdicts]]:
        """Sign, log and judge a micro-batch. Its verdicts come in parts if one log record cannot hold it."""
        start = 0
        for verdicts in self.judge_signed(self.engine.scheme.sign(pages)):
            yield pages[start : start + len(verdicts)], verdicts
            start += len(verdicts)

    def judge_signed(self, signatures: Signatures) -> Iterator[Verdicts]:
        """Log and judge a micro-batch that the engine's scheme has signed; its verdicts in parts, as of judge()."""
        self.answer_requests()
        for part in split(signatures, RECORD_BYTES):
            yield self._apply(part)

    def _apply(self, signatures: Signatures) -> Verdicts:
        # Nothing is marked as committed. A file can be filtered again at any time, and its pages get the verdicts that
        # they had: each that was not filed costs the state some 30 bytes, and the log has its signature anyway.
        record, kept = encode_and_keep(signatures, self._writer, self._sequence, self._digest)
        self._sequence += 1
        return self.engine.apply(kept, self._log.append(record)).verdicts

    def judge_record(self, record: bytes) -> Verdicts:
        """Log and judge a record of pages that was signed and encoded under these settings."""
        self.answer_requests()
        return self.engine.apply(record, self._log.append(record)).verdicts

    def answer_requests(self) -> None:
        """Make the checkpoint that another process asks for, if one does; judging does this too, before each batch."""
        if self._requests.waiting():
            self._requests.answer()

    def close(self) -> None:
        """Write what is buffered: the log first, so it never ends before the position of the state."""
        try:
            self._log.sync()
        finally:
            try:
                self._state.close()
            finally:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_open(log: LocalLog) -> bool:
    """Whether a log that a migration has begun is whole: its last record tells. Raises CorruptRecord."""
    for offset in range(log.end - 1, -1, -1):
        _, value = next(log.read_from(offset))
        told = tells_open(decode(value, LocalLog.name, offset))
        if told is not None:
            return told
    return False


def open_log(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log, and return it with its notices: that a torn tail was cut off, as a person should read it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TornTail)
        log = LocalLog(directory)
    return log, [str(warning.message) for warning in caught]


def check_log(log: LocalLog, position: int, last_record: int, pages_applied: int) -> None:
    """Check that the log continues a state of this position. Raises StateError.

    The log of another state may lie there, as long as this one's was: the last record tells them apart. The engine
    checks a record that is applied in part when it goes on with it.
    """
    check_log_range(LocalLog.name, position, 0, log.end, pages_applied)
    if pages_applied:
        return
    for _, record in log.read_from(max(position - 1, 0)):
        check_last_record(LocalLog.name, position, last_record, checksum_of(record))
        break


LOG_NAME = "memory"
_WRITER = bytes(16)


class MemoryEngine:
    """The engine over a state in memory. Its records are those of a log, which nobody keeps."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._digest = settings_digest(verdict_settings_text(settings))
        self._state = memory_state()
        self._offset = 0
        self.engine = Engine(scheme, self._state, settings.index, self._digest, LOG_NAME, policy_of(settings))

    @property
    def entry_count(self) -> int:
        """How many pages the state knows."""
        return self._state.entry_count - self._state.clock.floor

    def judge_signed(self, signatures: Signatures) -> Iterator[Verdicts]:
        """Judge a micro-batch, as LocalEngine.judge_signed does."""
        for part in split(signatures, RECORD_BYTES):
            record = encode(part, _WRITER, self._offset, self._digest)
            yield self.engine.apply(record, self._offset).verdicts
            self._offset += 1

    def close(self) -> None:
        """Let go of the state."""
        self._state.close()
