"""Filters files without a broker: reads records in micro-batches, judges them and writes the outputs.

`--out` gets the records of emitted pages. In a WARC output it also gets their companions (requests, metadata, warcinfo)
and, with `--revisits`, a revisit record in place of each dropped page.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import logged_url
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.files.file_format import FileFormat, FileRecord, Intake, Record, content_number
from spotsieve.stream.files.formats import formats_by_name
from spotsieve.stream.files.inputs import STDIN, Input
from spotsieve.stream.files.outputs import FileOutputs, OutputFile
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.verdict_lines import ClusterIds, rejected_line, verdict_line
from spotsieve.stream.files.warc import is_about_page, is_revisit, read_record_fields
from spotsieve.stream.files.warc.companions import Companions
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.files.warc.revisits import Originals, revisit_of
from spotsieve.stream.local.batch_reader import BatchReader, FileBatch
from spotsieve.stream.local.engines import LocalEngine, PreparedPages, page_text
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.url_rules import page_rules

MAIN_TEXT, TEXT_WITHOUT_TEMPLATE = TEXT_COLUMNS = "spotsieve_main_text", "spotsieve_text_without_template"
"""The fields, and the columns, that --text adds to each page."""


class TextColumns:
    """Adds the text of a page to its record (--text). The values of an unchecked page are null.

    errors: novel pages without a text, because extracting it failed
    """

    def __init__(self, scheme: Scheme, intake: Intake | None = None) -> None:
        """scheme: of the judge  intake: decodes the records whose pages have waited without their bodies

        Raises SettingError if the scheme judges no main text.
        """
        if scheme.host_thresholds is None:
            rule = "needs the scheme spotsieve, because other schemes judge no main text"
            raise SettingError("--text", rule, scheme.name, "use --scheme spotsieve, or leave out --text")
        self._scheme, self._intake, self.errors = scheme, intake, 0

    def add_to(self, outcome: RecordResult, page: Page, verdicts: Verdicts, row: int) -> Record:
        """The record of a page with its text, after check_pages.

        The verdict must mark the template text of a novel page.
        """
        fields: dict[str, str | None] = dict.fromkeys(TEXT_COLUMNS)
        if int(verdicts.kind[row]) == Kind.NOVEL:
            assert verdicts.marks is not None, "the engine marks the template text of novel pages"
            if not page.body and self._intake is not None:
                decoded = outcome.format.decode(FileRecord(outcome.record), self._intake)
                page = page if decoded is None else decoded
            text = page_text(page, self._scheme, verdicts.marks.of_page(row))
            self.errors += text is None
            fields = dict(zip(TEXT_COLUMNS, text or (None, None), strict=True))
        return outcome.format.with_fields(outcome.record, fields)

    def add_empty(self, record: Record, format_: FileFormat) -> Record:
        """The record with the columns and without text, for the layout of an output. Raises as check_pages."""
        check_text_format(format_)
        format_.check_new_fields(record, TEXT_COLUMNS)
        return format_.with_fields(record, dict.fromkeys(TEXT_COLUMNS))


def check_text_files(out: str | None, names: Iterable[str]) -> None:
    """Check that the files of a run can get the columns of --text, by their names.

    out: the output of pages  names: of the files that it reads and writes
    Raises SettingError if the run has no output of pages, or if the name of a file shows that records have no fields.
    """
    if out is None:
        raise SettingError("--text", "needs --out, which gets the texts", None, "such as --out novel.jsonl")
    for name in names:
        for format_ in formats_by_name(name):
            check_text_format(format_)


def check_text_format(format_: FileFormat) -> None:
    """Check that records of a format can get the columns of --text. Raises SettingError."""
    if not format_.has_fields:
        rule = f"adds fields to the pages of JSONL and Parquet files, and {format_.name} records have no fields"
        then = "leave out --text, or take the texts from the library (docs/library.md)"
        raise SettingError("--text", rule, None, then)


class RecordOutput:
    """Writes the records of `--out`, in the order of the input files and independent of micro-batches."""

    def __init__(
        self,
        out: OutputFile,
        summary: FilterSummary,
        revisits: bool,
        companion_uris: Sequence[str] = (),
        texts: TextColumns | None = None,
    ) -> None:
        """Start without records.

        revisits: whether a revisit record replaces each dropped page of a WARC file
        companion_uris: patterns of the URIs of records that a crawler writes about pages
        texts: adds the text of each page to its record
        """
        self._texts = texts
        self._out = out
        self._summary = summary
        self._revisits = revisits
        self._companions = Companions(companion_uris)
        self._originals = Originals()

    def know_record(self, record: Record, format_: FileFormat) -> None:
        """Take the layout of the output from a record without writing it. Raises SettingError as write_page."""
        if self._texts is not None:
            record = self._texts.add_empty(record, format_)
        self._out.know_record(record, format_)

    def check_pages(self, batch: FileBatch) -> None:
        """Check that each page of a batch can get its text, before any of them is judged and indexed.

        Raises SettingError for a record without fields, and for one that has a field of this name.
        """
        for outcome in batch.outcomes if self._texts is not None else ():
            if isinstance(outcome.result, Page):
                check_text_format(outcome.format)
                outcome.format.check_new_fields(outcome.record, TEXT_COLUMNS)

    def write_page(self, outcome: RecordResult, page: Page, verdicts: Verdicts, row: int) -> None:
        """Write the record of a page, unless the page is dropped.

        row: the row of the page in verdicts
        Raises SettingError for records of several formats, and with revisits for a record that is not WARC.
        """
        record, format_ = outcome.record, outcome.format
        dropped = verdicts.is_duplicate(row)
        if self._texts is not None:
            record = self._texts.add_to(outcome, page, verdicts, row)
            self._summary.text_errors = self._texts.errors
        if format_ != WARC:
            if self._revisits:
                rule = f"works for WARC files only, and {page.source} is {format_.name}"
                raise SettingError("--revisits", rule, None, "remove it; --duplicates FILE lists the dropped pages")
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

    def write_other(self, outcome: RecordResult, source: str) -> None:
        """Write a WARC record without a page, if it belongs to a page that is written."""
        record = outcome.record
        if outcome.format != WARC:
            return
        if is_revisit(read_record_fields(record.raw)):
            self._write_others(self._companions.page(record, source, self._revisits))
            if self._revisits:
                self._write_others([record])
        else:
            self._write_others(self._companions.add(record, source))

    def end(self) -> None:
        """Write the records that still wait, after the last file."""
        self._write_others(self._companions.end())

    def _write_others(self, records: Iterable[Record]) -> None:
        for record in records:
            self._summary.companions += 1
            self._out.write_record(record, WARC)
        self._summary.companions_alone = self._companions.alone

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
    clusters: ClusterIds | None = None,
    texts: TextColumns | None = None,
    on_batch: Callable[[], None] = lambda: None,
    on_stream: Callable[[int], None] = lambda _: None,
) -> None:
    """Judge every record of the inputs, in order, and count into summary. Damaged files go into summary.faults.

    revisits: whether a WARC output gets a revisit record in place of each dropped page
    clusters: adds the cluster of each page to the lines of verdicts
    texts: adds the text of each page to its record; the engine then marks template text
    stopping: when it is set, the current micro-batch is finished and reading stops
    on_batch: called after each micro-batch
    on_stream: called with the content number of the first record of standard input, before it is judged
    Raises StateError (disk full, damaged state) and SettingError (records of two formats for one output).
    """
    records = None
    if outputs.out is not None:
        records = RecordOutput(outputs.out, summary, revisits, settings.input.companion_uris, texts)
    filtered_before = {file.source for file in inputs if local.knows_source(file.source)}
    # Other states are queried in a thread of their own, while this one judges earlier batches.
    ahead = None if local.others is None else local.prepare
    with BatchReader(inputs, settings, stopping, ahead) as batches:
        for batch in batches:
            if batch.file.source == STDIN and batch.outcomes and batch.outcomes[0].record.number == 0:
                on_stream(content_number(batch.outcomes[0].record.raw))
            before = summary.unseen
            if records is not None:
                records.check_pages(batch)
            pages = count_pages(batch, settings, summary)
            write_outcomes(batch, _rows(local, pages, batch, summary), settings, outputs, summary, records, clusters)
            if batch.file.source in filtered_before and summary.unseen > before:
                changed = summary.changed.get(batch.file.source, 0)
                summary.changed[batch.file.source] = changed + summary.unseen - before
            summary.bytes_read += batch.bytes_read
            if batch.fault is not None:
                summary.faults.append(batch.fault)
            on_batch()
        summary.interrupted = not batches.complete
    if records is not None:
        records.end()
    summary.entries = local.entry_count


def count_pages(batch: FileBatch, settings: Settings, summary: FilterSummary) -> list[Page]:
    """The pages of a batch, in order. Counts their properties and the matched rules into summary."""
    pages = batch.pages
    summary.future_times += sum(page.future_time for page in pages)
    summary.repaired_utf8 += sum(page.repaired for page in pages)
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
    records: RecordOutput | None,
    clusters: ClusterIds | None = None,
) -> None:
    """Write the result of each record of a batch to the outputs, and count it.

    verdicts: for each page of the batch, in order, a block of verdicts and the page's row in it
    records: the output of records, if the run has one
    clusters: adds the cluster of each page to the lines of verdicts
    """
    for outcome in batch.outcomes:
        summary.records += 1
        if isinstance(outcome.result, PageError):
            summary.rejected[outcome.result.reason.value] += 1
            if outputs.rejected is not None:
                outputs.rejected.write_line(rejected_line(batch.file.source, outcome.record, outcome.result))
        elif outcome.result is None:
            summary.other_records += 1
            if outcome.format == WARC:
                _count_other(outcome.record, settings, summary)
            if records is not None:
                records.write_other(outcome, batch.file.source)
        else:
            block, row = next(verdicts)
            if records is not None:
                records.write_page(outcome, outcome.result, block, row)
            _write_lines(outcome.result, block, row, settings, outputs, clusters)
    outputs.flush()


def _count_other(record: Record, settings: Settings, summary: FilterSummary) -> None:
    """Count a WARC record without a page by its kind."""
    fields = read_record_fields(record.raw)
    summary.revisits += is_revisit(fields)
    summary.records_about_pages += is_about_page(fields, settings.input.companion_uris)


def _count_rules(pages: Sequence[Page], settings: Settings, summary: FilterSummary) -> None:
    """Count the pages that each rule matches, so that the summary can report a rule that matches none."""
    rules = page_rules(settings)
    if rules is None:
        return
    for name, matched in rules.taken(logged_url(page.url) for page in pages).items():
        summary.rules[name] = summary.rules.get(name, 0) + matched


def _rows(
    local: LocalEngine, pages: Sequence[Page], batch: FileBatch, summary: FilterSummary
) -> Iterator[tuple[Verdicts, int]]:
    if not pages:
        return
    prepared: PreparedPages = batch.ahead or local.prepare(pages)
    summary.in_other_states += prepared.in_other_states
    for verdicts in local.judge_prepared(prepared):
        summary.count(verdicts)
        for row in range(len(verdicts)):
            yield verdicts, row


def _write_lines(
    page: Page, verdicts: Verdicts, row: int, settings: Settings, outputs: FileOutputs, clusters: ClusterIds | None
) -> None:
    if outputs.verdicts is None and outputs.duplicates is None:
        return
    dropped = verdicts.is_duplicate(row)
    if outputs.verdicts is None and not dropped and clusters is None:
        return
    line = verdict_line(page, verdicts, row, settings.scheme.name, clusters)
    if outputs.verdicts is not None:
        outputs.verdicts.write_line(line)
    if outputs.duplicates is not None and dropped:
        outputs.duplicates.write_line(line)
