"""Counts the results of a run over files, and writes the counts as text and as JSON."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_SUSPICIOUS, SpotsieveError
from spotsieve.stream.base.progress import duration
from spotsieve.stream.base.settings.model import LOOK_AT_RULE
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import REASONS, Kind, Reason, Verdicts, reasons_of

SUSPICIOUS_SHARE = 0.9
"""A run with more pages that are unchecked for their text, or exact copies of one page, was probably misread."""
LEAST_SUSPICIOUS = 50
"""The pages that a run has at least to be suspicious: a few error pages are equal now and then."""
_WITHOUT_TEXT = (Reason.EMPTY, Reason.NOT_TEXT, Reason.TOO_FEW_FEATURES)


@dataclass(slots=True)
class ExactCopies:
    """The page with most exact copies, by majority vote (Boyer and Moore 1981), in constant memory.

    original: the id of that page  votes: its exact copies, less those of other pages
    If one page has the share p of a run's exact copies, votes is at least 2 p - 1 of them.
    """

    original: str = ""
    votes: int = 0

    def count(self, verdicts: Verdicts) -> None:
        """Add the exact copies of a micro-batch."""
        exact = np.flatnonzero(verdicts.reason == Reason.EXACT).tolist()
        for original, copies in Counter(found.id for row in exact if (found := verdicts.originals[row])).items():
            self.add(ExactCopies(original, copies))

    def add(self, other: "ExactCopies") -> None:
        """Add the votes of another run or batch."""
        if other.original == self.original:
            self.votes += other.votes
        elif other.votes > self.votes:
            self.original, self.votes = other.original, other.votes - self.votes
        else:
            self.votes -= other.votes


@dataclass(slots=True)
class FilterSummary:
    """The counts of a run. They grow while it runs.

    other_records: WARC records without a page
    revisits: revisit records among them
    records_about_pages: records among them that a crawler wrote about pages, such as their text or a screenshot
    companions: records among them that were written, mostly with their pages
    companions_alone: records about pages that were written although their page is not in their file
    revisits_written: revisit records written in place of dropped pages
    future_times: pages whose time was later than their file's and was replaced by it
    repaired_utf8: pages with invalid UTF-8 that was replaced by U+FFFD
    without_rank: pages without a number or date at input.rank_from
    text_errors: novel pages without the text of --text, because extracting it failed with an internal error
    bytes_read: bytes of the files as stored
    entries: pages in the state
    in_other_states: duplicates that a state of --against contains
    changed: new pages by the path of a file that was filtered before
    rules: matched pages by the name of each rule in the settings
    exact_copies: the page with most exact copies
    faults: errors of the files that could not be read to their end
    """

    files: int = 0
    records: int = 0
    other_records: int = 0
    revisits: int = 0
    records_about_pages: int = 0
    companions: int = 0
    companions_alone: int = 0
    revisits_written: int = 0
    future_times: int = 0
    repaired_utf8: int = 0
    without_rank: int = 0
    text_errors: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    entries: int = 0
    in_other_states: int = 0
    interrupted: bool = False
    changed: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    exact_copies: ExactCopies = field(default_factory=ExactCopies)
    faults: list[SpotsieveError] = field(default_factory=list)

    @property
    def suspicion(self) -> str:
        """Why a person should look at the run, as clauses; "" if nothing suggests it."""
        return "; ".join(filter(None, (self._misread, self._not_judged, self._not_extracted)))

    @property
    def _misread(self) -> str:
        """Why the pages were probably misread; "" if nothing suggests it."""
        without_text = sum(self.reasons[reason.label] for reason in _WITHOUT_TEXT)
        copies = self.exact_copies
        if self.pages < LEAST_SUSPICIOUS or without_text + copies.votes <= SUSPICIOUS_SHARE * self.pages:
            return ""
        found = [f"{without_text:,} have too little text to be checked"] if without_text else []
        found += [f"{copies.votes:,} are exact copies of {copies.original}"] if copies.votes else []
        return (
            f"of {self.pages:,} pages, {' and '.join(found)}: were they read from the right field? "
            "(input.fields.body, input.format)"
        )

    @property
    def _not_judged(self) -> str:
        """How many pages were emitted unchecked because of an internal error; "" if none were."""
        failed = self.reasons[Reason.INTERNAL_ERROR.label]
        if not failed:
            return ""
        return (
            f"judging failed with an internal error for {failed:,} of {self.pages:,} pages, which were emitted "
            "unchecked: please report the errors that were logged"
        )

    @property
    def _not_extracted(self) -> str:
        """How many pages have no text because of an internal error; "" if none have."""
        if not self.text_errors:
            return ""
        return (
            f"extracting the text failed with an internal error for {self.text_errors:,} of {self.pages:,} pages: "
            "please report the errors that were logged"
        )

    @property
    def exit_code(self) -> int:
        """The exit code of a run with these counts."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.faults:
            return EXIT_INPUT
        return EXIT_SUSPICIOUS if self.suspicion else EXIT_OK

    @property
    def pages(self) -> int:
        """The number of judged pages."""
        return self.verdicts.total()

    @property
    def duplicates(self) -> int:
        """The number of dropped pages."""
        return self.verdicts[Kind.DUPLICATE.label]

    @property
    def unseen(self) -> int:
        """The number of novel pages that had not been submitted before."""
        unseen = (reason for reason in reasons_of(Kind.NOVEL) if reason is not Reason.FIRST_ATTEMPT)
        return sum(self.reasons[reason.label] for reason in unseen)

    def count(self, verdicts: Verdicts) -> None:
        """Add the verdicts of a micro-batch."""
        for kind in Kind:
            self.verdicts[kind.label] += int(np.count_nonzero(verdicts.kind == kind))
        self.exact_copies.count(verdicts)
        for reason in Reason:
            self.reasons[reason.label] += int(np.count_nonzero(verdicts.reason == reason))

    def add(self, other: "FilterSummary") -> None:
        """Add the counts of a run over other files."""
        for field_ in fields(self):
            ours, theirs = getattr(self, field_.name), getattr(other, field_.name)
            if isinstance(ours, ExactCopies):
                ours.add(theirs)
            elif isinstance(ours, Counter):
                ours.update(theirs)
            elif isinstance(ours, dict):
                ours.update({name: ours.get(name, 0) + count for name, count in theirs.items()})
            else:
                setattr(self, field_.name, ours or theirs if isinstance(ours, bool) else ours + theirs)

    def as_json(self) -> dict[str, Any]:
        """Every figure by its JSON name. A name ends in its unit, if the figure has one."""
        return {
            "files": self.files,
            "records": self.records,
            "pages": self.pages,
            **{kind.label: self.verdicts[kind.label] for kind in Kind},
            "reasons": dict(+self.reasons),
            "rejected": self.rejected.total(),
            "rejected_reasons": dict(self.rejected),
            "other_records": self.other_records,
            "revisits": self.revisits,
            "records_about_pages": self.records_about_pages,
            "companions": self.companions,
            "companions_alone": self.companions_alone,
            "revisits_written": self.revisits_written,
            "future_times": self.future_times,
            "repaired_utf8": self.repaired_utf8,
            "without_rank": self.without_rank,
            "text_errors": self.text_errors,
            "bytes_read": self.bytes_read,
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(self.pages / self.seconds, 1) if self.seconds else 0.0,
            "state_entries": self.entries,
            "in_other_states": self.in_other_states,
            "interrupted": self.interrupted,
            "changed_files": self.changed,
            "rules": self.rules,
            "suspicion": self.suspicion,
            "errors": [str(fault) for fault in self.faults],
        }

    def as_text(self) -> str:
        """A few lines for people, and one for each file that could not be read to its end."""
        share = self.duplicates / self.pages if self.pages else 0.0
        speed = self.pages / self.seconds if self.seconds else 0.0
        files = "1 file" if self.files == 1 else f"{self.files} files"
        pace = f"{speed:,.0f} pages/s, {self.bytes_read / 1e6:,.1f} MB read"
        lines = [f"{self.pages:,} pages of {files} in {duration(self.seconds)} ({pace})"]
        lines.append(
            f"  novel      {self.verdicts['novel']:>10,}{self._listed(Kind.NOVEL)}\n"
            f"  duplicate  {self.duplicates:>10,}  {share:.1%} dropped"
            f"{self._listed(Kind.DUPLICATE)}\n"
            f"  unchecked  {self.verdicts['unchecked']:>10,}  emitted unchecked"
            f"{self._listed(Kind.UNCHECKED)}"
        )
        if self.rejected:
            detail = _detail(self.rejected, self.rejected)
            lines.append(f"  rejected   {self.rejected.total():>10,}  records without a readable page{detail}")
        if self.other_records:
            with_pages = self.companions - self.companions_alone
            lines.append(
                f"  other      {self.other_records:>10,}  WARC records without a page"
                + (f" ({self.revisits:,} revisits)" if self.revisits else "")
                + (f", {with_pages:,} written with their pages" if with_pages else "")
            )
        if self.records_about_pages:
            lines.append(
                f"  companions {self.records_about_pages:>10,}  of these were written by a crawler about pages "
                "(input.companion_uris)"
                + (f", {self.companions_alone:,} kept whose page is not in their file" if self.companions_alone else "")
            )
        if self.revisits_written:
            lines.append(f"  revisits   {self.revisits_written:>10,}  written in place of dropped pages")
        if self.future_times:
            lines.append(f"  times      {self.future_times:>10,}  later than the file's own time, replaced by it")
        if self.repaired_utf8:
            lines.append(f"  repaired   {self.repaired_utf8:>10,}  pages with invalid UTF-8, replaced by U+FFFD")
        if self.without_rank:
            lines.append(f"  no rank    {self.without_rank:>10,}  no number or date at input.rank_from, ranked last")
        if self.in_other_states:
            lines.append(f"  {self.in_other_states:,} of the duplicates are in the states of --against")
        lines.append(f"  the state holds {self.entries:,} pages")
        lines += [
            f"  {escape_control_characters(path)} was filtered before: {pages:,} of its pages are not in the state, "
            "because they are new, changed or forgotten"
            for path, pages in self.changed.items()
        ]
        lines += [
            f"  {escape_control_characters(rule)} matched no page: {LOOK_AT_RULE}"
            for rule, pages in self.rules.items()
            if not pages and self.pages
        ]
        if self.interrupted:
            lines.append(
                "  interrupted: not all records were judged, and the outputs are named .partial; run the same command "
                "again"
            )
        if self.suspicion:
            lines.append(f"  suspicious: {escape_control_characters(self.suspicion)}")
        lines.extend(f"  {escape_control_characters(str(fault))}" for fault in self.faults)
        return "\n".join(lines)

    def _listed(self, kind: Kind) -> str:
        """The counts of a verdict's reasons, in the order of the reason table, such as " (near 12, exact 3)"."""
        return _detail(self.reasons, [reason.label for reason in reasons_of(kind) if REASONS[reason].listed])


def _detail(counter: Counter[str], names: Iterable[str]) -> str:
    counts = [f"{name} {counter[name]:,}" for name in names if counter[name]]
    return f" ({', '.join(counts)})" if counts else ""
