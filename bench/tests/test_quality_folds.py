"""Cross-validation: a held-out part shares nothing with its training part."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from bench.quality import ours, validation
from bench.quality.folds import FOLDS, FoldCounts, choose, make_folds, objective
from bench.quality.scorecard_fit import Material
from bench.quality.sets import load_set
from bench.quality.thresholds import AXES, Axis, AxisStep, axis, choices
from bench.quality.validation import outcome_of


def crossing(seed: int = 1) -> tuple[list[str], list[int]]:
    random = Random(seed)
    return [f"h{random.randrange(60)}" for _ in range(1_500)], [random.randrange(200) for _ in range(1_500)]


def assert_disjoint(hosts: list[str] | tuple[str, ...], clusters: list[int] | tuple[int, ...], seed: int) -> None:
    held_out: list[int] = []
    for fold in make_folds(hosts, clusters, FOLDS, seed):
        for names in (hosts, clusters):
            assert not {names[place] for place in fold.training} & {names[place] for place in fold.held_out}
        assert list(fold.training) == sorted(set(fold.training))
        held_out += fold.held_out
    assert len(held_out) == len(set(held_out))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_host_and_no_cluster_of_a_fold_is_in_its_training_part(seed: int) -> None:
    assert_disjoint(*crossing(seed=seed), seed)


@pytest.mark.parametrize("name", ["news", "docs", "newsgroups"])
def test_folds_of_the_labelled_sets_are_disjoint_and_use_most_pages(shared_data: Path, name: str) -> None:
    labelled = load_set(shared_data / name)
    assert_disjoint(labelled.hosts, labelled.clusters, 0)
    folds = make_folds(labelled.hosts, labelled.clusters, FOLDS, 0)
    assert sum(len(fold.held_out) for fold in folds) > 0.7 * len(labelled.pages)


def test_pages_that_cross_nothing_are_all_held_out_once_in_folds_of_like_size() -> None:
    hosts = [f"h{number % 50}" for number in range(1_000)]
    folds = make_folds(hosts, range(1_000), FOLDS, 0)
    assert [len(fold.held_out) for fold in folds] == [200] * FOLDS
    assert [len(fold.training) for fold in folds] == [800] * FOLDS


def test_the_same_seed_gives_the_same_folds() -> None:
    hosts, clusters = crossing()
    assert make_folds(hosts, clusters, FOLDS, 5) == make_folds(hosts, clusters, FOLDS, 5)
    assert make_folds(hosts, clusters, FOLDS, 5) != make_folds(hosts, clusters, FOLDS, 6)


def test_a_lost_page_outweighs_a_missed_duplicate() -> None:
    careful = {"a": FoldCounts(97, 100, 0, 200)}
    greedy = {"a": FoldCounts(100, 100, 2, 200)}
    assert objective(careful) > objective(greedy)
    assert objective({"a": FoldCounts(0, 0, 0, 50)}) == 0.0
    assert (FoldCounts(8, 10, 2, 5).f1, FoldCounts(0, 0, 1, 5).f1) == (0.8, 0.0)


def test_the_choice_is_made_on_the_training_part_alone() -> None:
    def training(choice: Mapping[str, object]) -> dict[str, FoldCounts]:
        return {"a": FoldCounts({1: 5, 2: 9, 3: 9}[int(str(choice["k"]))], 10, 0, 10)}

    seen: list[object] = []

    def held_out(choice: Mapping[str, object]) -> dict[str, FoldCounts]:
        seen.append(choice["k"])
        return {"a": FoldCounts(7, 10, 1, 10)}

    result = choose([{"k": 1}, {"k": 2}, {"k": 3}], training, held_out)
    assert (result.choice, seen, result.held_out["a"].found) == ({"k": 2}, [2], 7)


def test_every_combination_of_the_steps_is_tried() -> None:
    axes = [
        Axis("one", (), (AxisStep(1, {"a": 1}), AxisStep(2, {"a": 2, "b": 0}))),
        Axis("only swept", (AxisStep(9, {"d": 9}),)),
        Axis("two", (), (AxisStep(5, {"c": 5}),)),
    ]
    assert choices(axes) == [{"a": 1, "c": 5}, {"a": 2, "b": 0, "c": 5}]
    assert choices([]) == [{}]
    assert all(choices(axes) for axes in AXES.values())


def test_only_the_held_out_pages_are_counted_in_a_stream_of_all(shared_data: Path) -> None:
    labelled = load_set(shared_data / "newsgroups", 400)
    judged = ours.run(labelled, ours.settings_with({}))
    every = outcome_of(judged, labelled, range(400))
    assert (every.found, every.lost) == (judged.scores.pages.found_count, judged.lost)
    parts = [outcome_of(judged, labelled, range(first, 400, 2)) for first in (0, 1)]
    assert parts[0].duplicates + parts[1].duplicates == every.duplicates
    assert parts[0].novel + parts[1].novel == every.novel


@pytest.mark.slow
def test_thresholds_are_chosen_and_cards_fitted_in_each_fold(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="the fit needs the packages that `make quality` installs")
    news = load_set(shared_data / "news", 120)
    monkeypatch.setattr(validation, "AXES", {"spotsieve": [axis("scheme.min_containment", (), (0.9, 0.6))]})
    found = validation.validate([news], news, lambda: Material(news), ours.settings_with, 1, lambda _: None)
    assert found is not None
    assert (found.tried, len(found.results), found.fitted_on) == (4, FOLDS, "news")
    pooled = found.of_seed("news", 0)
    assert pooled.f1 > 0.9
    assert pooled.duplicates + pooled.novel <= 120 * found.shares["news"]
    assert all(set(result.choice) == {"scheme.min_containment", validation.KEEP_THRESHOLD} for result in found.results)
