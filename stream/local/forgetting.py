"""Owns forgetting pages of a state with a local log: the records are logged, and applied at once."""

from collections.abc import Sequence
from pathlib import Path

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.store.rocks import RocksState
from spotsieve.stream.engine import forget
from spotsieve.stream.settings.model import IndexSettings


def append_and_apply(directory: Path, log: LocalLog, records: Sequence[bytes], settings_text: str) -> list[int]:
    """Append records to the log and forget what they name; -> their offsets. The state must be closed.

    A state that is behind its log, after a kill, is left as it is: the next `spotsieve filter` reads on.
    Raises StateError, CorruptRecord.
    """
    first = log.end
    offsets = [log.append(record) for record in records]
    log.sync()
    with RocksState.open(directory, settings_text, LocalLog.name, IndexSettings()) as state:
        if state.position == first:
            for offset, record in zip(offsets, records, strict=True):
                forget(state, decode(record, LocalLog.name, offset), offset)
    return offsets
