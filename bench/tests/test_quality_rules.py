"""The judge with changed rules: the recompiled judge equals the product's, except for the requested change."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from bench.quality.rules import rules_changed
from spotsieve.state.store.memory import memory_state
from tests.fixtures.pages.hosts import any_temper, made_pages, signatures_of, with_ids
from tests.fixtures.states.remembering import Limits, Record, memories_of, reference_of, run, run_reference
from tests.reference.host_memory import Host
from tests.reference.judge import Outcome
from tests.reference.remembering import RememberingJudge

LIMITS = Limits()
SEEDS = range(12)
NOVEL = ("novel", "", None, "no_match")


def records(seed: int) -> list[Record]:
    dice = Random(seed)
    pages = with_ids(made_pages(dice, 60, any_temper(dice)._replace(hosts=2)))
    return [Record(pages[first : first + 20]) for first in range(0, len(pages), 20)]


def novel_pages(records: Sequence[Record], outcomes: Sequence[Sequence[Outcome]]) -> Counter[int]:
    """The number of pages of each host."""
    hosts = (host for record in records for host in signatures_of(record.pages).host.tolist())
    found = (outcome for record in outcomes for outcome in record)
    return Counter(host for host, outcome in zip(hosts, found, strict=True) if outcome[:4] == NOVEL)


def test_changed_rules_are_the_twin_s_with_the_same_change_and_the_product_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [run(records(seed), memory_state(), LIMITS) for seed in SEEDS]
    never = ("LEAST_TEMPLATE", "MOST_TEMPLATE", "LEAST_COMMON", "MOST_COMMON")
    with rules_changed({f"memory.{name}": 1e9 for name in never}, only_novel_teach=True):
        states = [memory_state() for _ in SEEDS]
        changed = [run(records(seed), state, LIMITS) for seed, state in zip(SEEDS, states, strict=True)]
    assert [run(records(seed), memory_state(), LIMITS) for seed in SEEDS] == before
    assert changed != before
    for seed, outcomes, state in zip(SEEDS, changed, states, strict=True):
        novel = novel_pages(records(seed), outcomes)
        assert {host: memory.pages for host, memory in memories_of(state, sorted(novel)).items()} == novel
    learn = RememberingJudge._learn
    monkeypatch.setattr(RememberingJudge, "_learn", lambda *taught: taught[-1] is None or learn(*taught))
    monkeypatch.setattr(Host, "is_template", lambda *_: False)
    monkeypatch.setattr(Host, "rare", lambda _, titles: set(titles))
    assert changed == [run_reference(records(seed), reference_of(LIMITS)) for seed in SEEDS]


def test_a_rule_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="NO_SUCH_RULE"), rules_changed({"pairs.NO_SUCH_RULE": 1}):
        pass
