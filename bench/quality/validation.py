"""Cross-validates over hosts and clusters: the choice of a fold's training part, and its results on the rest.

In each fold the scorecards are fitted to the pages of its training part, and the thresholds, also that of kept blocks,
are chosen there. Then the whole stream of every set is filtered once with them. Only the pages of the fold's held-out
part are counted: strangers and originals among the other pages stand in the way as they always do.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

from bench.quality import ours
from bench.quality.cards import Points
from bench.quality.folds import FOLDS, Fold, FoldCounts, FoldResult, choose, make_folds
from bench.quality.ours import JudgedSet
from bench.quality.scorecard_fit import Fit, Material, points_replaced
from bench.quality.sets import LabelledSet
from bench.quality.thresholds import AXES, choices
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.research.scoring import Label
from spotsieve.stream.sign.features import scorecard

SEEDS = 2
KEEP_THRESHOLD = "keep threshold"
KEEP_THRESHOLDS = (scorecard.KEEP_ABOVE, -48)
"""Thresholds for the second card's sum of a kept block: the kernel's own, and one that keeps more."""
FITTED_SCHEME = "spotsieve"
Choice = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Validation:
    """A cross-validation. tried: number of choices  shares: of each set's pages that are held out in some fold

    fitted_on: the set whose training parts the scorecards were fitted to, "" where nothing was fitted
    """

    tried: int
    results: Sequence[FoldResult]
    shares: Mapping[str, float]
    fitted_on: str

    def of_seed(self, name: str, seed: int) -> FoldCounts:
        """The held-out pages of a set, of all folds of one assignment together."""
        parts = [
            part.held_out[name] for part in self.results[seed * FOLDS : (seed + 1) * FOLDS] if name in part.held_out
        ]
        return FoldCounts(
            *(sum(getattr(part, count) for part in parts) for count in ("found", "duplicates", "lost", "novel"))
        )


def validate(
    sets: Sequence[LabelledSet],
    fitted_on: LabelledSet,
    material_of: Callable[[], Material],
    under: Callable[[Choice], Settings],
    seeds: int,
    say: Callable[[str], None],
) -> Validation | None:
    """None for a scheme without thresholds to choose.

    material_of: gives that of `fitted_on`, where the scheme has scorecards  under: settings with some of them changed
    """
    name = under({}).scheme.name
    thresholds = choices([axis for axis in AXES.get(name, ()) if axis.tried])
    if thresholds == [{}]:
        return None
    is_fitted = name == FITTED_SCHEME and bool(fitted_on.main_texts)
    material = material_of() if is_fitted else None
    tried = (
        [{**choice, KEEP_THRESHOLD: keep_above} for keep_above in KEEP_THRESHOLDS for choice in thresholds]
        if is_fitted
        else thresholds
    )
    results, held_out = [], Counter[str]()
    for seed in range(seeds):
        folds = {labelled.name: make_folds(labelled.hosts, labelled.clusters, FOLDS, seed) for labelled in sets}
        for number in range(FOLDS):
            say(f"  seed {seed}, fold {number}")
            fold = _FoldRun({part: folds[part][number] for part in folds}, sets, fitted_on.name, material, under)
            results.append(choose(tried, fold.training, fold.held_out))
            held_out.update({labelled.name: len(fold.folds[labelled.name].held_out) for labelled in sets})
    shares = {labelled.name: held_out[labelled.name] / seeds / len(labelled.pages) for labelled in sets}
    return Validation(len(tried), results, shares, fitted_on.name if is_fitted else "")


@dataclass
class _FoldRun:
    """One fold of every set. material: training data of the fitted set; None: nothing is fitted"""

    folds: Mapping[str, Fold]
    sets: Sequence[LabelledSet]
    fitted_on: str
    material: Material | None
    under: Callable[[Choice], Settings]

    def __post_init__(self) -> None:
        self._signed: dict[object, dict[str, list[bytes]]] = {}

    @cached_property
    def parts(self) -> list[LabelledSet]:
        """The training parts, each a separate stream."""
        chosen = ((labelled, self.folds[labelled.name].training) for labelled in self.sets)
        return [labelled.part(places) for labelled, places in chosen if places]

    @cached_property
    def points(self) -> Points | None:
        """The scorecards of this fold."""
        if self.material is None:
            return None
        return Fit(self.material.of(self.folds[self.fitted_on].training)).points()

    def training(self, choice: Choice) -> dict[str, FoldCounts]:
        """The counts of a choice on the training parts."""
        keep_above = choice.get(KEEP_THRESHOLD)
        if keep_above not in self._signed:
            with self.points_at(keep_above):
                self._signed[keep_above] = {part.name: ours.sign(part.pages, self.under({})) for part in self.parts}
        settings = self._settings(choice)
        return {
            part.name: outcome_of(
                ours.judge(self._signed[keep_above][part.name], part.truth, settings, part.name),
                part,
                range(len(part.pages)),
            )
            for part in self.parts
        }

    def held_out(self, choice: Choice) -> dict[str, FoldCounts]:
        """The counts of a choice on the held-out pages of the whole streams."""
        settings = self._settings(choice)
        with self.points_at(choice.get(KEEP_THRESHOLD)):
            return {
                labelled.name: outcome_of(ours.run(labelled, settings), labelled, self.folds[labelled.name].held_out)
                for labelled in self.sets
                if self.folds[labelled.name].held_out
            }

    def points_at(self, keep_above: object) -> AbstractContextManager[None]:
        """Keep blocks by this fold's points above this threshold while the block runs."""
        if self.points is None or not isinstance(keep_above, int):
            return nullcontext()
        start = self.points["second start"][0] + scorecard.KEEP_ABOVE - keep_above
        return points_replaced({**self.points, "second start": (start,)})

    def _settings(self, choice: Choice) -> Settings:
        return self.under({name: value for name, value in choice.items() if name != KEEP_THRESHOLD})


def outcome_of(judged: JudgedSet, labelled: LabelledSet, places: Sequence[int]) -> FoldCounts:
    """The counts of some pages of a stream."""
    dropped = Counter[Label]()
    pages = Counter[Label]()
    for place in places:
        label = labelled.truth.labels[place][0]
        pages[label] += 1
        dropped[label] += judged.originals[place] is not None
    return FoldCounts(dropped[Label.DUPLICATE], pages[Label.DUPLICATE], dropped[Label.NOVEL], pages[Label.NOVEL])
