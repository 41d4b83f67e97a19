"""The measurements of a run: each takes sets and settings, and adds figures for docs/measured/quality.md."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.quality import ours, variants
from bench.quality import robustness as edited_copies
from bench.quality.ablations import ABLATIONS, GROUPS, Ablation
from bench.quality.candidates import ways_of_finding
from bench.quality.extracts import Extracts
from bench.quality.orders import ORDERS, Arrivals, OrderRuns, count_arrivals, in_orders
from bench.quality.ours import JudgedSet
from bench.quality.peers import run_peers
from bench.quality.scorecard_fit import Fit, Material
from bench.quality.sets import LabelledSet
from bench.quality.thresholds import AXES, Axis
from bench.quality.validation import SEEDS, Validation, validate
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.research.scoring import Scores, score
from spotsieve.stream.research.scoring.fresh_text import FreshText
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.families.measure import FamilyFigures
from tests.fixtures.families.measure import measure as measure_family

SPEED_SET = "news"
"""The set for signing speed and for the targets of the robustness bench; the first set if it is missing."""
FEWEST_ORIGINALS = 10
"""Pages of a set that the robustness bench needs."""
FEW_PAGES = (0, 4, 8, 20)
"""Pages of a host for which the judge takes more care: steps of the table of first pages."""


@dataclass(frozen=True)
class Run:
    """The input of a run. base: overrides of all settings; say: shows progress"""

    sets: Sequence[LabelledSet]
    base: Mapping[str, object]
    config: Path | None
    quick: bool
    say: Callable[[str], None]
    extracts: Extracts = field(default_factory=Extracts)

    @property
    def settings(self) -> Settings:
        """The measured settings."""
        return self.under({})

    def under(self, overrides: Mapping[str, object]) -> Settings:
        """The settings with some overrides."""
        return ours.settings_with({**self.base, **overrides}, self.config)

    @property
    def speed_set(self) -> LabelledSet:
        """The set on which speed is measured and to which scorecards are fitted."""
        named = [labelled for labelled in self.sets if labelled.name == SPEED_SET]
        return (named or list(self.sets))[0]

    @cached_property
    def ordered(self) -> dict[str, list[LabelledSet]]:
        """Every set in each measured order, by name."""
        count = 2 if self.quick else ORDERS
        return {labelled.name: list(in_orders(labelled, count)) for labelled in self.sets}

    @cached_property
    def samples(self) -> dict[str, edited_copies.Sample]:
        """The originals of the robustness bench, by set: sets with main texts, and links to inject."""
        most = 60 if self.quick else 600
        with_texts = [labelled for labelled in self.sets if labelled.main_texts]
        drawn = {labelled.name: edited_copies.draw_sample(labelled, most) for labelled in with_texts}
        return {
            name: sample
            for name, sample in drawn.items()
            if sample.link_lists and len(sample.pages) >= FEWEST_ORIGINALS
        }

    @cached_property
    def material(self) -> Material:
        """The input of the fit of scorecards."""
        self.say(f"  blocks of {self.speed_set.name}")
        return Material(self.speed_set)


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """A peer over a set. fresh: by fresh text, None without main texts"""

    name: str
    scores: Scores
    cpu_ms: float
    fresh: FreshText | None


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One rule changed: our figures by set, in one order or more, and the speed of signing where that differs.

    fresh: by fresh text, by set in its own order; sets without main texts are left out
    """

    name: str
    by_set: Mapping[str, OrderRuns]
    mb_per_s: float | None
    fresh: Mapping[str, FreshText]


@dataclass(frozen=True, slots=True)
class FirstPages:
    """The effect of care for a host's first pages: all orders together, the first pages and the later ones."""

    few_pages: int
    by_set: Mapping[str, tuple[Arrivals, Arrivals]]


@dataclass(frozen=True, slots=True)
class SweptStep:
    """One value of a threshold: figures by set."""

    value: float
    by_set: Mapping[str, JudgedSet]


@dataclass(frozen=True, slots=True)
class Speed:
    """Signing on one core: 10^6 bytes of raw body per second, and CPU milliseconds per page.

    load: processes that wanted a core, on average over the minute before; others' take caches and half of a core
    """

    set_name: str
    pages: int
    median: float
    cpu_ms: float
    rounds: int
    load: float


@dataclass
class Figures:
    """All figures of a run; a part that was not selected is empty or None."""

    judged: dict[str, JudgedSet] = field(default_factory=dict)
    fresh: dict[str, FreshText] = field(default_factory=dict)
    ordered: dict[str, OrderRuns] = field(default_factory=dict)
    fresh_ordered: dict[str, list[FreshText]] = field(default_factory=dict)
    families: dict[str, FamilyFigures] = field(default_factory=dict)
    first_pages: list[FirstPages] = field(default_factory=list)
    peers: dict[str, list[PeerFigures]] = field(default_factory=dict)
    speed: Speed | None = None
    ways: dict[str, dict[str, int]] = field(default_factory=dict)
    ablations: list[AblationRow] = field(default_factory=list)
    groups: list[AblationRow] = field(default_factory=list)
    sweeps: dict[str, list[SweptStep]] = field(default_factory=dict)
    validation: Validation | None = None
    peers_on_edits: dict[str, Mapping[str, float]] = field(default_factory=dict)
    peer_pages: int = 0
    sample_pages: dict[str, int] = field(default_factory=dict)
    robustness: dict[str, list[edited_copies.RobustnessRow]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    measured_on: dict[str, str] = field(default_factory=dict)


def measure_sets(run: Run, figures: Figures) -> None:
    """Our scheme over every set, and the keys that found the originals."""
    for labelled in run.sets:
        run.say(f"  {labelled.name}")
        judged = ours.run(labelled, run.settings)
        figures.judged[labelled.name] = judged
        if fresh := labelled.fresh_text(judged.originals):
            figures.fresh[labelled.name] = fresh
        figures.ways[labelled.name] = ways_of_finding(judged, labelled.truth)


def measure_orders(run: Run, figures: Figures) -> None:
    """Our scheme over every set in several orders."""
    for name, orders in run.ordered.items():
        run.say(f"  {name}")
        runs = [ours.run(labelled, run.settings) for labelled in orders]
        figures.ordered[name] = OrderRuns(runs)
        measured = [labelled.fresh_text(one.originals) for labelled, one in zip(orders, runs, strict=True)]
        if all(measured):
            figures.fresh_ordered[name] = [fresh for fresh in measured if fresh]


def measure_families(run: Run, figures: Figures) -> None:
    """Our scheme over generated families of pages (tests/fixtures/families)."""
    given = {name.replace(".", "__"): value for name, value in run.base.items()}
    for name in FAMILIES:
        run.say(f"  {name}")
        figures.families[name] = measure_family(family_pages(name, size=0.2 if run.quick else 1.0), **given)


def measure_first_pages(run: Run, figures: Figures) -> None:
    """The costs and gains of care for a host's first pages, for a scheme that knows hosts."""
    if not isinstance(run.settings.scheme, SpotsieveSettings):
        return
    for few in FEW_PAGES:
        run.say(f"  care for {few} pages")
        with variants.judge_of(Ablation("", rules={"pairs.FEW_PAGES": few})):
            figures.first_pages.append(
                FirstPages(
                    few,
                    {
                        name: count_arrivals([(labelled, ours.run(labelled, run.settings)) for labelled in orders])
                        for name, orders in run.ordered.items()
                    },
                )
            )


def measure_speed(run: Run, figures: Figures) -> None:
    """Raw bodies to complete signatures, one core."""
    labelled, rounds, load = run.speed_set, 3 if run.quick else 11, os.getloadavg()[0]
    median = ours.signing_speed(labelled, run.settings, rounds)
    pages = len(labelled.pages)
    figures.speed = Speed(labelled.name, pages, median, 1e3 * labelled.megabytes / median / pages, rounds, load)


def measure_peers(run: Run, figures: Figures) -> None:
    """Every peer over every set."""
    for labelled in run.sets:
        figures.peers[labelled.name] = [
            PeerFigures(
                peer.name, score(labelled.truth, peer.originals), peer.cpu_ms, labelled.fresh_text(peer.originals)
            )
            for peer in run_peers(labelled, run.extracts, run.say)
        ]
    if sample := run.samples.get(run.speed_set.name):
        figures.peer_pages = min(len(sample.pages), 20 if run.quick else 200)
        figures.peers_on_edits = dict(edited_copies.measure_peers(sample, figures.peer_pages))


def measure_ablations(run: Run, figures: Figures) -> None:
    """Every row of the scheme's tables: signed and judged again, for some with refitted cards."""
    name, speed_rounds = run.settings.scheme.name, 1 if run.quick else 5
    figures.ablations = [_ablated(run, ablation, speed_rounds) for ablation in ABLATIONS.get(name, ())]


def measure_groups(run: Run, figures: Figures) -> None:
    """Each group of the scorecards left out and the cards refitted; in the sets' own orders."""
    name = run.settings.scheme.name
    if name in GROUPS and run.speed_set.main_texts:
        fit = Fit(run.material.of())
        for ablation in (Ablation("all groups"), *GROUPS[name]):
            run.say(f"  {ablation.name}")
            points = fit.points(ablation.without)
            by_set = {
                labelled.name: OrderRuns([variants.run_ablation(ablation, labelled, run.settings, points)])
                for labelled in run.sets
            }
            figures.groups.append(AblationRow(ablation.name, by_set, None, _fresh_by_set(run, by_set)))


def _ablated(run: Run, ablation: Ablation, rounds: int) -> AblationRow:
    """rounds: of the speed, if the kernel works differently"""
    run.say(f"  {ablation.name}")
    settings, timed = run.under(ablation.overrides), run.speed_set
    with variants.judge_of(ablation):
        by_set = {
            name: OrderRuns([variants.run_ablation(ablation, labelled, settings) for labelled in orders])
            for name, orders in run.ordered.items()
        }
    is_timed = ablation.overrides and variants.signs_otherwise(settings, run.settings, timed.pages[:50])
    speed = ours.signing_speed(timed, settings, rounds) if is_timed else None
    return AblationRow(ablation.name, by_set, speed, _fresh_by_set(run, by_set))


def _fresh_by_set(run: Run, by_set: Mapping[str, OrderRuns]) -> dict[str, FreshText]:
    """The measures by fresh text of the sets in their own order, the first of by_set."""
    measured = {labelled.name: labelled.fresh_text(by_set[labelled.name].runs[0].originals) for labelled in run.sets}
    return {name: fresh for name, fresh in measured.items() if fresh}


def measure_sweeps(run: Run, figures: Figures) -> None:
    """Every threshold of the scheme over its steps, the others unchanged; pages are signed once."""
    axes = AXES.get(run.settings.scheme.name, ())
    signed = [(labelled, ours.sign(labelled.pages, run.settings)) for labelled in run.sets] if axes else []
    for axis in axes:
        run.say(f"  {axis.name}")
        _check_axis(run, axis)
        figures.sweeps[axis.name] = [
            SweptStep(
                step.value,
                {
                    labelled.name: ours.judge(records, labelled.truth, run.under(step.overrides), labelled.name)
                    for labelled, records in signed
                },
            )
            for step in axis.swept
        ]


def measure_validation(run: Run, figures: Figures) -> None:
    """Cards fitted and thresholds chosen on each fold's training part, evaluated on its held-out part."""
    seeds = 1 if run.quick else SEEDS
    figures.validation = validate(run.sets, run.speed_set, lambda: run.material, run.under, seeds, run.say)


def measure_robustness(run: Run, figures: Figures) -> None:
    """Edited copies against their originals."""
    for name, sample in run.samples.items():
        run.say(f"  {name}")
        figures.sample_pages[name] = len(sample.pages)
        has_targets = name == run.speed_set.name
        figures.robustness[name] = list(edited_copies.measure(sample, run.settings, has_targets, run.say))


PARTS: Mapping[str, Callable[[Run, Figures], Any]] = {
    "sets": measure_sets,
    "orders": measure_orders,
    "families": measure_families,
    "first": measure_first_pages,
    "speed": measure_speed,
    "peers": measure_peers,
    "ablations": measure_ablations,
    "groups": measure_groups,
    "sweeps": measure_sweeps,
    "validation": measure_validation,
    "robustness": measure_robustness,
}


def _check_axis(run: Run, axis: Axis) -> None:
    """A threshold that changes signatures cannot be swept over pages that are signed once."""
    pages = run.speed_set.pages[:50]
    signed = {tuple(ours.sign(pages, run.under(step.overrides))) for step in (axis.swept[0], axis.swept[-1])}
    if len(signed) != 1:
        raise SettingError(axis.name, "must not change signatures to be swept", None, "make it an ablation instead")
