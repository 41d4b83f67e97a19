"""The simulation that sizes a cluster: results for cases with a known result, and one result per seed."""

import pytest

from bench.scale.costs import MICRO, Costs, StepCost, costs_of, published_bytes, state_bytes
from bench.scale.hops import undisturbed
from bench.scale.simulation import SimulationPlan, simulate
from bench.scale.sizing import size_for, traffic, workers_for

NOTHING = StepCost(0.0, 0.0, 0.0)
HOPS = {f"{kind}.{size}": [5.0] for kind in ("plain", "fenced") for size in ("small", "meetings", "outcome")}


def once(microseconds: float) -> StepCost:
    """A step that costs this much once per page, for any number of shards."""
    return StepCost(microseconds * MICRO, 0.0, 0.0)


COSTS = Costs(
    intake=100 * MICRO,
    commit=50 * MICRO,
    seen=0.0,
    judge=50 * MICRO,
    ahead=once(20),
    response=once(10),
    alone=once(30),
    confirm=once(5),
    resolution=once(5),
    file=once(20),
    rebuild=once(30),
    resolver_read=once(1),
    resolver=once(3),
    again=0.0,
    hops=HOPS,
    message=20_000.0,
)
"""Shards do no work for other pages, and every hop takes 5 ms."""


def measured(shards: int, a_round: int) -> dict[str, float]:
    """Figures in the form of bench/shards.py: 10 us once, 2 us in each shard, 100 us a round in each."""
    total = 10 + 2 * shards + 100 * shards / a_round
    steps = ("read", "ahead", "keys and buckets", "answer", "confirm", "walk", "file")
    names = [*(f"shard_{name}" for name in steps), "alone_keys and buckets", "rebuild", "resolver_read", "resolver"]
    found = dict.fromkeys([f"{name}_us" for name in names], total)
    sent = {"meetings_bytes": 50.0 * shards, "confirms_bytes": 5.0, "walks_bytes": 15.0, "outcome_bytes": 30.0}
    copies = 2 - 1 / shards
    others = {"worker_outcomes_us": 1.0, "worker_originals_us": 2.0, "walks_a_round": 1.0, "entries_held": copies}
    return found | sent | others | {"state_bytes": 200 + 100 * copies}


ROLES = [
    {"round": a_round, "log_bytes": 300.0, "judge_us": 55.0, "state_bytes": 300.0}
    | {f"S={shards}": measured(shards, a_round) for shards in (1, 2, 4, 8)}
    for a_round in (512, 4096)
]


def test_one_process_takes_as_many_pages_as_its_cpu_allows() -> None:
    outcome = simulate(SimulationPlan(1, 0, seconds=5.0), COSTS)
    assert outcome.pages_per_s == pytest.approx(1 / (200 * MICRO), rel=0.03)
    assert outcome.bottleneck == "worker"


def test_processes_that_judge_all_pages_end_where_judging_takes_all_their_time() -> None:
    few, many = (simulate(SimulationPlan(workers, 0, seconds=5.0), COSTS).pages_per_s for workers in (4, 24))
    assert few < many < 1 / COSTS.judge


def test_a_round_takes_its_cpu_and_four_hops() -> None:
    outcome = simulate(SimulationPlan(8, 2, ahead=False, seconds=5.0, round_pages=4096), COSTS)
    seconds = 4096 * (60 / 2 + 4) * MICRO + 4 * 5e-3
    assert outcome.pages_per_s == pytest.approx(4096 / seconds, rel=0.05)


def test_buckets_are_read_ahead_while_a_round_is_resolved() -> None:
    plan = SimulationPlan(8, 2, seconds=5.0, round_pages=4096)
    # Reading ahead happens during the hops and the resolver's work.
    seconds = 4096 * ((10 + 10 + 20) / 2 + 4) * MICRO + 4 * 5e-3
    ahead, alone = (simulate(plan._replace(ahead=one), COSTS).pages_per_s for one in (True, False))
    assert ahead == pytest.approx(4096 / seconds, rel=0.1)
    assert ahead > 1.2 * alone


def test_a_page_waits_for_its_batch_its_round_and_the_hops() -> None:
    outcome = simulate(SimulationPlan(1, 1, 100.0, seconds=10.0), COSTS)
    # Hops to the worker, the log, the range, the response, the resolution, the outcome and the output.
    assert 35.0 < outcome.p50_ms < 35.0 + 50.0 + 35.0
    assert outcome.p99_ms >= outcome.p50_ms


def test_the_same_seed_gives_the_same_run_and_another_one_does_not() -> None:
    costs = COSTS._replace(hops={name: [4.0, 5.0, 9.0] for name in HOPS})
    plan = SimulationPlan(2, 2, 2_000.0, seconds=3.0)
    assert simulate(plan, costs) == simulate(plan, costs)
    assert simulate(plan, costs) != simulate(plan._replace(seed=2), costs)


@pytest.mark.parametrize("lost", ["shard", "resolver"])
def test_pages_wait_while_a_role_is_away_and_then_no_longer(lost: str) -> None:
    outcome = simulate(SimulationPlan(2, 2, 1_000.0, seconds=14.0, lost=lost, at=7.0, away=2.0), COSTS)
    assert 1_500.0 < outcome.most_ms < 3_000.0
    assert 1.5 < outcome.recovered_s < 5.0


def test_costs_of_any_number_of_shards_are_fitted_to_those_measured() -> None:
    worker = {"decode_us": 15.0, "sign_us": 35.0, "log_us": 0.0, "message_bytes": 20_000.0}
    costs = costs_of({"roles": ROLES, "worker": worker, "client_us": 100.0, "hops": HOPS})
    assert costs.file == pytest.approx((10 * MICRO, 2 * MICRO, 100 * MICRO), rel=1e-6)
    assert costs.resolver.of_all(1_000, 16) == pytest.approx(1_000 * (10 + 32) * MICRO + 16 * 100 * MICRO)
    assert costs.intake == pytest.approx(100 * MICRO)
    assert published_bytes(ROLES, 16) == pytest.approx(300 + 50 + 50 * 16)
    assert state_bytes(ROLES, 16) == pytest.approx(200 + 100 * (2 - 1 / 16))


def test_a_size_is_the_least_that_keeps_up_with_a_rate() -> None:
    assert (size_for(1_000, COSTS).workers, size_for(1_000, COSTS).shards) == (1, 0)
    large = size_for(20_000, COSTS)
    assert large.reached
    assert large.shards > 1
    assert large.workers == workers_for(20_000, large.shards, COSTS) == 5
    carried = traffic(1_000, 2, 4, ROLES, 20_000.0)
    assert carried.written == pytest.approx(1_000 * (20_000 + 300 + 250))
    assert carried.own_read == pytest.approx(1_000 * (5 * (300 + 220) + 6 * 30))


def test_hops_of_a_busy_machine_are_those_that_waited_least() -> None:
    hops = {"plain.small": [9.0, 3.0, 40.0, 5.0, 80.0, 4.0, 7.0, 6.0]}
    assert undisturbed(hops, 1.5, 2) == hops
    assert undisturbed(hops, 2.5, 2) == {"plain.small": [3.0, 4.0]}
