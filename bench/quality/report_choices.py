"""Writes the second half of docs/measured/quality.md: the reasons for these rules and thresholds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

from bench.quality.figures import AblationRow, Figures, Run
from bench.quality.folds import FOLDS, LOST_PENALTY, FoldCounts
from bench.quality.markdown import paragraph, table
from bench.quality.orders import OrderRuns
from bench.quality.robustness import INJECTED, RobustnessRow
from bench.quality.validation import Validation
from bench.targets import met
from spotsieve.stream.research.scoring import Scores
from spotsieve.stream.research.scoring.comparison import three_decimals
from spotsieve.stream.research.scoring.fresh_text import FreshText


def ablations(run: Run, figures: Figures) -> str:
    """Each rule changed separately."""
    if not figures.ablations:
        return ""
    names = [labelled.name for labelled in run.sets]
    header = ["rule changed", *(f"{name}: F1, novel lost; lost, missed" for name in names), "signing speed"]
    rows = []
    if figures.ordered:
        speed = "1.00" if figures.speed else ""
        unchanged = AblationRow("none", figures.ordered, None, figures.fresh)
        rows.append([*_ablated(unchanged, names), speed])
    rows += [[*_ablated(row, names), _times_as_fast(row, figures)] for row in figures.ablations]
    note = paragraph("""
        One rule changed at a time, everything else as above; medians over the orders, and after the sign / the most
        novel pages lost in an order. After the semicolon: lost and missed by fresh text, in the set's own order. Where
        the kernel then does something else, the last column has its speed of signing, as a multiple of the
        unchanged kernel's. A rule whose absence changes nothing here is not proven by these sets;
        stream/judge/by_host/pairs.py and docs/decisions.md say what it is for.
    """)
    parts = [f"## Ablations\n\n{note}\n\n" + table(header, rows)]
    if figures.groups:
        header = ["scorecards fitted with", *(f"{name}: F1, novel lost; lost, missed" for name in names)]
        note = paragraph(f"""
            Both cards are fitted again to all of {run.speed_set.name} without one group of classes, and used with it
            left out: what the other groups cannot make up for. Every set is in its own order alone. The sets beside
            {run.speed_set.name} are the better judges here, since the fit has not seen them; differences of a few pages
            are noise.
        """)
        parts.append(
            f"### Groups of the scorecards\n\n{note}\n\n"
            + table(header, [_ablated(row, names) for row in figures.groups])
        )
    return "\n\n".join(parts)


def _times_as_fast(row: AblationRow, figures: Figures) -> str:
    if row.mb_per_s is None or figures.speed is None:
        return ""
    return f"{row.mb_per_s / figures.speed.median:.2f}"


def _ablated(row: AblationRow, names: Sequence[str]) -> list[str]:
    return [row.name, *(f"{_over_orders(row.by_set[name])}{_by_fresh_text(row.fresh.get(name))}" for name in names)]


def _by_fresh_text(fresh: FreshText | None) -> str:
    return f"; {len(fresh.lost)}, {len(fresh.missed)}" if fresh else ""


def sweeps(figures: Figures, plots: Mapping[str, str]) -> str:
    """Each threshold moved separately, with its plot."""
    parts = []
    for name, steps in figures.sweeps.items():
        sets = list(steps[0].by_set)
        rows = [[f"{step.value:g}", *(_f1_lost(step.by_set[one].scores) for one in sets)] for step in steps]
        plot = f"\n\n![{name}]({plots[name]})" if name in plots else ""
        parts.append(f"### {name}\n\n" + table(["value", *(f"{one}: F1, lost" for one in sets)], rows) + plot)
    note = (
        "One threshold moved, the others at their defaults; pages are signed once and judged again. Without a limit, "
        "`max_fresh_words` is 0."
    )
    return f"## Threshold sweep\n\n{note}\n\n" + "\n\n".join(parts) if parts else ""


def validation(run: Run, figures: Figures) -> str:
    """Scorecards fitted and thresholds chosen without the hosts and clusters on which they are then evaluated."""
    found = figures.validation
    if found is None:
        return ""
    seeds = range(len(found.results) // FOLDS)
    held_out = ", ".join(f"{share:.0%} of {name}" for name, share in found.shares.items())
    fitted = f"the scorecards are fitted to the training pages of {found.fitted_on} and " if found.fitted_on else ""
    note = paragraph(f"""
        {FOLDS} folds, assigned {len(seeds)} time(s). A fold's training part has no page of its hosts and no page
        of its clusters (pages joined by a group or by a listed pair of similarity .2 or more). Hosts and clusters
        together form one giant component, so pages whose host and cluster fell into different folds are left out of
        both parts of those folds: {held_out} are held out in some fold. In each fold {fitted}one of {found.tried}
        choices of thresholds is taken: the one with the greatest mean F1 less {LOST_PENALTY:g} times the mean share of
        novel pages lost over the training parts of all sets. Then the whole streams are filtered once with these, and
        the fold's held-out pages are counted: first those of all folds together, then fold by fold (mean and standard
        deviation). A fold without a duplicate in its held-out part has no F1.
    """)
    pooled = table(
        ["set", "assignment", "held-out pages", "F1", "duplicates missed", "novel lost"],
        [
            [labelled.name, str(seed + 1), *_pooled(found.of_seed(labelled.name, seed))]
            for labelled in run.sets
            for seed in seeds
        ],
    )
    by_fold = [_by_fold(found, labelled.name) for labelled in run.sets]
    header = ["set", "folds with F1", "F1 held out", "least", "novel lost in a fold", "F1 in training"]
    return "\n\n".join(["## Cross-validation", note, pooled, table(header, by_fold), _chosen(found)])


def _pooled(part: FoldCounts) -> list[str]:
    pages, missed = part.duplicates + part.novel, part.duplicates - part.found
    return [f"{pages:,}", f"{part.f1:.3f}", f"{missed} of {part.duplicates:,}", f"{part.lost} of {part.novel:,}"]


def _by_fold(found: Validation, name: str) -> list[str]:
    parts = [result.held_out[name] for result in found.results if name in result.held_out]
    trained = [result.training[name].f1 for result in found.results if name in result.training]
    f1, lost = [part.f1 for part in parts if part.duplicates], [part.lost for part in parts]
    lost_range = f"{min(lost, default=0)} to {max(lost, default=0)}"
    return [name, str(len(f1)), _spread(f1), f"{min(f1, default=0):.3f}", lost_range, _spread(trained)]


def _chosen(found: Validation) -> str:
    """The number of times that each step of each threshold was chosen."""
    names = list(found.results[0].choice)
    rows = []
    for name in names:
        counts = Counter(result.choice[name] for result in found.results)
        values = ", ".join(f"{value} ({counts[value]} x)" for value in sorted(counts, key=str))
        rows.append([f"`{name}`" if "." in name else name, values])
    return "Chosen, of the steps that were tried:\n\n" + table(["threshold", "value (folds)"], rows, 2)


def robustness(run: Run, figures: Figures, plots: Mapping[str, str]) -> str:
    """Edited copies found, by kind of edit."""
    if not figures.robustness:
        return ""
    originals = ", ".join(f"{count} of {name}" for name, count in figures.sample_pages.items())
    headlines = figures.robustness.get(run.speed_set.name, ())
    note = paragraph(f"""
        Originals (one a cluster, at least 100 words of main text): {originals}. All are in the state; an edited copy of
        each is submitted at another host or at another URL of the same host, and is found if its verdict names its
        own original; the target is held against the lesser of the two. Words of the main text, or of all text of the
        page, menus included, are replaced by words drawn from the vocabulary of all pages. Link lists are taken from
        other pages and put between two blocks of the main text; as bare text they stand there without any link.
        {_harsher(headlines) if headlines else ""}
    """)
    parts = [f"## Robustness\n\n{note}"]
    for name, rows in figures.robustness.items():
        plot = f"\n\n![robustness of {name}]({plots[f'robustness-{name}']})" if f"robustness-{name}" in plots else ""
        shown = [[row.name, f"{row.other_host:.3f}", f"{row.same_host:.3f}", _target_of(row)] for row in rows]
        parts.append(f"### {name}\n\n" + table(["edit", "another host", "same host", "target"], shown) + plot)
    return "\n\n".join(parts)


def _target_of(row: RobustnessRow) -> str:
    if row.target is None:
        return ""
    return f">= {row.target:g}: {met(row.least >= row.target)}"


def _harsher(rows: Sequence[RobustnessRow]) -> str:
    """The harder way of injecting here: the issue's target means that one."""
    by_way = {way: sum(row.least for row in rows if row.name.endswith(way)) for way in ("as links", "as bare text")}
    way = min(by_way, key=by_way.__getitem__)
    return (
        f" Of the two ways, {way} is the harsher for {' and '.join(map(str, INJECTED))} words, and the headline figure."
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{mean(values):.3f} +- {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _over_orders(ordered: OrderRuns) -> str:
    """F1 and novel pages lost: of the median order, and the most lost in any order if there are several."""
    worst = f" / {max(ordered.lost)}" if len(ordered.runs) > 1 else ""
    return f"{three_decimals(median(ordered.f1))}, {ordered.median_lost:g}{worst}"


def _f1_lost(scores: Scores) -> str:
    return f"{three_decimals(scores.pages.retrieval.f1)}, {scores.pages.lost_count}"
