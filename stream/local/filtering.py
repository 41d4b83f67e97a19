"""Filters files without a broker: records come in micro-batches, are judged, and go into the outputs."""

import threading
from collections.abc import Callable, Iterator, Sequence

from spotsieve.stream.errors import PageError
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.verdict_lines import rejected_line, verdict_line
from spotsieve.stream.files.warc import is_revisit
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.files.writer import Outputs
from spotsieve.stream.local.local_engine import LocalEngine
from spotsieve.stream.local.read_ahead import BatchReader, FileBatch
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.local.whole_warc import WholeWarc
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.by_address.rules import page_rules
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import logged_url
from spotsieve.stream.verdict import Verdicts


def filter_files(
    inputs: Sequence[Input],
    settings: Settings,
    local: LocalEngine,
    outputs: Outputs,
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
    outputs: Outputs,
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
    outputs: Outputs,
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


def _write_lines(page: Page, verdicts: Verdicts, row: int, settings: Settings, outputs: Outputs) -> None:
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
