"""Queries a state for the pages of files: the verdict of each page if it came next. Nothing is indexed.

QUERY_PAGES pages are signed first. Then one pass reads all their buckets, and the pages are judged.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.outputs import FileOutputs
from spotsieve.stream.files.reader import FileReader, RecordResult
from spotsieve.stream.files.verdict_lines import entry_of_page, match_fields, rejected_line, verdict_line
from spotsieve.stream.local.against import StateQuery, log_poison_pages
from spotsieve.stream.local.engines import sign_every_page, with_unsigned
from spotsieve.stream.local.file_filter import RecordOutput
from spotsieve.stream.local.summary import FilterSummary

QUERY_PAGES = 16_384
"""Pages of one pass over the state. Their keys and buckets are held in memory: 0.7 GB if every bucket is full."""


MOST_RECORD_BYTES = 256 * 2**20
"""The bytes of pages whose records wait for their verdicts (--pages). With more of them, a pass has fewer pages."""


@dataclass(slots=True)
class PendingQueries:
    """Signed pages that wait for their verdicts.

    pages: the fields of their verdict lines, in the same order
    unsigned: the rows of poison pages of signing, ascending
    records: if records are written, those of the pages and the other records of their files, in order
    record_bytes: the bytes of the bodies in records
    """

    signatures: list[Signatures] = field(default_factory=list)
    pages: list[Entry] = field(default_factory=list)
    unsigned: list[int] = field(default_factory=list)
    records: deque[tuple[RecordResult, str]] = field(default_factory=deque)
    record_bytes: int = 0


def query_files(
    inputs: Sequence[Input],
    query: StateQuery,
    outputs: FileOutputs,
    summary: FilterSummary,
    *,
    matches: bool = False,
    on_batch: Callable[[], None] = lambda: None,
) -> None:
    """Query the state for every page of the inputs, in order, and count into summary. Damaged files go into its faults.

    matches: whether to write all matches of a page with its verdict
    on_batch: called after each micro-batch and each file
    Raises StateError (disk of an output full, damaged state).
    """
    pending, records = PendingQueries(), None
    if outputs.out is not None:
        records = RecordOutput(outputs.out, summary, False, query.settings.input.companion_uris)
    for file in inputs:
        for pages in _batches(file, query.settings, outputs, summary, None if records is None else pending):
            signatures, unsigned = sign_every_page(query.scheme, pages)
            log_poison_pages(signatures, unsigned, of_query=False)
            pending.unsigned += (len(pending.pages) + row for row in unsigned)
            pending.signatures.append(signatures)
            pending.pages += map(entry_of_page, pages)
            if len(pending.pages) >= QUERY_PAGES or pending.record_bytes >= MOST_RECORD_BYTES:
                _judge_pending(pending, query, outputs, summary, matches, records)
            on_batch()
        on_batch()
    _judge_pending(pending, query, outputs, summary, matches, records)
    if records is not None:
        for outcome, source in pending.records:
            records.write_other(outcome, source)
        records.end()
    summary.entries = query.entries


def _batches(
    file: Input, settings: Settings, outputs: FileOutputs, summary: FilterSummary, kept: PendingQueries | None
) -> Iterator[list[Page]]:
    """The pages of a file in micro-batches. A damaged file ends at the damage; damage and misreading become faults.

    kept: gets the records, if they are written
    """
    limits, before = settings.service, summary.bytes_read
    with FileReader(file, settings.input) as reader:
        pages = _pages_in(reader, file, outputs, summary, kept)
        try:
            for batch in batches(pages, limits.batch_pages, limits.batch_bytes, lambda page: len(page.body)):
                summary.bytes_read = before + reader.bytes_read
                yield batch
            reader.check_read()
        except InputError as error:
            summary.faults.append(error)
        summary.bytes_read = before + reader.bytes_read


def _pages_in(
    reader: FileReader, file: Input, outputs: FileOutputs, summary: FilterSummary, kept: PendingQueries | None
) -> Iterator[Page]:
    """The pages of a reader. Counts the records, writes the rejected ones to their output, and keeps the others."""
    for outcome in reader:
        summary.records += 1
        if isinstance(outcome.result, PageError):
            summary.rejected[outcome.result.reason.value] += 1
            if outputs.rejected is not None:
                outputs.rejected.write_line(rejected_line(file.source, outcome.record, outcome.result))
            continue
        if kept is not None:
            kept.records.append((outcome, file.source))
        if outcome.result is None:
            summary.other_records += 1
        else:
            if kept is not None:
                kept.record_bytes += len(outcome.result.body)
            yield outcome.result


def _judge_pending(
    pending: PendingQueries,
    query: StateQuery,
    outputs: FileOutputs,
    summary: FilterSummary,
    matches: bool,
    records: RecordOutput | None,
) -> None:
    """Write the results of the waiting pages, which then wait no longer."""
    pages, start = iter(pending.pages), 0
    for judged, matches_of_pages in query.answer(pending.signatures, matches):
        verdicts = with_unsigned(judged, pending.unsigned, start)
        start += len(verdicts)
        summary.count(verdicts)
        for row in range(len(verdicts)):
            page = next(pages)
            if records is not None:
                _write_record(pending, records, verdicts, row)
            if outputs.verdicts is None:
                continue
            line = verdict_line(page, verdicts, row, query.settings.scheme.name)
            if matches:
                fields = [match_fields(*match) for match in matches_of_pages[row]]
                line = orjson.dumps({**orjson.loads(line), "matches": fields})
            outputs.verdicts.write_line(line)
    outputs.flush()
    # Records behind the last page stay: the reader is ahead, and the next page may be among them.
    pending.signatures, pending.pages, pending.unsigned = [], [], []


def _write_record(pending: PendingQueries, records: RecordOutput, verdicts: Verdicts, row: int) -> None:
    """Write the record of the next page, unless the page is a copy, and the other records before it."""
    while True:
        outcome, source = pending.records.popleft()
        if isinstance(outcome.result, Page):
            pending.record_bytes -= len(outcome.result.body)
            records.write_page(outcome, outcome.result, verdicts, row)
            return
        records.write_other(outcome, source)
