"""Runs the filter and its peers over a set in turn: CPU and memory of the whole commands, and quality of verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.peers.filters import OURS, PEERS, CommandRuns, run_in_turn
from bench.quality.sets import LabelledSet
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.verdict_lines import page_line
from spotsieve.stream.research.scoring import check_verdicts, score

ROUNDS = 3
SLOW_S = 10
"""CPU seconds of the first round above which a filter is not measured again."""
LEAST_WORK_S = 0.1
"""CPU seconds of the pages below which a speed is only a lower bound."""


@dataclass(frozen=True, slots=True)
class FilterFigures:
    """A filter over a set.

    cpu_s, start_s: CPU of the command over all pages and over one page, medians  peak_mib: the most of the rounds
    precision: None if no page was dropped  novel, novel_lost: by the labels
    lost, missed: by fresh text, None without main texts
    """

    cpu_s: float
    start_s: float
    peak_mib: float
    rounds: int
    precision: float | None
    recall: float
    f1: float
    novel: int
    novel_lost: int
    lost: int | None
    missed: int | None

    @property
    def work_s(self) -> float:
        """CPU seconds of the pages, without the start of the command."""
        return max(self.cpu_s - self.start_s, LEAST_WORK_S)


def filters() -> tuple[list[str], dict[str, list[str]]]:
    """The filters that can run here, and the missing packages of the others."""
    missing = {name: peer.missing for name, peer in PEERS.items() if peer.missing}
    return [OURS, *(name for name in PEERS if name not in missing)], missing


def measure_set(
    labelled: LabelledSet, names: Sequence[str], rounds: int, say: Callable[[str], None]
) -> dict[str, FilterFigures]:
    """The figures of each filter. Every round runs all filters over the same file, one after the other."""
    verdicts = dict[str, Sequence[int | None]]()

    def on_run(name: str, runs: CommandRuns, out: Path) -> None:
        verdicts[name] = originals_in(out, labelled)
        say(f"  {labelled.name}, {name}: {runs.wholes[-1].cpu_s:.2f} s, start {runs.starts[-1].cpu_s:.2f} s")

    found = run_in_turn(names, [*map(_line, labelled.pages)], rounds, on_run, SLOW_S)
    return {name: _figures(labelled, verdicts[name], runs) for name, runs in found.items()}


def _line(page: Page) -> bytes:
    """A page as the input of every filter: UTF-8 JSON."""
    body = page.body.decode("utf-8", "replace")
    return page_line(page.label, page.url, page.event_time_ms, page.markup, body) + b"\n"


def originals_in(file: Path, labelled: LabelledSet) -> Sequence[int | None]:
    """The place of each page's original from a file of verdicts. Raises InputError if they do not fit the set."""
    with file.open("rb") as lines:
        found = [(line["id"], line["duplicate_of"]) for line in map(orjson.loads, lines)]
    return check_verdicts(labelled.truth, found, labelled.name)


def _figures(labelled: LabelledSet, originals: Sequence[int | None], runs: CommandRuns) -> FilterFigures:
    pages, fresh = score(labelled.truth, originals).pages, labelled.fresh_text(originals)
    return FilterFigures(
        cpu_s=runs.cpu_s,
        start_s=runs.start_s,
        peak_mib=max(cost.peak_mib for cost in runs.wholes),
        rounds=len(runs.wholes),
        precision=pages.retrieval.precision,
        recall=pages.retrieval.recall or 0.0,
        f1=pages.retrieval.f1 or 0.0,
        novel=pages.novel,
        novel_lost=pages.lost_count,
        lost=len(fresh.lost) if fresh else None,
        missed=len(fresh.missed) if fresh else None,
    )


@dataclass(frozen=True, slots=True)
class SetFigures:
    """The figures of a set. measured: date and commit"""

    pages: int
    megabytes: float
    measured: str
    filters: Mapping[str, FilterFigures]

    def as_json(self) -> dict[str, Any]:
        """The figures as they are stored."""
        filters = {name: asdict(one) for name, one in self.filters.items()}
        return {"pages": self.pages, "megabytes": self.megabytes, "measured": self.measured, "filters": filters}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "SetFigures":
        """The figures that as_json stored."""
        filters = {name: FilterFigures(**one) for name, one in stored["filters"].items()}
        return cls(stored["pages"], stored["megabytes"], stored["measured"], filters)
