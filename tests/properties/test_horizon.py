"""With a horizon verdicts follow from the log's order and event times alone: whatever the records, stores and crashes.

Event times jump by steps, by nearly a horizon and beyond it, and back; buckets are small, and full ones become free.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spotsieve.state.format.buckets import decode_buckets
from spotsieve.state.horizon import STEPS, Clock, StepMark, runs_of, step_of
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import PLAIN, Policy
from tests.fixtures.pages.generated import SCHEME_CASES, Look, SchemeCase, Submitted, outcomes_of, signatures_of, some
from tests.fixtures.states.comparison import first_difference
from tests.reference.horizon import ForgetfulJudge
from tests.reference.judge import Outcome

STEP_MS = 1000
DIGEST = bytes(16)
PROFILE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
scheme_cases = pytest.mark.parametrize("case", SCHEME_CASES.values(), ids=SCHEME_CASES)
caps = st.integers(1, 4)
policies = st.sampled_from([PLAIN, Policy(1.0), Policy(1.1), Policy(same_url=0)])
cuts = st.lists(st.sampled_from([1, 2, 3, 5, 9, 80]), max_size=20)
JUMPS = st.sampled_from([0] * 8 + [1, 400, 999, 1000, 7000, 30_000, 63_000, 64_000, 65_000, 66_000, 500_000, -20_000])


class Crash(Exception):
    """Raised by a test between two runs."""


class Fragile:
    """A state whose process dies after a number of index updates."""

    def __init__(self, state: State, filings: int) -> None:
        self._state = state
        self._left = filings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def file(self, *arguments: Any, **named: Any) -> None:
        if not self._left:
            raise Crash
        self._left -= 1
        self._state.file(*arguments, **named)


def timed(case: SchemeCase, data: st.DataObject) -> Signatures:
    """Draw pages of a scheme, with event times."""
    pages: list[Submitted] = some(case, data)
    jumps = data.draw(st.lists(JUMPS, min_size=len(pages), max_size=len(pages)))
    return replace(signatures_of(pages), event_time_ms=10**12 + np.cumsum(np.array(jumps, np.int64)))


def limits(cap: int) -> IndexSettings:
    return IndexSettings(
        bucket_cap=cap, candidate_limit=64, horizon_hours=STEPS * STEP_MS / 3_600_000, write_buffer_mb=1
    )


def records(signatures: Signatures, sizes: Sequence[int]) -> list[LogRecord]:
    """Cut pages into records of these sizes, then of 3 pages."""
    parts, at, remaining = list[LogRecord](), 0, list(sizes)
    while at < len(signatures):
        size = remaining.pop(0) if remaining else 3
        part = signatures.part(at, min(at + size, len(signatures)))
        parts.append(LogRecord(bytes(16), len(parts), DIGEST, part, 1000 + len(parts)))
        at += size
    return parts


def apply(case: SchemeCase, state: State, log: Sequence[LogRecord], cap: int, policy: Policy = PLAIN) -> list[Outcome]:
    """Apply the records that the state lacks, and return their outcomes."""
    engine = Engine(case.scheme, state, limits(cap), DIGEST, "log", policy)
    return [
        outcome
        for offset in range(state.position, len(log))
        for outcome in outcomes_of(engine.apply(log[offset], offset).verdicts)
    ]


def open_state(directory: str) -> State:
    return disk_state(Path(directory), "{}", "log", limits(4))


def living(state: State) -> Iterator[tuple[bytes, Any]]:
    """Return what can be seen of a state: all but the position, the progress of the sweep, and what is dead."""
    floor = state.clock.floor
    yield b"clock", state.clock
    for name, value in state.items():
        family, _, key = name.partition(b"/")
        if family == b"buckets":
            found = decode_buckets(np.array([int.from_bytes(key, "big")], np.uint64), [value]).living(floor)
            if len(found.numbers):
                yield name, (found.numbers.tolist(), found.inlines.tolist())
        elif family != b"meta":
            yield name, value


@scheme_cases
@PROFILE
@given(st.data(), caps, policies, cuts)
def test_an_original_counts_if_and_only_if_it_is_not_dead_whatever_the_records(
    case: SchemeCase, data: st.DataObject, cap: int, policy: Policy, sizes: list[int]
) -> None:
    signatures = timed(case, data)
    reference_kernel, state = ForgetfulJudge(case.reference_kernel(cap, 64, policy), STEP_MS), memory_state()
    expected = reference_kernel.judge(signatures)
    assert apply(case, state, records(signatures, sizes), cap, policy) == expected
    living_entries = dict(living(state))
    assert {
        int.from_bytes(name[8:], "big") for name in living_entries if name.startswith(b"entries/")
    } == reference_kernel.living()
    buckets = [found[0] for name, found in living_entries.items() if name.startswith(b"buckets/")]
    assert sorted(buckets) == sorted(
        [number for number, _ in postings] for postings in reference_kernel.buckets().values()
    )


@pytest.mark.guarantee(
    "batch sizes, timing and rebalances change no verdict",
    fault="the same pages in other batches, with a deduplication window",
)
@scheme_cases
@PROFILE
@given(st.data(), caps, policies, cuts, cuts)
def test_batch_boundaries_change_neither_verdicts_nor_what_lives(
    case: SchemeCase, data: st.DataObject, cap: int, policy: Policy, sizes: list[int], other_sizes: list[int]
) -> None:
    signatures, one, other = timed(case, data), memory_state(), memory_state()
    found = apply(case, one, records(signatures, sizes), cap, policy)
    assert found == apply(case, other, records(signatures, other_sizes), cap, policy)
    assert list(living(one)) == list(living(other))


@pytest.mark.guarantee(
    "two readers of the log have byte-identical states, also with a deduplication window",
    fault="one of them is killed between any two writes",
)
@scheme_cases
@settings(PROFILE, max_examples=20)
@given(st.data(), caps, policies, cuts)
def test_a_state_on_disk_lost_between_any_two_runs_ends_equal_to_one_in_memory(
    case: SchemeCase, data: st.DataObject, cap: int, policy: Policy, sizes: list[int]
) -> None:
    log, memory = records(timed(case, data), sizes), memory_state()
    expected = apply(case, memory, log, cap, policy)
    with tempfile.TemporaryDirectory() as scratch:
        for filings in data.draw(st.lists(st.integers(0, 6), max_size=4)):
            with open_state(scratch) as rocks, suppress(Crash):
                apply(case, cast("State", Fragile(rocks, filings)), log, cap, policy)
        with open_state(scratch) as rocks:
            whole = not rocks.pages_applied
            found = apply(case, rocks, log, cap, policy)
            assert first_difference(rocks, memory) is None
            if whole:
                assert found == expected[len(expected) - len(found) :]
        with open_state(scratch) as rocks:
            assert first_difference(rocks, memory) is None
            assert rocks.clock == memory.clock


def test_an_entry_counts_for_at_least_a_horizon_and_at_most_a_64th_longer() -> None:
    horizon = STEPS * STEP_MS
    for indexed_at in (10**12, 10**12 + 1, 10**12 + 999):
        clock = Clock().moved(indexed_at, STEP_MS, 0)
        assert clock.moved(indexed_at + horizon, STEP_MS, 1).floor == 0
        assert clock.moved(indexed_at + horizon + STEP_MS, STEP_MS, 1).floor == 1


def test_of_empty_steps_only_the_last_is_marked_and_no_more_than_65_steps_are() -> None:
    clock = Clock()
    for step in range(500):
        clock = clock.moved(step * STEP_MS, STEP_MS, 7)
    assert clock.marks == (StepMark(499, 7),)
    for step in range(500, 700):
        clock = clock.moved(step * STEP_MS, STEP_MS, step)
    assert clock.marks == tuple(StepMark(step, step) for step in range(635, 700))
    assert clock.floor == 635


def test_a_record_is_cut_where_the_watermark_enters_another_step_and_nowhere_else() -> None:
    times = np.array([5, 3, 999, 1000, 10, 1999, 5000, 4000], np.int64)
    runs = [tuple(run) for run in runs_of(times, Clock().watermark_ms, STEP_MS)]
    assert runs == [(0, 3, 999), (3, 6, 1999), (6, 8, 5000)]
    assert [tuple(run) for run in runs_of(times, 5500, STEP_MS)] == [(0, 8, 5500)]
    assert list(runs_of(times[:0], 5500, STEP_MS)) == []
    assert [step_of(hours) for hours in (0, 1e-9, 1.0, 168.0)] == [0, 1, 56_250, 9_450_000]


def test_a_record_that_is_another_than_the_one_applied_in_part_is_refused() -> None:
    case = SCHEME_CASES["chain"]
    pages = replace(
        signatures_of([(look, number) for number, look in enumerate([Look(0), Look(2**64 - 1)])]),
        event_time_ms=np.array([0, 5 * STEP_MS], np.int64),
    )
    log, state = records(pages, [2]), memory_state()
    with pytest.raises(Crash):
        apply(case, cast("State", Fragile(state, 1)), log, 4)
    assert (state.position, state.pages_applied, state.entry_count) == (0, 1, 1)
    with pytest.raises(StateError, match="must be the record that the state applied there"):
        apply(case, state, [replace(log[0], checksum=5)], 4)
    assert [outcome[3] for outcome in apply(case, state, log, 4)] == ["first_attempt", "no_match"]
    assert (state.position, state.pages_applied, state.entry_count) == (1, 0, 2)
