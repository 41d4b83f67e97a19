"""The judge with changed rules: the recompiled judge equals the product's, except for the requested change."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import pytest

from bench.quality.rules import rules_changed
from spotsieve.state.store.memory import memory_state
from tests.fixtures.pages.hosts import any_temper, made_pages, with_ids
from tests.fixtures.states.remembering import (
    Limits,
    Record,
    assert_same_memory,
    reference_of,
    run,
    run_reference,
)
from tests.reference import common_text, containment, page_pairs
from tests.reference.host_memory import Memory

LIMITS = Limits()
SEEDS = range(12)


class Change(NamedTuple):
    """Changed constants of the judge, and what they are in the reference implementation."""

    rules: Mapping[str, float]
    reference: tuple[tuple[object, str, object], ...]


CHANGE = Change(
    {
        "memory.LEAST_TEMPLATE": 1e9,
        "memory.MOST_TEMPLATE": 1e9,
        "memory.LEAST_COMMON": 1e9,
        "memory.MOST_COMMON": 1e9,
        "common_text.LEAST_HOSTS": 17,
        "learning.ENTRY_SAMPLES": 8,
        "learning.ENTRY_BLOCKS": 2,
        "containment.FRESH_RUN": 1e9,
        "pairs.FEW_PAGES": 0,
    },
    (
        (Memory, "template_limit", lambda *_: 1e9),
        (Memory, "common_limit", 1e9),
        (common_text, "LEAST_HOSTS", 17),
        (containment, "ENTRY_SAMPLES", 8),
        (containment, "ENTRY_BLOCKS", 2),
        (containment, "FRESH_RUN", 1e9),
        (page_pairs, "FEW_PAGES", 0),
    ),
)
"""All changes at once: the compiler takes 46 s for a judge."""


def records(seed: int) -> list[Record]:
    dice = Random(seed)
    pages = with_ids(made_pages(dice, 60, any_temper(dice)._replace(hosts=3)))
    return [Record(pages[first : first + 20]) for first in range(0, len(pages), 20)]


@pytest.mark.long  # It compiles the slowest kernel of the judge with other rules.
def test_changed_rules_match_a_reference_with_the_same_change_and_the_product_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [run(records(seed), memory_state(), LIMITS) for seed in SEEDS]
    states = [memory_state() for _ in SEEDS]
    with rules_changed(CHANGE.rules):
        changed = [run(records(seed), state, LIMITS) for seed, state in zip(SEEDS, states, strict=True)]
    assert [run(records(seed), memory_state(), LIMITS) for seed in SEEDS] == before
    assert changed != before
    for place, attribute, value in CHANGE.reference:
        monkeypatch.setattr(place, attribute, value)
    for seed, outcomes, state in zip(SEEDS, changed, states, strict=True):
        reference = reference_of(LIMITS)
        assert outcomes == run_reference(records(seed), reference)
        assert_same_memory(state, reference)


def test_a_rule_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="NO_SUCH_RULE"), rules_changed({"pairs.NO_SUCH_RULE": 1}):
        pass
