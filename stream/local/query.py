"""Asks a state about pages in files. Each page gets the verdict it would get if it came next, and nothing is filed.

QUERY_PAGES pages are signed and kept. Then all their buckets are read at once, and the pages are judged.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.index import LiveView, StateView
from spotsieve.state.store.state import State
from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import FileOutputs
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.files.verdict_lines import match_fields, rejected_line, verdict_line
from spotsieve.stream.judge import Match, find_matches, judge_alone, policy_of
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

QUERY_PAGES = 16_384
"""How many pages are asked about at once. Their keys and buckets are in memory: 0.7 GB if every bucket were full."""


@dataclass(slots=True)
class PendingQueries:
    """Pages that wait for their answers. pages: what the line of each tells, in the order of the signatures"""

    signatures: list[Signatures] = field(default_factory=list)
    pages: list[Entry] = field(default_factory=list)


class StateQuery:
    """A state that does not change, and the scheme that made it."""

    def __init__(self, state: State, settings: Settings) -> None:
        """Raises SettingError if the parameters of the scheme contradict each other."""
        self.settings = settings
        self.scheme: Scheme = scheme_in_scope(settings)
        self._state = state
        self._clock = state.clock
        self.passes = 0

    @property
    def entries(self) -> int:
        """How many pages the state knows."""
        return self._state.entry_count - self._clock.floor

    def answer(self, parts: Sequence[Signatures], matches: bool) -> Iterator[tuple[Verdicts, list[list[Match]]]]:
        """Give the verdicts of consecutive pages, run by run, and all that each page matches, if wanted.

        Raises StateError.
        """
        keys = [np.empty(0, np.uint64), *(self.scheme.probe(part).keys for part in parts)]
        self.passes += self._state.load_buckets(np.unique(np.concatenate(keys)))
        policy = policy_of(self.settings)
        for part in parts:
            for run, view, verdicts in query_each(part, self.scheme, self._state, self._clock, self.settings):
                yield verdicts, find_matches(run, self.scheme, view, policy) if matches else []


def query_each(
    part: Signatures, scheme: Scheme, view: StateView, clock: Clock, settings: Settings
) -> Iterator[tuple[Signatures, StateView, Verdicts]]:
    """Give the verdicts that pages would get if each came next, in runs that meet the same part of a state.

    clock: how far the state's event time has come; a page beyond it would move the floor
    """
    limit, policy = settings.index.candidate_limit, policy_of(settings)
    for run, seen in _runs(part, view, clock, step_of(settings.index.horizon_hours)):
        yield run, seen, judge_alone(run, scheme, seen, limit, policy)


def _runs(part: Signatures, view: StateView, clock: Clock, step_ms: int) -> Iterator[tuple[Signatures, StateView]]:
    """Cut the pages into runs that meet the same part of the state. A time beyond the state's moves the floor."""
    if not step_ms or not len(part):
        yield part, view
        return
    times, places = np.unique(np.maximum(part.event_time_ms, clock.watermark_ms), return_inverse=True)
    floors = np.array([clock.moved(time, step_ms, view.entry_count).floor for time in times.tolist()])[places]
    cuts = (np.flatnonzero(np.diff(floors)) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(part)], strict=True):
        yield part.part(start, end), LiveView(view, int(floors[start]))


def query_files(
    inputs: Sequence[Input],
    query: StateQuery,
    outputs: FileOutputs,
    summary: FilterSummary,
    *,
    matches: bool = False,
    on_batch: Callable[[], None] = lambda: None,
) -> None:
    """Ask about every record of the inputs, in order. Figures go into summary, damaged files into summary.faults.

    matches: whether to write all that a page matches with its verdict  on_batch: called after each micro-batch and file
    Raises StateError (the disk of an output is full, damaged state).
    """
    waiting = PendingQueries()
    for file in inputs:
        for pages in _batches(file, query.settings, outputs, summary):
            waiting.signatures.append(query.scheme.sign(pages))
            waiting.pages += map(_entry_of, pages)
            if len(waiting.pages) >= QUERY_PAGES:
                _answer(waiting, query, outputs, summary, matches)
                waiting = PendingQueries()
            on_batch()
        on_batch()
    _answer(waiting, query, outputs, summary, matches)
    summary.entries = query.entries


def _batches(file: Input, settings: Settings, outputs: FileOutputs, summary: FilterSummary) -> Iterator[list[Page]]:
    """The pages of a file in micro-batches. A damaged file ends there; it and a misread one are faults."""
    most, before = settings.service, summary.bytes_read
    with FileReader(file, settings.input) as reader:
        pages = _pages_in(reader, file, outputs, summary)
        try:
            for batch in batches(pages, most.batch_pages, most.batch_bytes, lambda page: len(page.body)):
                summary.bytes_read = before + reader.bytes_read
                yield batch
            reader.check_read()
        except InputError as error:
            summary.faults.append(error)
        summary.bytes_read = before + reader.bytes_read


def _pages_in(reader: FileReader, file: Input, outputs: FileOutputs, summary: FilterSummary) -> Iterator[Page]:
    """The pages that a reader gives. Records are counted, and rejected ones go to their output."""
    for outcome in reader:
        summary.records += 1
        if isinstance(outcome.result, PageError):
            summary.rejected[outcome.result.reason.value] += 1
            if outputs.rejected is not None:
                outputs.rejected.write_line(rejected_line(file.source, outcome.record, outcome.result))
        elif outcome.result is None:
            summary.other_records += 1
        else:
            yield outcome.result


def _answer(
    asked: PendingQueries, query: StateQuery, outputs: FileOutputs, summary: FilterSummary, matches: bool
) -> None:
    pages = iter(asked.pages)
    for verdicts, found in query.answer(asked.signatures, matches):
        summary.count(verdicts)
        for row in range(len(verdicts)):
            page = next(pages)
            if outputs.verdicts is None:
                continue
            line = verdict_line(page, verdicts, row, query.settings.scheme.name)
            if matches:
                line = orjson.dumps({**orjson.loads(line), "matches": [match_fields(*match) for match in found[row]]})
            outputs.verdicts.write_line(line)
    outputs.flush()


def _entry_of(page: Page) -> Entry:
    """Return what a line tells of a page, without its body."""
    return Entry(page.source, page.partition, page.offset, page.event_time_ms, page.url, page.label)
