"""The judge with rules changed: what is compiled anew is the product's judge, but for what was asked."""

from collections import Counter
from random import Random

import pytest

from spotsieve.state.store.memory import MemoryState
from tests.measure.quality.rules import rules_changed
from tests.reference.host_memory import Host
from tests.worlds.hosts import any_temper, made_pages, with_ids
from tests.worlds.remembering import Limits, Record, memories_of, run, run_twin, twin_of

LIMITS = Limits()
SEEDS = range(12)


def records(seed: int) -> list[Record]:
    dice = Random(seed)
    pages = with_ids(made_pages(dice, 60, any_temper(dice)._replace(hosts=2)))
    return [Record(pages[first : first + 20]) for first in range(0, len(pages), 20)]


def test_a_judge_without_memory_is_its_twin_and_the_product_s_judge_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [run(records(seed), MemoryState(), LIMITS) for seed in SEEDS]
    never = ("LEAST_TEMPLATE", "MOST_TEMPLATE", "LEAST_COMMON", "MOST_COMMON")
    with rules_changed({f"memory.{name}": 1e9 for name in never}):
        changed = [run(records(seed), MemoryState(), LIMITS) for seed in SEEDS]
    assert [run(records(seed), MemoryState(), LIMITS) for seed in SEEDS] == before
    assert changed != before
    monkeypatch.setattr(Host, "is_template", lambda *_: False)
    monkeypatch.setattr(Host, "rare", lambda _, titles: set(titles))
    assert changed == [run_twin(records(seed), twin_of(LIMITS)) for seed in SEEDS]


def test_only_novel_pages_teach_their_hosts() -> None:
    with rules_changed({}, only_novel_teach=True):
        for seed in SEEDS:
            state, novel = MemoryState(), Counter[int]()
            for record in records(seed):
                [outcomes] = run([record], state, LIMITS)
                hosts = (page.host for page, _ in record.pages)
                novel.update(host for host, outcome in zip(hosts, outcomes, strict=True) if outcome[:4] == NOVEL)
            taught = {host: memory.pages for host, memory in memories_of(state, sorted(novel)).items()}
            assert taught == novel


def test_a_rule_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="NO_SUCH_RULE"), rules_changed({"pairs.NO_SUCH_RULE": 1}):
        pass


NOVEL = ("novel", "", None, "no_match")
