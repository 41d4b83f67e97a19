"""Writes the records of `filter --out`; of WARC also those that go with a page, or stand for a dropped one."""

from collections.abc import Iterable
from dataclasses import replace

from spotsieve.stream.errors import SettingError
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.warc import is_revisit
from spotsieve.stream.files.warc.companions import Companions
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.files.warc.revisits import Originals, revisit_of
from spotsieve.stream.files.writer import OutputFile
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.page import Page
from spotsieve.stream.verdict import Reason, Verdicts


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
