"""Owns the second half of docs/quality.md: why these rules and thresholds, and how far they carry."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from stream.scoring import Scores
from stream.scoring.report import three_decimals
from tests.quality.figures import Figures, Run
from tests.quality.folds import FOLDS, LOST_PENALTY
from tests.quality.markdown import paragraph, table
from tests.quality.robustness import INJECTED, Row


def ablations(run: Run, figures: Figures) -> str:
    """Each rule changed alone."""
    if not figures.ablations:
        return ""
    names = [labelled.name for labelled in run.sets]
    header = ["rule changed", *(f"{name}: F1, lost" for name in names), "signing MB/s"]
    rows = []
    if figures.judged:
        speed = f"{figures.speed.median:.0f}" if figures.speed else ""
        rows.append(["none", *(_f1_lost(figures.judged[name].scores) for name in names), speed])
    for row in figures.ablations:
        cells = (_f1_lost(row.by_set[name].scores) for name in names)
        rows.append([row.name, *cells, f"{row.mb_per_s:.0f}"])
    return "## Ablations\n\nOne rule changed at a time, everything else as above.\n\n" + table(header, rows)


def sweeps(figures: Figures, plots: Mapping[str, str]) -> str:
    """Each threshold moved alone, with its plot."""
    parts = []
    for name, steps in figures.sweeps.items():
        sets = list(steps[0].by_set)
        rows = [[f"{step.value:g}", *(_f1_lost(step.by_set[one].scores) for one in sets)] for step in steps]
        plot = f"\n\n![{name}]({plots[name]})" if name in plots else ""
        parts.append(f"### {name}\n\n" + table(["value", *(f"{one}: F1, lost" for one in sets)], rows) + plot)
    note = "One threshold moved, the others at their defaults; pages are signed once and judged again."
    return f"## Threshold sweep\n\n{note}\n\n" + "\n\n".join(parts) if parts else ""


def validation(run: Run, figures: Figures) -> str:
    """Thresholds chosen without the hosts and clusters that they are then tried on."""
    found = figures.validation
    if found is None:
        return ""
    chosen = [", ".join(f"{name} = {value}" for name, value in result.choice.items()) for result in found.results]
    rows = []
    for labelled in run.sets:
        name = labelled.name
        parts = [result.held_out[name] for result in found.results if name in result.held_out]
        f1 = [part.f1 for part in parts if part.duplicates]
        lost, novel = sum(part.lost for part in parts), sum(part.novel for part in parts)
        trained = [result.training[name].f1 for result in found.results if name in result.training]
        rows.append([
            name, f"{found.shares[name]:.0%}", str(len(f1)), _spread(trained), _spread(f1),
            f"{min(f1, default=0):.3f}", f"{lost} of {novel:,}",
        ])  # fmt: skip
    counted = [f"- {chosen.count(choice)} x {choice}" for choice in dict.fromkeys(chosen)]
    note = paragraph(f"""
        {FOLDS} folds, assigned anew {len(found.results) // FOLDS} time(s); a fold's training part has no page of its
        hosts and no page of its clusters (pages joined by a group or by a listed pair of similarity .2 or more). Hosts
        and clusters together form one giant component, so pages whose host and cluster fell into different folds are
        left out of both parts of those folds. Of {found.tried} choices the one is taken with the greatest mean F1 less
        {LOST_PENALTY:g} times the mean share of novel pages lost on the training parts of all sets; the held-out part
        is then filtered once, alone. Folds without a duplicate in their held-out part have no F1.
    """)
    header = ["set", "pages held out", "folds with F1", "F1 training", "F1 held out", "least", "lost, all folds"]
    return f"## Cross-validation\n\n{note}\n\n{table(header, rows)}\n\nChosen:\n\n" + "\n".join(counted)


def robustness(figures: Figures, plots: Mapping[str, str]) -> str:
    """Edited copies found, by kind of edit."""
    if not figures.robustness:
        return ""
    peers = list(figures.robustness[0].peers)
    rows = []
    for row in figures.robustness:
        headline = min(row.same_host, row.other_host)
        target = ""
        if row.kind.target is not None:
            target = f">= {row.kind.target:g}: {'met' if headline >= row.kind.target else 'NOT MET'}"
        beside = [f"{row.peers[name]:.3f}" for name in peers]
        rows.append([row.kind.name, f"{row.other_host:.3f}", f"{row.same_host:.3f}", target, *beside])
    note = paragraph(f"""
        {figures.sample_pages} originals (one a cluster, at least 100 words of main text), all in the state; an edited
        copy of each is submitted at another host or at another address of the same host, and is found if its verdict
        names its own original; the target is held against the lesser of the two. Words of the main text, or of all text
        of the page, menus included, are replaced by words drawn from the vocabulary of all pages. Link lists are taken
        from other pages and put between two blocks of the main text. {_harsher(figures.robustness)} Peers compare each
        copy with its own original, on {figures.peer_pages} pages.
    """)
    header = ["edit", "another host", "same host", "target", *peers]
    plot = f"\n\n![robustness]({plots['robustness']})" if "robustness" in plots else ""
    return f"## Robustness\n\n{note}\n\n{table(header, rows)}{plot}"


def _harsher(rows: Sequence[Row]) -> str:
    """Which way of injecting is the harder one here: that is the one the issue's target means."""
    by_way = {
        way: sum(min(row.same_host, row.other_host) for row in rows if row.kind.name.endswith(way))
        for way in ("as links", "as bare text")
    }
    way = min(by_way, key=by_way.__getitem__)
    return (
        f" Of the two ways, {way} is the harsher for {' and '.join(map(str, INJECTED))} words, and the headline figure."
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{mean(values):.3f} +- {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _f1_lost(scores: Scores) -> str:
    return f"{three_decimals(scores.pages.retrieval.f1)}, {scores.pages.lost_count}"
