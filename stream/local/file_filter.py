"""Filters files without a broker: records come in micro-batches, are judged, and go into the outputs.

Writes the records of `filter --out`; of WARC also those that go with a page, or stand for a dropped one.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import logged_url
from spotsieve.stream.base.verdict import Reason, Verdicts
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import FileOutputs, OutputFile
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.verdict_lines import rejected_line, verdict_line
from spotsieve.stream.files.warc import is_revisit
from spotsieve.stream.files.warc.companions import Companions
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.files.warc.revisits import Originals, revisit_of
from spotsieve.stream.local.batch_reader import BatchReader, FileBatch
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.sign.schemes.url_rules import page_rules


class WholeWarc:
    """The output `--out`. Records are taken in the order of their files, whatever the micro-batches."""

    def __init__(self, out: OutputFile, summary: FilterSummary, revisits: bool) -> None:
        """revisits: whether a revisit record stands for each dropped page"""
        self._out = out
        self._summary = summary
        self._revisits = revisits
        self._companions = Companions()
        self._originals = Originals()

    def take_page(self, outcome: RecordResult, page: Page, verdicts: Verdicts, row: int) -> None:
        """Write a page, unless it is dropped. Raises SettingError for records of several formats, or no WARC."""
        record, format_ = outcome.record, outcome.format
        dropped = verdicts.is_duplicate(row)
        if format_ != WARC:
            if self._revisits:
                rule = f"stand for dropped pages of WARC files, and {page.source} is {format_.name}"
                raise SettingError("--revisits", rule, None, "leave it out; --duplicates FILE lists what was dropped")
            (self._out.know_record if dropped else self._out.write_record)(record, format_)
            return
        self._write_others(self._companions.page(record, page.source, self._revisits or not dropped))
        if not dropped:
            self._out.write_record(record, format_)
            if self._revisits:
                self._originals.add((page.source, page.partition, page.offset), record.raw)
        elif self._revisits:
            self._write_revisit(record, verdicts, row)
        else:
            self._out.know_record(record, format_)

    def take_other(self, outcome: RecordResult, source: str) -> None:
        """Write a WARC record without a page, if it goes with a page that is written."""
        record = outcome.record
        if outcome.format != WARC:
            return
        if is_revisit(record.raw):
            self._write_others(self._companions.page(record, source, self._revisits))
            if self._revisits:
                self._write_others([record])
        else:
            self._write_others(self._companions.add(record, source))

    def end(self) -> None:
        """All files have ended."""
        self._write_others(self._companions.end())

    def _write_others(self, records: Iterable[Record]) -> None:
        for record in records:
            self._summary.companions += 1
            self._out.write_record(record, WARC)

    def _write_revisit(self, record: Record, verdicts: Verdicts, row: int) -> None:
        original, reason = verdicts.originals[row], Reason(verdicts.reason[row])
        assert original is not None
        raw = revisit_of(
            record.raw,
            original,
            self._originals,
            reason.label,
            float(verdicts.score[row]),
            exact=reason is Reason.EXACT,
        )
        self._out.write_record(replace(record, raw=raw, packed=None), WARC)
        self._summary.revisits_written += 1


def filter_files(
    inputs: Sequence[Input],
    settings: Settings,
    local: LocalEngine,
    outputs: FileOutputs,
    summary: FilterSummary,
    stopping: threading.Event,
    revisits: bool = False,
    on_batch: Callable[[], None] = lambda: None,
) -> None:
    """Judge every record of the inputs, in order. Figures go into summary, damaged files into summary.faults.

    revisits: whether a revisit record stands in a WARC output for each dropped page
    stopping: when it is set, the present micro-batch is finished and nothing more is read
    on_batch: called after each micro-batch
    Raises StateError (disk full, damaged state) and SettingError (records of two layouts for one output).
    """
    whole = WholeWarc(outputs.out, summary, revisits) if outputs.out is not None else None
    known = {file.source for file in inputs if local.knows_source(file.source)}
    with BatchReader(inputs, settings, stopping) as batches:
        for batch in batches:
            before = summary.unseen
            _judge_batch(batch, settings, local, outputs, summary, whole)
            if batch.file.source in known and summary.unseen > before:
                changed = summary.changed.get(batch.file.source, 0)
                summary.changed[batch.file.source] = changed + summary.unseen - before
            summary.bytes_read += batch.bytes_read
            if batch.fault is not None:
                summary.faults.append(batch.fault)
            on_batch()
        summary.interrupted = not batches.complete
    if whole is not None:
        whole.end()
    summary.entries = local.entry_count


def _judge_batch(
    batch: FileBatch,
    settings: Settings,
    local: LocalEngine,
    outputs: FileOutputs,
    summary: FilterSummary,
    whole: WholeWarc | None,
) -> None:
    pages = count_pages(batch, settings, summary)
    write_outcomes(batch, _rows(local, pages, summary), settings, outputs, summary, whole)


def count_pages(batch: FileBatch, settings: Settings, summary: FilterSummary) -> list[Page]:
    """The pages of a batch, as they are to be judged; what they say before that is counted."""
    pages = [outcome.result for outcome in batch.outcomes if isinstance(outcome.result, Page)]
    summary.future_times += sum(page.future_time for page in pages)
    if settings.input.rank_from:
        summary.without_rank += sum(page.rank is None for page in pages)
    _count_rules(pages, settings, summary)
    return pages


def write_outcomes(
    batch: FileBatch,
    verdicts: Iterator[tuple[Verdicts, int]],
    settings: Settings,
    outputs: FileOutputs,
    summary: FilterSummary,
    whole: WholeWarc | None,
) -> None:
    """Write what becomes of each record of a batch. verdicts: of its pages, each with the page's row in them"""
    for outcome in batch.outcomes:
        summary.records += 1
        if isinstance(outcome.result, PageError):
            summary.rejected[outcome.result.reason.value] += 1
            if outputs.rejected is not None:
                outputs.rejected.write_line(rejected_line(batch.file.source, outcome.record, outcome.result))
        elif outcome.result is None:
            summary.other_records += 1
            summary.revisits += outcome.format == WARC and is_revisit(outcome.record.raw)
            if whole is not None:
                whole.take_other(outcome, batch.file.source)
        else:
            judged, row = next(verdicts)
            if whole is not None:
                whole.take_page(outcome, outcome.result, judged, row)
            _write_lines(outcome.result, judged, row, settings, outputs)
    outputs.flush()


def _count_rules(pages: Sequence[Page], settings: Settings, summary: FilterSummary) -> None:
    """Count the pages that each rule takes, so that people are told of one that takes none."""
    rules = page_rules(settings)
    if rules is None:
        return
    for name, taken in rules.taken(logged_url(page.url) for page in pages).items():
        summary.rules[name] = summary.rules.get(name, 0) + taken


def _rows(local: LocalEngine, pages: Sequence[Page], summary: FilterSummary) -> Iterator[tuple[Verdicts, int]]:
    if not pages:
        return
    for part, verdicts in local.judge(pages):
        summary.count(verdicts)
        for row in range(len(part)):
            yield verdicts, row


def _write_lines(page: Page, verdicts: Verdicts, row: int, settings: Settings, outputs: FileOutputs) -> None:
    if outputs.verdicts is None and outputs.duplicates is None:
        return
    dropped = verdicts.is_duplicate(row)
    if outputs.verdicts is None and not dropped:
        return
    line = verdict_line(page, verdicts, row, settings.scheme.name)
    if outputs.verdicts is not None:
        outputs.verdicts.write_line(line)
    if outputs.duplicates is not None and dropped:
        outputs.duplicates.write_line(line)
