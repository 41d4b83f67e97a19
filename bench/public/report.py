"""Writes docs/measured/public.md from docs/measured/public.json: one table of all sets, and the picture."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.peers.filters import OURS, PEERS
from bench.public.datasets import PUBLIC
from bench.public.measuring import LEAST_WORK_S, SLOW_S, SetFigures
from bench.quality.markdown import paragraph, table
from spotsieve.stream.research.scoring.comparison import three_decimals

ALL = "all"


class FilterRow(NamedTuple):
    """A filter over all sets: means of the sets for quality, sums for the rest. None: not measured"""

    name: str
    pages_per_s: float
    is_bound: bool
    times: float
    start_s: float
    peak_mib: float
    precision: float | None
    recall: float
    f1: float
    novel_lost: int
    novel: int
    lost: int | None
    missed: int | None


def summarize(sets: Mapping[str, SetFigures], name: str) -> FilterRow:
    """The figures of a filter over some sets, one or more."""
    pages = sum(one.pages for one in sets.values())
    found, ours = ([one.filters[of] for one in sets.values()] for of in (name, OURS))
    work = sum(one.work_s for one in found)
    precise = [one.precision for one in found if one.precision is not None]

    return FilterRow(
        name=name,
        pages_per_s=pages / work,
        is_bound=work <= LEAST_WORK_S * len(found),
        times=work / sum(one.work_s for one in ours),
        start_s=statistics.median(one.start_s for one in found),
        peak_mib=max(one.peak_mib for one in found),
        precision=statistics.mean(precise) if precise else None,
        recall=statistics.mean(one.recall for one in found),
        f1=statistics.mean(one.f1 for one in found),
        novel_lost=sum(one.novel_lost for one in found),
        novel=sum(one.novel for one in found),
        lost=_sum(one.lost for one in found),
        missed=_sum(one.missed for one in found),
    )


def names_of(sets: Mapping[str, SetFigures]) -> list[str]:
    """The filters that were measured on every set, ours first."""
    return [name for name in (OURS, *PEERS) if all(name in one.filters for one in sets.values())]


def as_markdown(
    sets: Mapping[str, SetFigures],
    machine: str,
    picture: str,
    absent: Sequence[str],
    missing: Mapping[str, Sequence[str]],
) -> str:
    """The page. absent: data sets that could not be downloaded  missing: packages that are not installed, by filter"""
    dates = sorted({one.measured for one in sets.values()})
    left_out = [
        *(f"- {name} ({PUBLIC[name].about}): it could not be downloaded where this was measured." for name in absent),
        *(f"- {name}: {', '.join(packages)} could not be installed." for name, packages in missing.items()),
    ]
    parts = [
        "# Beside other filters",
        paragraph(f"""
            The filter and filters that are put together from public packages, over the same files. Written by
            `make public`; do not edit it. Measured on {", ".join(dates)}: {machine}.
        """),
        f"![Quality against speed, one point for each filter]({picture})",
        _method(),
        *(["Left out:", "\n".join(left_out)] if left_out else []),
        "## Figures",
        paragraph(f"""
            The rows of `{ALL}` have the mean of precision, recall and F1 over the sets, and sums of pages. "CPU" is the
            CPU of a page in multiples of ours. Start is the CPU of the command over a single page.
        """),
        _table(sets),
        "## The data",
        _data(),
    ]
    return "\n\n".join(parts) + "\n"


def _data() -> str:
    names = "; ".join(
        f"`{name}`, {one.about}: [{one.hub[0]}](https://huggingface.co/datasets/{one.hub[0]})"
        for name, one in PUBLIC.items()
    )
    return paragraph(f"""
        Public sets are downloaded from the Hugging Face hub and converted to labelled sets in
        `~/.cache/spotsieve/public`. {names}. Without network, put their files into the folder `raw` of a set there.
        The other sets are those of [Quality](quality.md). They are not part of the repository, and the thresholds of
        our filter were chosen with them in view.
    """)


def _method() -> str:
    return paragraph(f"""
        Each filter is a command that reads a file of JSON pages and writes a verdict for every page. All commands run
        in turn in each round. Pages/s a core is the number of pages by the CPU seconds of the command, all its threads
        added, less its CPU over a single page: the median of the rounds, and the first round alone where it takes more
        than {SLOW_S} s. Precision, recall, F1 and "novel lost" follow the labels; lost and missed pages follow the
        fresh text, without labels ([Quality](quality.md#by-page) defines them). MinHash of the peers takes 5-word
        shingles and 128 hashes, an LSH index, and the estimated Jaccard 0.5; other thresholds are in
        [Quality](quality.md#beside-its-peers). datatrove runs with its defaults, but hashes by SHA-1, because its
        default hash does not run with the installed xxhash. The exact hash finds equal bodies only: it is the lower
        bound of the cost. Our state is a RocksDB on disk, those of the peers are in memory.
    """)


def _table(sets: Mapping[str, SetFigures]) -> str:
    header = [
        "set",
        "filter",
        "pages/s a core",
        "CPU",
        "start, s",
        "peak MiB",
        "precision",
        "recall",
        "F1",
        "novel lost",
        "lost",
        "missed",
    ]
    rows = []
    for title, chosen in {ALL: sets, **{name: {name: one} for name, one in sets.items()}}.items():
        rows += [_row(title, chosen, summarize(chosen, name)) for name in names_of(chosen)]
    return table(header, rows, 2)


def _row(title: str, sets: Mapping[str, SetFigures], one: FilterRow) -> list[str]:
    pages = sum(figures.pages for figures in sets.values())
    return [
        f"{title}, {pages:,} pages",
        f"**{one.name}**" if one.name == OURS else one.name,
        f"{'> ' if one.is_bound else ''}{one.pages_per_s:,.0f}",
        _times(one, summarize(sets, OURS)),
        f"{one.start_s:.2f}",
        f"{one.peak_mib:.0f}",
        *(three_decimals(value) for value in (one.precision, one.recall, one.f1)),
        f"{one.novel_lost} of {one.novel:,}",
        *("" if count is None else f"{count:,}" for count in (one.lost, one.missed)),
    ]


def _times(one: FilterRow, ours: FilterRow) -> str:
    """The CPU of a page in multiples of ours, as a bound where one of the two is known as a bound alone."""
    if one.name != OURS and one.is_bound and ours.is_bound:
        return ""
    mark = "" if one.is_bound == ours.is_bound else "< " if one.is_bound else "> "
    return f"{mark}{one.times:.2f} x"


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one of the counts is missing."""
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)
