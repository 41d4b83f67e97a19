"""Counts what a run over files did, and writes the counts for people and for machines."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.base.progress import duration
from spotsieve.stream.base.settings.model import LOOK_AT_RULE
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import REASONS, Kind, Reason, Verdicts, reasons_of


@dataclass(slots=True)
class FilterSummary:
    """The counts of a run, which grow as it goes on.

    changed: paths that the state knew, with how many pages they have that it did not know
    other_records: WARC records that are no pages  revisits: those of them that say that a page
    had not changed  companions: those of them that went out with their pages  revisits_written: those that were written
    in place of dropped pages  bytes_read: as on disk  entries: pages the state knows
    without_rank: pages in which input.rank_from leads to no number or date
    future_times: pages with a time later than their file's, which was set back to the file's
    rules: how many pages each rule of the settings took, by its name
    """

    files: int = 0
    records: int = 0
    other_records: int = 0
    revisits: int = 0
    companions: int = 0
    revisits_written: int = 0
    future_times: int = 0
    without_rank: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    entries: int = 0
    interrupted: bool = False
    changed: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    faults: list[SpotsieveError] = field(default_factory=list)

    @property
    def pages(self) -> int:
        """How many pages were judged."""
        return self.verdicts.total()

    @property
    def duplicates(self) -> int:
        """How many pages were dropped."""
        return self.verdicts[Kind.DUPLICATE.name.lower()]

    @property
    def unseen(self) -> int:
        """How many pages were novel that had not been submitted before."""
        unseen = (reason for reason in reasons_of(Kind.NOVEL) if reason is not Reason.FIRST_ATTEMPT)
        return sum(self.reasons[reason.label] for reason in unseen)

    def count(self, verdicts: Verdicts) -> None:
        """Add the verdicts of a micro-batch."""
        for kind in Kind:
            self.verdicts[kind.name.lower()] += int(np.count_nonzero(verdicts.kind == kind))
        for reason in Reason:
            self.reasons[reason.label] += int(np.count_nonzero(verdicts.reason == reason))

    def add(self, other: "FilterSummary") -> None:
        """Add the counts of a run over other files."""
        for field_ in fields(self):
            ours, theirs = getattr(self, field_.name), getattr(other, field_.name)
            if isinstance(ours, Counter):
                ours.update(theirs)
            elif isinstance(ours, dict):
                ours.update({name: ours.get(name, 0) + count for name, count in theirs.items()})
            else:
                setattr(self, field_.name, ours or theirs if isinstance(ours, bool) else ours + theirs)

    def as_json(self) -> dict[str, Any]:
        """Return every figure for machines; a name ends in its unit if there is one."""
        return {
            "files": self.files,
            "records": self.records,
            "pages": self.pages,
            **{kind.name.lower(): self.verdicts[kind.name.lower()] for kind in Kind},
            "reasons": dict(+self.reasons),
            "rejected": self.rejected.total(),
            "rejected_reasons": dict(self.rejected),
            "other_records": self.other_records,
            "revisits": self.revisits,
            "companions": self.companions,
            "revisits_written": self.revisits_written,
            "future_times": self.future_times,
            "without_rank": self.without_rank,
            "bytes_read": self.bytes_read,
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(self.pages / self.seconds, 1) if self.seconds else 0.0,
            "state_entries": self.entries,
            "interrupted": self.interrupted,
            "changed_files": self.changed,
            "rules": self.rules,
            "errors": [str(fault) for fault in self.faults],
        }

    def as_text(self) -> str:
        """Return a few lines for people, and one for each file that could not be read to its end."""
        share = self.duplicates / self.pages if self.pages else 0.0
        speed = self.pages / self.seconds if self.seconds else 0.0
        files = "1 file" if self.files == 1 else f"{self.files} files"
        pace = f"{speed:,.0f} pages/s, {self.bytes_read / 1e6:,.1f} MB read"
        lines = [f"{self.pages:,} pages of {files} in {duration(self.seconds)} ({pace})"]
        lines.append(
            f"  novel      {self.verdicts['novel']:>10,}{self._listed(Kind.NOVEL)}\n"
            f"  duplicate  {self.duplicates:>10,}  {share:.1%} dropped"
            f"{self._listed(Kind.DUPLICATE)}\n"
            f"  unchecked  {self.verdicts['unchecked']:>10,}  passed on"
            f"{self._listed(Kind.UNCHECKED)}"
        )
        if self.rejected:
            lines.append(f"  rejected   {self.rejected.total():>10,}  no pages{_detail(self.rejected, self.rejected)}")
        if self.other_records:
            lines.append(
                f"  other      {self.other_records:>10,}  WARC records that are no pages"
                + (f" ({self.revisits:,} revisits)" if self.revisits else "")
                + (f", {self.companions:,} of them kept" if self.companions else "")
            )
        if self.revisits_written:
            lines.append(f"  revisits   {self.revisits_written:>10,}  written in place of dropped pages")
        if self.future_times:
            lines.append(f"  times      {self.future_times:>10,}  later than their file, set back to its time")
        if self.without_rank:
            lines.append(f"  no rank    {self.without_rank:>10,}  no number or date at input.rank_from: last of all")
        lines.append(f"  the state knows {self.entries:,} pages")
        lines += [
            f"  {escape_control_characters(path)} was filtered before, and has {pages:,} pages that the state does not "
            "know: new, changed or forgotten"
            for path, pages in self.changed.items()
        ]
        lines += [
            f"  {escape_control_characters(rule)} matched no page: {LOOK_AT_RULE}"
            for rule, pages in self.rules.items()
            if not pages and self.pages
        ]
        if self.interrupted:
            lines.append(
                "  interrupted: the rest was not judged, and outputs end in .partial; run the same command again"
            )
        lines.extend(f"  {escape_control_characters(str(fault))}" for fault in self.faults)
        return "\n".join(lines)

    def _listed(self, kind: Kind) -> str:
        """The counts of a verdict's reasons, in the order of their table: " (near 12, exact 3)"."""
        return _detail(self.reasons, [reason.label for reason in reasons_of(kind) if REASONS[reason].listed])


def _detail(counter: Counter[str], names: Iterable[str]) -> str:
    found = [f"{name} {counter[name]:,}" for name in names if counter[name]]
    return f" ({', '.join(found)})" if found else ""
