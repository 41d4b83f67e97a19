"""Filters the pages of a labelled set in memory: intake, log records and engine are the usual ones, the disk unused."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from spotsieve.state.log.local import RECORD_BYTES
from spotsieve.state.log.record import encode, split
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.batches import batches
from spotsieve.stream.engine import Engine
from spotsieve.stream.errors import InputError, PageError
from spotsieve.stream.files.inputs import Input, check_inputs
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.judge import policy_of
from spotsieve.stream.judge.alone import Match, find_matches
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.schemes.registry import scheme_in_scope
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Verdicts

PAGES_FILE = "pages.jsonl.xz"
_WRITER = bytes(16)
_LOG_NAME = "memory"


class Trial:
    """A filter that forgets. Signing and judging are apart: pages signed once can be judged under other thresholds.

    log_bytes: of the records signed so far
    digest: 16 bytes, of the settings under which the records were signed; by default of its own settings
    Raises SettingError if the scheme's parameters do not go together.
    """

    def __init__(self, settings: Settings, digest: bytes | None = None) -> None:
        self.settings = settings
        self.scheme: Scheme = scheme_in_scope(settings)
        self._digest = digest or settings_digest(verdict_settings_text(settings))
        self._sequence = 0
        self.log_bytes = 0
        self._engine = Engine(self.scheme, MemoryState(), settings.index, self._digest, _LOG_NAME, policy_of(settings))

    def sign(self, pages: Sequence[Page]) -> Iterator[bytes]:
        """The log records of a micro-batch."""
        for part in split(self.scheme.sign(pages), RECORD_BYTES):
            record = encode(part, _WRITER, self._sequence, self._digest)
            self.log_bytes += len(record)
            self._sequence += 1
            yield record

    def state_bytes(self) -> tuple[int, int]:
        """The number of filed pages, and the bytes of all keys and values of them, before RocksDB compresses these."""
        state = self._engine.state
        return state.entry_count, sum(len(name) + len(value) for name, value in state.items())

    def apply(self, record: bytes) -> Verdicts:
        """Judge the next record of the log. Raises SettingsMismatch for one signed under other settings."""
        return self._engine.apply(record, self._engine.state.position).verdicts

    def matches(self, signatures: Signatures) -> list[list[Match]]:
        """All pages filed so far that each page would be accepted as a copy of, in the order of filing."""
        return find_matches(signatures, self.scheme, self._engine.state)

    def judge(self, pages: Sequence[Page]) -> Iterator[tuple[Page, Verdicts, int]]:
        """Sign and judge a micro-batch: each page with the verdicts of its record and its row there."""
        remaining = iter(pages)
        for record in self.sign(pages):
            verdicts = self.apply(record)
            for row, page in enumerate(islice(remaining, len(verdicts))):
                yield page, verdicts, row


def pages_of(folder: Path) -> Input:
    """The pages of a labelled set's folder. Raises InputError if it has none."""
    path = folder / PAGES_FILE
    if not path.exists():
        raise InputError(
            str(folder), f"must hold {PAGES_FILE}, and does not", None, "name the folder of a labelled set"
        )
    return check_inputs([str(path)])[0]


def read_batches(file: Input, settings: Settings) -> Iterator[list[Page]]:
    """The pages of a file, in micro-batches. Raises InputError (damaged file), PageError (a record that is no page)."""
    service = settings.service
    yield from batches(_pages_in(file, settings), service.batch_pages, service.batch_bytes, lambda page: len(page.body))


def _pages_in(file: Input, settings: Settings) -> Iterator[Page]:
    with FileReader(file, settings.input) as reader:
        for outcome in reader:
            if isinstance(outcome.result, PageError):
                reader.check_read()
                raise outcome.result
            if outcome.result is not None:
                yield outcome.result
        reader.check_read()
