"""Pages that break a shard or the resolver get the verdict of one process, and change that of no other page."""

import random
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spotsieve.state.log.record import decode
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import Signatures, SignatureStatus, page_ids_of
from spotsieve.stream.base.verdict import Kind, Reason, concatenate
from spotsieve.stream.service.roles.shard import work as of_shard
from spotsieve.stream.sharding import resolver_work as of_resolver
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.hosts import signatures_of as signatures_of_hosts
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.broken_shards import STEPS, STEPS_WITH_HOSTS, Breaking, Defect, WorkingShards
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_case
from tests.fixtures.states.sharded_logs import any_limits, assert_verdicts_equal, crawled
from tests.fixtures.states.shards import OneProcess, remembered


def some_that_break(
    dice: random.Random, records: Sequence[Signatures], steps: Sequence[str], patch: pytest.MonkeyPatch
) -> None:
    """Let some pages break any of these steps, in any shard or the resolver, and the judge of one process."""
    ids = list(dict.fromkeys(page_id for record in records for page_id in page_ids_of(record)))
    chosen = dice.sample(ids, min(len(ids), dice.choice([1, 2, 5, 12])))
    Breaking({page_id: (dice.choice(steps), dice.randrange(5)) for page_id in chosen}).patch(patch)


def assert_spared_alike(dice: random.Random, one: OneProcess) -> None:
    """Shards give the verdicts of the one process that has broken on these pages, and hold what it holds."""
    expected = concatenate(one.verdicts)
    excluded = expected.reason == Reason.INTERNAL_ERROR
    shards = WorkingShards(one, dice.randrange(1, 6), dice)
    found = shards.apply(one.log, dice.choice([(1, 3, 7), (20, 60), (500,)]))
    assert_verdicts_equal(found, expected)
    assert (found.kind[excluded] == Kind.UNCHECKED).all()
    assert bool(shards.sparings) == excluded.any()
    if not one.settings.index.horizon_hours:
        for family in ("buckets", "hosts"):
            assert remembered(shards.states, family) == remembered([one.state], family)
    assert [dict(state.items()) for state in shards.rebuilt()] == [dict(state.items()) for state in shards.states]


@pytest.mark.guarantee(
    "a page that causes an internal error stops no worker",
    fault="an error in any step of any shard or the resolver, any rounds",
)
@pytest.mark.parametrize("seed", mostly_long(range(3), 1))
@pytest.mark.parametrize("name", ["spotsieve", "manku", "minhash"])
def test_pages_that_break_a_round_get_the_verdicts_of_one_process(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, scheme = random.Random(f"{name} {seed}"), scheme_of(settings_named(name))
    signatures, at, records = scheme.sign(crawled(dice)), 0, list[Signatures]()
    while at < len(signatures):
        size = dice.choice([1, 5, 30])
        records.append(signatures.part(at, min(at + size, len(signatures))))
        at += size
    some_that_break(dice, records, STEPS if scheme.host_thresholds is None else STEPS_WITH_HOSTS, monkeypatch)
    one = OneProcess(scheme, *any_limits(dice))
    for record in records:
        one.sign(record)
    assert_spared_alike(dice, one)


@pytest.mark.parametrize("seed", mostly_long(range(9100, 9108), 2))
def test_remembered_hosts_go_on_without_pages_that_break_a_round(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, pages, limits = random.Random(seed), *any_case(seed)[1:]
    settings = IndexSettings.model_construct(
        bucket_cap=limits.cap, candidate_limit=limits.candidates, horizon_hours=dice.choice([0, 0, 20]) / 3600
    )
    pages = [(page._replace(time_ms=1000 * number), number) for number, (page, _) in enumerate(pages)]
    records = [(signatures_of_hosts(record.pages), record.committed) for record in Log(dice, pages).records]
    some_that_break(dice, [signatures for signatures, _ in records], STEPS_WITH_HOSTS, monkeypatch)
    one = OneProcess(SCHEME, settings, limits.policy.longer_by)
    for signatures, committed in records:
        one.sign(signatures, committed)
    assert_spared_alike(dice, one)


def whole_round() -> tuple[OneProcess, int]:
    """A log of one record of one round."""
    dice = random.Random("whole")
    one = OneProcess(SCHEME, IndexSettings())
    pages = any_case(8003)[1]
    one.sign(signatures_of_hosts(pages))
    return one, dice.randrange(len(pages))


@pytest.mark.parametrize(
    ("module", "step"),
    [(of_shard, "find_shard_candidates"), (of_shard, "resolve_hosts"), (of_resolver, "merge_resolutions")],
)
@pytest.mark.parametrize("error", [StateError("state", "is gone"), MemoryError(), OSError("disk")])
def test_errors_of_the_state_or_the_machine_spare_no_page(
    module: ModuleType, step: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = whole_round()

    def failing(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(module, step, failing)
    shards = WorkingShards(one, 2, random.Random(0))
    with pytest.raises(type(error)):
        shards.apply(one.log, (500,))
    assert not shards.sparings


def test_pages_that_break_only_together_are_all_spared_and_what_always_breaks_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = whole_round()
    whole = vars(of_shard)["find_shard_candidates"]

    def together(signatures: Signatures, *arguments: Any) -> Any:
        if np.count_nonzero(signatures.status == 0) > 1:
            raise Defect("together")
        return whole(signatures, *arguments)

    monkeypatch.setattr(of_shard, "find_shard_candidates", together)
    shards = WorkingShards(one, 2, random.Random(0))
    found = shards.apply(one.log, (500,))
    judged = concatenate(one.verdicts).kind != Kind.UNCHECKED
    assert set(found.reason[judged].tolist()) == {Reason.INTERNAL_ERROR}
    assert shards.sparings == 1

    def always(*_: Any) -> Any:
        raise Defect("always")

    monkeypatch.setattr(of_shard, "find_shard_candidates", always)
    with pytest.raises(Defect, match="always"):
        WorkingShards(one, 2, random.Random(0)).apply(one.log, (500,))


def test_a_page_whose_pairs_break_what_confirms_is_spared_and_stops_no_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = whole_round()
    # The same pages once more: each meets itself, filed.
    again = decode(one.log[0]).signatures
    one.sign(replace(again, offset=again.offset + 10_000))
    whole, broke = vars(of_shard)["confirm"], set[int]()

    def breaking(round_: Round, reads: ShardReads, candidates: Sequence[ShardCandidates], *arguments: Any) -> Any:
        judged = round_.signatures.status != SignatureStatus.EMPTY
        row = np.flatnonzero(judged & (round_.signatures.offset == bad))
        if any(sizes_of(one.bounds)[row].any() for one in candidates):
            broke.add(bad)
            raise Defect("of a pair")
        return whole(round_, reads, candidates, *arguments)

    expected = concatenate(one.verdicts)
    bad = int(again.offset[np.flatnonzero(expected.kind[: len(again)] == Kind.NOVEL)[3]]) + 10_000
    monkeypatch.setattr(of_shard, "confirm", breaking)
    shards = WorkingShards(one, 3, random.Random(0))
    found = shards.apply(one.log, (len(again),))
    assert broke == {bad}
    assert shards.sparings == 1
    (excluded,) = np.flatnonzero(found.reason == Reason.INTERNAL_ERROR)
    assert [*again.offset, *(again.offset + 10_000)][excluded] == bad
    others = np.arange(len(expected)) != excluded
    assert (found.kind[others] == expected.kind[others]).all()
