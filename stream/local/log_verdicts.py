"""Judges the local log of a state once more, in a state of its own, and says what became of every page in it.

A state remembers the pages that it let through; only its log also names those that were dropped.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog, read_records
from spotsieve.stream.clusters.statements import Statement, state_verdicts
from spotsieve.stream.engine import open_engine
from spotsieve.stream.errors import StateError
from spotsieve.stream.judge import entry_of
from spotsieve.stream.kernels import compile_kernels
from spotsieve.stream.progress import OnProgress
from spotsieve.stream.settings.model import Settings


def check_has_log(directory: Path) -> None:
    """Raises StateError if a state directory has no log of its own."""
    if not (directory / LOG_FILE).is_file():
        raise StateError(
            "--state",
            "must have a log of its own, as the state of `spotsieve filter` has",
            str(directory),
            "the verdicts of a service are in its topics: give -c and --topics",
        )


def judge_log(directory: Path, settings: Settings, on_progress: OnProgress) -> Iterator[Statement]:
    """Give what becomes of the pages of a state's log, in its order; a process may be appending to it meanwhile.

    settings: those that change verdicts are the state's  Raises StateError, CorruptRecord.
    """
    with tempfile.TemporaryDirectory(prefix="spotsieve-clusters-") as made:
        index = settings.index.model_copy(update={"directory": Path(made)})
        engine = open_engine(settings.model_copy(update={"index": index}), LocalLog.name)
        try:
            compile_kernels(engine.scheme)
            for offset, record, done, of in read_records(directory / LOG_FILE):
                applied = engine.apply(record, offset)
                on_progress("bytes of the log judged again", done, of)
                signatures = applied.record.signatures
                pages = [entry_of(signatures, row) for row in range(len(signatures))]
                yield from state_verdicts(pages, applied.verdicts)
        finally:
            engine.state.close()
