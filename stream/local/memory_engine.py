"""Runs the engine in memory: no log, no directory, and nothing is left when it is closed."""

from collections.abc import Iterator

from spotsieve.state.log.local import RECORD_BYTES
from spotsieve.state.log.record import encode, split
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Verdicts

LOG_NAME = "memory"
_WRITER = bytes(16)


class MemoryEngine:
    """The engine over a state in memory. Its records are those of a log, which nobody keeps."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._digest = settings_digest(verdict_settings_text(settings))
        self._state = MemoryState()
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
