"""Runs choices of settings over one labelled set, in memory. Choices with the same signatures sign the pages only once.

Intake, log records and engine are the same as in the filter; only the state is in memory and the log is not stored.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from spotsieve.state.log.local import RECORD_BYTES
from spotsieve.state.log.record import encode, split
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.digest import digest_of_settings, signing_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures
from spotsieve.stream.base.verdict import Verdicts, concatenate
from spotsieve.stream.engine import Engine
from spotsieve.stream.files.inputs import Input, check_inputs
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.files.verdict_lines import entry_of_page, verdict_line
from spotsieve.stream.judge import Match, find_matches, policy_of
from spotsieve.stream.research.evaluation.choices import Choice
from spotsieve.stream.research.scoring import Truth, check_verdicts, score
from spotsieve.stream.research.scoring.comparison import Cost, SchemeResult
from spotsieve.stream.research.scoring.fresh_text import PageGrams, measure
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

PAGES_FILE = "pages.jsonl.xz"
_WRITER = bytes(16)
_LOG_NAME = "memory"
SignedBatch = tuple[list[bytes], list[Entry]]
"""The log records of a micro-batch, and its pages."""


class Trial:
    """A filter in memory. It signs and judges separately, so that signed pages can be judged at other thresholds.

    log_bytes: bytes of the records signed so far
    """

    def __init__(self, settings: Settings, digest: bytes | None = None) -> None:
        """Start with an empty state. Raises SettingError if the scheme's parameters contradict each other.

        digest: the digest (16 bytes) of the settings that signed the records; by default of these settings
        """
        self.settings = settings
        self.scheme: Scheme = scheme_in_scope(settings)
        self._digest = digest or digest_of_settings(settings)
        self._sequence = 0
        self.log_bytes = 0
        self._engine = Engine(self.scheme, memory_state(), settings.index, self._digest, _LOG_NAME, policy_of(settings))

    def sign(self, pages: Sequence[Page]) -> Iterator[bytes]:
        """The log records of a micro-batch."""
        for part in split(self.scheme.sign(pages), RECORD_BYTES):
            record = encode(part, _WRITER, self._sequence, self._digest)
            self.log_bytes += len(record)
            self._sequence += 1
            yield record

    def state_bytes(self) -> tuple[int, int]:
        """The number of indexed pages, and the bytes of all their keys and values, before RocksDB compresses them."""
        state = self._engine.state
        return state.entry_count, sum(len(name) + len(value) for name, value in state.items())

    def apply(self, record: bytes) -> Verdicts:
        """Judge the next record of the log. Raises SettingsMismatch for a record signed under other settings."""
        return self._engine.apply(record, self._engine.state.position).verdicts

    def matches(self, signatures: Signatures) -> list[list[Match]]:
        """All matches of each page among the pages indexed so far, in the order of indexing."""
        return find_matches(signatures, self.scheme, self._engine.state)

    def judge(self, pages: Sequence[Page]) -> Iterator[tuple[Page, Verdicts, int]]:
        """Sign and judge a micro-batch: each page, the verdicts of its record and its row in them."""
        remaining = iter(pages)
        for record in self.sign(pages):
            verdicts = self.apply(record)
            for row, page in enumerate(islice(remaining, len(verdicts))):
                yield page, verdicts, row


def pages_file(folder: Path) -> Input:
    """The file with the pages of a labelled set. Raises InputError if the folder has none."""
    path = folder / PAGES_FILE
    if not path.exists():
        raise InputError(str(folder), f"has no file {PAGES_FILE}", None, "name the folder of a labelled set")
    return check_inputs([str(path)])[0]


def read_pages(folder: Path, settings: Settings) -> Iterator[Page]:
    """The pages of a labelled set. Raises InputError for a damaged file, PageError for a rejected record."""
    with FileReader(pages_file(folder), settings.input) as reader:
        for outcome in reader:
            if isinstance(outcome.result, PageError):
                reader.check_read()
                raise outcome.result
            if outcome.result is not None:
                yield outcome.result
        reader.check_read()


@dataclass(frozen=True, slots=True)
class SetResult:
    """A labelled set and its scores.

    choices: the rows of the table
    scored: the figures by the names of the rows
    left_out: the message for each scheme that is not scored
    modelled: schemes whose term statistics come from the set's own pages
    """

    folder: Path
    truth: Truth
    choices: Sequence[Choice]
    scored: Mapping[str, SchemeResult]
    left_out: Mapping[str, str]
    modelled: Sequence[str]

    @property
    def first(self) -> SchemeResult:
        """The figures of the first row."""
        return self.scored[self.choices[0].name]


class SignedPages:
    """Iterates over the signed batches of a set: log records and pages. A batch is signed at its first use.

    digest: the digest of the settings that sign
    cpu_seconds: CPU time of signing so far
    log_bytes: bytes of the records so far
    """

    def __init__(self, batches: Iterable[list[Page]], settings: Settings, *, keep: bool) -> None:
        """Start with no signed page.

        batches: the pages in micro-batches
        keep: whether to keep the batches for further iterations; memory: the records and some 400 bytes per page
        """
        self.digest = digest_of_settings(settings)
        self.cpu_seconds = 0.0
        self.log_bytes = 0
        self._batches = self._signed(batches, settings)
        self._kept: list[SignedBatch] | None = [] if keep else None

    def __iter__(self) -> Iterator["SignedBatch"]:
        yield from self._kept or ()
        for batch in self._batches:
            if self._kept is not None:
                self._kept.append(batch)
            yield batch

    def _signed(self, batches: Iterable[list[Page]], settings: Settings) -> Iterator["SignedBatch"]:
        trial = Trial(settings)
        for pages in batches:
            began = time.process_time()
            records = list(trial.sign(pages))
            self.cpu_seconds += time.process_time() - began
            self.log_bytes = trial.log_bytes
            yield records, list(map(entry_of_page, pages))


def score_set(
    folder: Path,
    truth: Truth,
    choices: Sequence[Choice],
    line: ProgressLine,
    verdicts: OutputFile | None = None,
    texts: Sequence[PageGrams] | None = None,
) -> dict[str, SchemeResult]:
    """The figures of each choice by its name, in the order of the choices.

    line: the progress line
    verdicts: gets the verdict line of each page
    texts: the texts of the pages in the order of the labels; None measures no fresh text
    Raises InputError, PageError, SettingError.
    """
    results: dict[str, SchemeResult] = {}
    several = len(choices) > 1
    for group in signed_alike(choices):
        own = group[0].settings
        most_pages, most_bytes = own.service.batch_pages, own.service.batch_bytes
        pages = batches(read_pages(folder, own), most_pages, most_bytes, lambda page: len(page.body))
        signed = SignedPages(pages, own, keep=len(group) > 1)
        for choice in group:
            if several:
                line.say(f"{folder.name}: {len(results) + 1} of {len(choices)}, {choice.name}")
            originals, cost = _judge(folder, truth, choice, signed, None if several else line, verdicts)
            fresh = None if texts is None else measure(texts, originals)
            results[choice.name] = SchemeResult(score(truth, originals), cost, fresh)
    return {choice.name: results[choice.name] for choice in choices}


def signed_alike(choices: Sequence[Choice]) -> list[list[Choice]]:
    """The choices in groups whose settings produce the same signatures."""
    groups: dict[str, list[Choice]] = {}
    for choice in choices:
        groups.setdefault(signing_text(choice.settings), []).append(choice)
    return list(groups.values())


def _judge(
    folder: Path, truth: Truth, choice: Choice, signed: SignedPages, line: ProgressLine | None, out: OutputFile | None
) -> tuple[tuple[int | None, ...], Cost]:
    """For each place of the stream the place of its original, or None; and the cost."""
    trial = Trial(choice.settings, signed.digest)
    originals: list[tuple[str, str | None]] = []
    dropped, candidates, cpu_seconds = 0, 0, 0.0
    for records, pages in signed:
        began = time.process_time()
        verdicts = concatenate([trial.apply(record) for record in records])
        cpu_seconds += time.process_time() - began
        for row, (page, original) in enumerate(zip(pages, verdicts.originals, strict=True)):
            originals.append((page.id, original.id if original else None))
            dropped += original is not None
            if out is not None:
                out.write_line(verdict_line(page, verdicts, row, choice.settings.scheme.name))
        candidates += int(verdicts.candidates.sum())
        if line is not None:
            line.update(len(originals), dropped, 0)
    places = check_verdicts(truth, originals, str(folder))
    pages_judged = max(len(originals), 1)
    indexed, state_bytes = trial.state_bytes()
    cost = Cost(
        candidates / pages_judged,
        (signed.cpu_seconds + cpu_seconds) * 1e6 / pages_judged,
        signed.log_bytes / pages_judged,
        state_bytes / max(indexed, 1),
    )
    return places, cost
