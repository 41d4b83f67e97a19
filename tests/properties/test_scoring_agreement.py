"""Any labels and any verdicts: the measures equal the labelled sets' own score.py, to the last digit."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.research.scoring import check_verdicts, load_truth, score
from spotsieve.stream.research.scoring.comparison import as_json, as_text
from tests.fixtures.pages.labelled_sets import write_labels

KINDS = ("copy", "cut", "quote", "template")
BOUNDS = (0.0, 0.1, 0.2, 0.6, 0.75, 1.0)
"""Similarities at the bounds are as likely as those between."""
Labels = tuple[list[tuple[str, str]], list[tuple[int, int, float, str]], list[int | None], float, float]


@pytest.fixture(scope="module")
def judge(shared_data: Path) -> Iterator[ModuleType]:
    """../shared/data/score.py"""
    spec = importlib.util.spec_from_file_location("shared_score", shared_data / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@st.composite
def labels_and_verdicts(draw: st.DrawFn) -> Labels:
    """Pages (id, kind), pairs (earlier, later, similarity, kind), verdicts, and the bounds."""
    ids = draw(st.lists(st.text("abcxyz019 .-é漢", min_size=1, max_size=4), min_size=1, max_size=12, unique=True))
    pages = [(page, draw(st.sampled_from(KINDS))) for page in ids]
    similarity = st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1).map(lambda value: round(value, 4)))
    places = [(one, other) for other in range(len(ids)) for one in range(other)]
    chosen = draw(st.lists(st.sampled_from(places), unique=True, max_size=30)) if places else []
    pairs = [(one, other, draw(similarity), draw(st.sampled_from(KINDS))) for one, other in chosen]
    verdicts = [draw(st.one_of(st.none(), st.integers(0, place - 1))) if place else None for place in range(len(ids))]
    negative, positive = sorted(draw(st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS))))
    return pages, pairs, verdicts, positive, negative


@settings(max_examples=400, deadline=None)
@given(drawn=labels_and_verdicts())
def test_any_labels_and_verdicts_are_worth_what_score_py_says(
    judge: ModuleType, tmp_path_factory: pytest.TempPathFactory, drawn: Labels
) -> None:
    pages, pairs, verdicts, positive, negative = drawn
    ids = [page for page, _ in pages]
    rows = [f"{ids[one]}\t{ids[other]}\t{similarity}\t{kind}" for one, other, similarity, kind in pairs]
    folder = write_labels(
        tmp_path_factory.getbasetemp(),
        "\n".join(["id\tkind", *(f"{page}\t{kind}" for page, kind in pages)]) + "\n",
        "\n".join(["id_a\tid_b\tsimilarity\tkind", *rows]) + "\n",
    )
    named = [(page, None if at is None else ids[at]) for page, at in zip(ids, verdicts, strict=True)]
    truth = load_truth(folder, positive, negative)
    ours = score(truth, check_verdicts(truth, named[::-1], "set"))
    lines = [json.dumps({"id": page, "duplicate_of": original}) for page, original in named]
    their_truth = judge.load_truth(folder, positive, negative)
    theirs = judge.score(their_truth, judge.load_verdicts(lines, their_truth))
    assert json.dumps(as_json(ours)) == json.dumps(theirs)
    assert as_text(ours) == judge.as_text(theirs)
