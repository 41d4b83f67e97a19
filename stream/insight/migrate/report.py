"""Reports what a migration did: pages, the verdicts that differ, and what to do next, as text and as JSON."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spotsieve.state.log.former import FORMER_VERSION
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

FORMER = f"unknown: the old log has record version {FORMER_VERSION}, which does not say them"
FILES_NOT_NEEDED = "the files of --from-pages were not read: these settings sign pages as the old ones do"
UNCOMPARED = (
    "which pages the old log dropped is not known, and each is taken for an original now: a later copy of one may be "
    "dropped though nobody was sent either"
)
ONLY_NOVEL = "begin anew with files of --from-pages that hold the novel pages alone, and only these are originals"
_KINDS = tuple(kind.name.lower() for kind in Kind)


@dataclass(slots=True)
class MigrationReport:
    """What a migration did.

    old_log, new_log: their names  settings: how they differ, or ""  signed_again: whether pages were signed again
    record: the old log is moved up to here  open: whether the new log is open
    counts: as of the journal  differences: the file of the verdicts that differ
    next_step: what to do now  notices: what a person should know besides
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
        """How many verdicts differ."""
        kinds = sum(self.counts[f"{old}/{new}"] for old in _KINDS for new in _KINDS if old != new)
        return kinds + self.counts[OTHER_ORIGINAL]


def as_json(report: MigrationReport) -> dict[str, Any]:
    """Every figure by its name."""
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
    """For people."""
    counts = report.counts
    rate = f" at {counts[PAGES] / report.seconds:,.0f}/s" if report.seconds else ""
    lines = [
        f"moved      {counts[PAGES]:,} pages of the log {report.old_log} into {report.new_log}{rate}",
        f"up to      record {report.record:,} of the old log",
        f"settings   {report.settings or 'those of the old log'}",
        f"signed     {'again, from the pages' if report.signed_again else 'as in the old log'}",
    ]
    if report.compared:
        corner = "old / new"
        lines += ["", f"{corner:<20}" + "".join(f"{new:>12}" for new in _KINDS)]
        lines += [f"{old:<20}" + "".join(f"{counts[f'{old}/{new}']:>12,}" for new in _KINDS) for old in _KINDS]
        alone = f" ({counts[OTHER_ORIGINAL]:,} in the original alone)" if counts[OTHER_ORIGINAL] else ""
        lines += ["", f"differ     {report.differ:,} verdicts{alone}: {report.differences}"]
    if counts[UNSENT]:
        lines.append(
            f"unsent     {counts[UNSENT]:,} pages were dropped that would be let through now: nobody was sent them, so "
            "they are no originals"
        )
    if counts[FROM_FILES]:
        lines.append(f"files      {counts[FROM_FILES]:,} pages were found in files")
    if counts[GONE]:
        lines.append(
            f"gone       {counts[GONE]:,} pages could not be signed again, as nothing holds them any more: the next "
            "copy of each is novel"
        )
    if counts[UNLIKE]:
        lines.append(
            f"unlike     {counts[UNLIKE]:,} of these have their address in the files, but other bytes: these were not "
            "taken, as nobody was sent them"
        )
    if counts[FORGOTTEN]:
        lines.append(f"forgotten  {counts[FORGOTTEN]:,} pages, where the old log forgets them")
    lines += [f"notice     {notice}" for notice in report.notices]
    lines += [f"next       {report.next_step}"] if report.next_step else []
    return "\n".join(escape_control_characters(line) for line in lines)
