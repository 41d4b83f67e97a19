"""Runs choices of settings over one labelled set. Choices that sign pages alike share the signatures."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spotsieve.stream.evaluation.choices import Choice, signing_text
from spotsieve.stream.evaluation.trial import Trial, pages_of, read_batches
from spotsieve.stream.files.verdict_lines import verdict_line
from spotsieve.stream.files.writer import OutputFile
from spotsieve.stream.page import Page
from spotsieve.stream.progress import ProgressLine
from spotsieve.stream.scoring import Truth, check_verdicts, score
from spotsieve.stream.scoring.comparison import Cost, SchemeResult
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import concatenate


@dataclass(frozen=True, slots=True)
class SetResult:
    """A labelled set and its scores.

    choices, scored: the rows, and the figures by the names of the rows  left_out: schemes without scores, and why
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
    """The log records of a set in batches, each with the names of its pages. A batch is signed at its first use.

    digest: of the settings of the signing  cpu_seconds, log_bytes: the time of signing and the size of records so far
    """

    def __init__(self, batches: Iterable[list[Page]], settings: Settings, *, keep: bool) -> None:
        """batches: the pages, in micro-batches

        keep: whether to keep the records for the next reader. Memory: their bytes and some 400 bytes a page
        """
        self.digest = settings_digest(verdict_settings_text(settings))
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
            yield records, [_entry(page) for page in pages]


SignedBatch = tuple[list[bytes], list[Entry]]
"""The records of a micro-batch, and its pages."""


def score_set(
    folder: Path, truth: Truth, choices: Sequence[Choice], line: ProgressLine, verdicts: OutputFile | None = None
) -> dict[str, SchemeResult]:
    """The figures of each choice by its name, in the order of the choices.

    line: shows the progress  verdicts: gets a line for each page
    Raises InputError, PageError, SettingError.
    """
    found: dict[str, SchemeResult] = {}
    several = len(choices) > 1
    for group in signed_alike(choices):
        own = group[0].settings
        signed = SignedPages(read_batches(pages_of(folder), own), own, keep=len(group) > 1)
        for choice in group:
            if several:
                line.say(f"{folder.name}: {len(found) + 1} of {len(choices)}, {choice.name}")
            found[choice.name] = _judge(folder, truth, choice, signed, None if several else line, verdicts)
    return {choice.name: found[choice.name] for choice in choices}


def signed_alike(choices: Sequence[Choice]) -> list[list[Choice]]:
    """The choices in groups that sign pages alike."""
    alike: dict[str, list[Choice]] = {}
    for choice in choices:
        alike.setdefault(signing_text(choice.settings), []).append(choice)
    return list(alike.values())


def _judge(
    folder: Path, truth: Truth, choice: Choice, signed: SignedPages, line: ProgressLine | None, out: OutputFile | None
) -> SchemeResult:
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
    scores = score(truth, check_verdicts(truth, originals, str(folder)))
    pages_judged = max(len(originals), 1)
    indexed, state_bytes = trial.state_bytes()
    cost = Cost(
        candidates / pages_judged,
        (signed.cpu_seconds + cpu_seconds) * 1e6 / pages_judged,
        signed.log_bytes / pages_judged,
        state_bytes / max(indexed, 1),
    )
    return SchemeResult(scores, cost)


def _entry(page: Page) -> Entry:
    return Entry(page.source, page.partition, page.offset, page.event_time_ms, page.url, page.label)
