"""Writes docs/measured/quality.md: every figure of a run as tables, with sets, settings and machine."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from bench.quality import report_choices, report_orders
from bench.quality.figures import SPEED_SET, Figures, Run
from bench.quality.markdown import FRESH_HEADER, fresh_cells, paragraph, table
from bench.quality.report_targets import SPEED_PEER, TIMES_QUICKER, is_met, targets, times_quicker
from bench.quality.validation import FITTED_SCHEME
from bench.speed.report import machine
from bench.targets import met
from spotsieve.stream.base.verdict import Kind, reasons_of
from spotsieve.stream.research.scoring import Scores
from spotsieve.stream.research.scoring.comparison import three_decimals

PACKAGES = ("numpy", "numba", "trafilatura", "resiliparse", "datasketch", "simhash", "rensa")


def as_markdown(run: Run, figures: Figures, command: str, plots: Mapping[str, str]) -> str:
    """The whole document. plots: title -> path from the document"""
    parts = [
        _head(run, figures, command),
        targets(run, figures),
        _sets(run, figures),
        report_orders.orders(figures),
        _families(figures),
        report_orders.first_pages(figures),
        _speed(figures),
        _peers(run, figures),
        _kinds(figures),
        _ways(figures),
        report_choices.ablations(run, figures),
        report_choices.sweeps(figures, plots),
        report_choices.validation(run, figures),
        report_choices.robustness(run, figures, plots),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(run: Run, figures: Figures, command: str) -> str:
    about = machine()
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    on = f"{datetime.now(UTC).date().isoformat()} (commit {about['commit']})"
    seconds = ", ".join(
        _took(name, took, figures.measured_on.get(name, on), on) for name, took in figures.seconds.items()
    )
    changed = ", ".join(f"`{name} = {value}`" for name, value in run.base.items())
    what = f"with {changed}" if changed else "default settings"
    first = paragraph(f"""
        Scheme `{run.settings.scheme.name}`, {what}, one setting for all sets, measured by `{command}` on
        {on}: {about["cores"]} cores of {about["cpu"]},
        {about["system"]}, Python {about["python"]}, {versions}. Time taken: {seconds}.
        {"QUICK: the beginning of each set only." if run.quick else ""}
    """)
    second = paragraph("""
        The labelled sets are not part of the repository. A page is a duplicate if the main text of an earlier page
        has a similarity of 0.6 or more with its own, and novel if all are below 0.2. `spotsieve score` gives the same
        figures. This document is written by `make quality`; do not edit it.
    """)
    unseen = "Those under Cross-validation are of hosts and articles that neither fit nor choice has seen."
    unseen = unseen if figures.validation else ""
    third = paragraph(f"""
        How far to trust it: the scorecards that choose the text are fitted to the pages of {SPEED_SET}
        (`python -m bench.quality.scorecard_fit`), and thresholds were set with all of these sets, and the
        robustness bench, in view. So the figures by page are of material that was looked at. {unseen} No rule names a
        host, a template or a word of a set.
    """)
    is_fitted = run.settings.scheme.name == FITTED_SCHEME
    return "\n\n".join(["# Quality", first, second, *([third] if is_fitted else [])])


def _took(name: str, seconds: float, on: str, today: str) -> str:
    """A part and its time; with the date if it is of an earlier run."""
    return f"{name} {seconds:.0f} s" + ("" if on == today else f" on {on}")


def _sets(run: Run, figures: Figures) -> str:
    rows = []
    for labelled in run.sets:
        judged = figures.judged.get(labelled.name)
        if judged is None:
            continue
        pages = judged.scores.pages
        unchecked = sum(judged.reasons[reason.label] for reason in reasons_of(Kind.UNCHECKED))
        rows.append(
            [
                labelled.name,
                f"{len(labelled.pages):,}",
                *_retrieval(judged.scores),
                f"{pages.lost_count} of {pages.novel:,}",
                *fresh_cells(figures.fresh.get(labelled.name)),
                f"{unchecked:,}",
                _target(labelled.name, judged.scores),
            ]
        )
    header = ["set", "pages", "precision", "recall", "F1", "novel lost", *FRESH_HEADER, "unchecked", "target"]
    note = paragraph("""
        Precision to "novel lost" follow the labels, the next three columns the fresh text, without labels: a page is
        lost if it was dropped with 40 % of its words fresh, missed if it was emitted although an earlier page contains
        it; words gone are those of dropped pages that no emitted page has.
    """)
    return f"## By page\n\n{note}\n\n" + table(header, rows) if rows else ""


def _target(name: str, scores: Scores) -> str:
    good = is_met(name, scores)
    return "" if good is None else met(good)


def _families(figures: Figures) -> str:
    rows = [
        [name, *(f"{family.total(one):,}" for one in ("pages", "novel", "lost", "copies", "missed"))]
        for name, family in figures.families.items()
    ]
    note = paragraph("""
        Generated pages on which a filter goes wrong that trusts templates, titles or similarity too much. Lost: novel
        pages that were dropped. Missed: copies that were emitted although their original was emitted before.
        `python -m bench.quality.families` prints them for other sizes, seeds and settings.
    """)
    header = ["family", "pages", "novel", "lost", "copies", "missed"]
    return f"## Families\n\n{note}\n\n" + table(header, rows) if rows else ""


def _speed(figures: Figures) -> str:
    speed, quicker = figures.speed, times_quicker(figures)
    if speed is None or quicker is None:
        return ""
    peer_ms, times = quicker
    what = f"trafilatura + MinHash {peer_ms:.1f} ms a page, ours {speed.cpu_ms * 1e3:.0f} us: times as quick"
    rows = [[what, f"{times:.0f} x", f">= {TIMES_QUICKER} x", met(times >= TIMES_QUICKER)]]
    note = paragraph(f"""
        {speed.set_name}, {speed.pages:,} pages in batches of 512, CPU time of one thread, median of {speed.rounds}
        rounds; {speed.load:.1f} processes wanted the machine's cores meanwhile. Both were measured here, side by side.
        How fast the kernel is by itself, `make bench` measures: docs/measured/speed.md has the figure.
    """)
    return f"## Speed of signing\n\n{note}\n\n" + table(["measurement", "figure", "target", "met"], rows)


def _peers(run: Run, figures: Figures) -> str:
    rows = []
    for labelled in run.sets:
        found = [
            (peer.name, peer.scores, peer.fresh, f"{peer.cpu_ms:.2f}") for peer in figures.peers.get(labelled.name, ())
        ]
        judged = figures.judged.get(labelled.name)
        if judged and found:
            is_timed = figures.speed is not None and figures.speed.set_name == labelled.name
            cost = f"{figures.speed.cpu_ms:.3f}" if figures.speed and is_timed else ""
            name, fresh = f"**spotsieve `{run.settings.scheme.name}`**", figures.fresh.get(labelled.name)
            found.insert(0, (name, judged.scores, fresh, cost))
        rows += [
            [name, labelled.name, *_retrieval(scores), str(scores.pages.lost_count), *fresh_cells(fresh), cost]
            for name, scores, fresh, cost in found
        ]
    if not rows:
        return ""
    note = (
        "Peers are put together from the registry's packages: main content, 5-word shingles, 128 permutations, an LSH "
        "index checked by the estimated Jaccard; they drop, index and emit as the filter does. CPU a page is all "
        "their steps; ours is signing alone (docs/measured/speed.md has the index). Plain text is its own main content."
    )
    header = ["filter", "set", "precision", "recall", "F1", "novel lost", *FRESH_HEADER, "CPU ms a page"]
    return f"## Beside its peers\n\n{note}\n\n{table(header, rows, 2)}{_peers_on_edits(run, figures)}"


def _peers_on_edits(run: Run, figures: Figures) -> str:
    """The share of the robustness bench's copies that peers find."""
    if not figures.peers_on_edits:
        return ""
    names = list(next(iter(figures.peers_on_edits.values())))
    rows = [[edit, *(f"{shares[name]:.3f}" for name in names)] for edit, shares in figures.peers_on_edits.items()]
    note = paragraph(f"""
        Share of the edited copies found, of the same edits as under Robustness: {figures.peer_pages} pages of
        {run.speed_set.name}, each copy compared with its own original.
    """)
    return f"\n\n### Edited copies\n\n{note}\n\n" + table(["edit", *names], rows)


def _kinds(figures: Figures) -> str:
    rows = []
    for name, judged in figures.judged.items():
        peer = next((peer for peer in figures.peers.get(name, ()) if peer.name == SPEED_PEER), None)
        ordered = figures.ordered.get(name)
        for kind, (dropped, count) in judged.scores.pages.found.items():
            beside = "" if peer is None else str(count - peer.scores.pages.found[kind][0])
            missed = [run.scores.pages.found.get(kind, (0, 0)) for run in ordered.runs] if ordered else []
            rows.append(
                [name, "missed", kind, str(count), str(count - dropped), _range([b - a for a, b in missed]), beside]
            )
        for kind, (dropped, count) in judged.scores.pages.lost.items():
            beside = "" if peer is None else str(peer.scores.pages.lost[kind][0])
            lost = [run.scores.pages.lost.get(kind, (0, 0))[0] for run in ordered.runs] if ordered else []
            rows.append([name, "lost", kind, str(count), str(dropped), _range(lost), beside])
    note = paragraph(f"""
        Missed: duplicates that were emitted, by the kind of edit that made them (kind of the closest earlier pair).
        Lost: novel pages dropped, by the kind of page; of catalogue that is the site. Ours in the set's own
        order, and from the fewest to the most of the orders; in another order other pages are the duplicates.
        Peer: {SPEED_PEER}, where it was measured.
    """)
    header = ["set", "error", "kind", "pages", "ours", "orders", "peer"]
    return f"## Errors by kind\n\n{note}\n\n" + table(header, rows, 3) if rows else ""


def _range(counts: Sequence[int]) -> str:
    return f"{min(counts)} to {max(counts)}" if counts else ""


def _ways(figures: Figures) -> str:
    if not figures.ways:
        return ""
    names = list(next(iter(figures.ways.values())))
    rows = []
    for name, ways in figures.ways.items():
        found = sum(ways.values())
        share = (f"{ways[way]} ({ways[way] / found:.1%})" if found else "0" for way in names)
        rows.append([name, str(found), *share])
    note = (
        "The kinds of keys under which duplicates that were found meet their original; a page with an equal digest is "
        "counted there, whatever else it shares. All but the digest and the MinHash values are of one host."
    )
    return f"## What finds the originals\n\n{note}\n\n" + table(["set", "found", *names], rows)


def _retrieval(scores: Scores) -> tuple[str, str, str]:
    found = scores.pages.retrieval
    return three_decimals(found.precision), three_decimals(found.recall), three_decimals(found.f1)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
