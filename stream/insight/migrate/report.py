"""The report of a migration as text and JSON: pages, differing verdicts, and the next step."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.insight.migrate.record_move import (
    FORGOTTEN,
    FROM_FILES,
    GONE,
    OTHER_ORIGINAL,
    PAGES,
    UNLIKE,
    UNSENT,
)

FILES_NOT_NEEDED = "the files of --from-pages were not needed: the new settings sign pages like the old ones"
UNCOMPARED = (
    "the old verdicts are unknown, so every page of the old log may become an original: if the old settings dropped a "
    "page, its later copies may be dropped too, and then no copy is emitted"
)
ONLY_NOVEL = "to avoid this, restart with --from-pages files that have only the novel pages"
_KINDS = tuple(kind.label for kind in Kind)


@dataclass(slots=True)
class MigrationReport:
    """The result of a migration.

    old_log, new_log: names  settings: the differing settings, or ""  signed_again: whether pages were signed again
    record: old log offset up to which records are moved  open: whether workers may use the new log
    compared: whether old and new verdicts were compared  counts: those of the journal
    differences: file with the differing verdicts  next_step, notices: for people
    """

    old_log: str
    new_log: str
    settings: str
    signed_again: bool
    differences: Path
    record: int = 0
    open: bool = False
    compared: bool = True
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    next_step: str = ""
    notices: list[str] = field(default_factory=list)

    @property
    def differ(self) -> int:
        """The number of differing verdicts."""
        kinds = sum(self.counts[f"{old}/{new}"] for old in _KINDS for new in _KINDS if old != new)
        return kinds + self.counts[OTHER_ORIGINAL]


def as_json(report: MigrationReport) -> dict[str, Any]:
    """The report for machines."""
    counts = report.counts
    return {
        "old_log": report.old_log,
        "new_log": report.new_log,
        "settings_differ": report.settings,
        "signed_again": report.signed_again,
        "moved_up_to": report.record,
        "open": report.open,
        "pages": counts[PAGES],
        "pages_gone": counts[GONE],
        "pages_unlike": counts[UNLIKE],
        "pages_from_files": counts[FROM_FILES],
        "forgotten": counts[FORGOTTEN],
        "compared": report.compared,
        "old_by_new": {old: {new: counts[f"{old}/{new}"] for new in _KINDS} for old in _KINDS},
        "differ": report.differ,
        "differ_in_original_only": counts[OTHER_ORIGINAL],
        "unsent": counts[UNSENT],
        "differences": str(report.differences),
        "seconds": round(report.seconds, 3),
        "next_step": report.next_step,
        "notices": report.notices,
    }


def as_text(report: MigrationReport) -> str:
    """The report for people."""
    counts = report.counts
    rate = f" at {counts[PAGES] / report.seconds:,.0f}/s" if report.seconds else ""
    lines = [
        f"moved      {counts[PAGES]:,} pages of the log {report.old_log} into {report.new_log}{rate}",
        f"up to      record {report.record:,} of the old log",
        f"settings   {report.settings or 'same as the old log'}",
        f"signed     {'again, from the pages' if report.signed_again else 'not again: same signatures as the old log'}",
    ]
    if report.compared:
        corner = "old / new"
        lines += ["", f"{corner:<20}" + "".join(f"{new:>12}" for new in _KINDS)]
        lines += [f"{old:<20}" + "".join(f"{counts[f'{old}/{new}']:>12,}" for new in _KINDS) for old in _KINDS]
        only = f" ({counts[OTHER_ORIGINAL]:,} only in the original)" if counts[OTHER_ORIGINAL] else ""
        lines += ["", f"differ     {report.differ:,} verdicts{only}: {report.differences}"]
    if counts[UNSENT]:
        lines.append(
            f"unsent     {counts[UNSENT]:,} pages were dropped and would be novel now; they were never emitted, so "
            "they do not become originals"
        )
    if counts[FROM_FILES]:
        lines.append(f"files      {counts[FROM_FILES]:,} pages were found in files")
    if counts[GONE]:
        lines.append(
            f"gone       {counts[GONE]:,} pages could not be signed again, because their content is not available: the "
            "next copy of each is novel"
        )
    if counts[UNLIKE]:
        lines.append(
            f"unlike     {counts[UNLIKE]:,} of these pages have their URL in the files, but with other content, which "
            "was never emitted"
        )
    if counts[FORGOTTEN]:
        lines.append(f"forgotten  {counts[FORGOTTEN]:,} pages, as in the old log")
    lines += [f"notice     {notice}" for notice in report.notices]
    lines += [f"next       {report.next_step}"] if report.next_step else []
    return "\n".join(escape_control_characters(line) for line in lines)
