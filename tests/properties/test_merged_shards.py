"""States of all shards make the state of one process over the same log, and whoever goes on with it judges alike.

Split, they make the states that other shards of any number would have by the same log.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.format.entries import FORGOTTEN, head_of_entry, with_source
from spotsieve.state.format.meta import StatePart, decode_source, page_of_key
from spotsieve.state.horizon import step_of
from spotsieve.state.log.record import decode
from spotsieve.state.portable.merging import merge_states, split_states
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State, first_difference
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import Reason, concatenate
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import policy_of
from spotsieve.stream.sharding.shares import shards_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import HostScope
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_world
from tests.fixtures.states.sharded_logs import any_limits, assert_verdicts_equal, crawled, signed_log
from tests.fixtures.states.shards import DIGEST, OneProcess, Shards

Held = dict[bytes, bytes | tuple[str, bytes]]


def opened(directory: Path, part: StatePart | None) -> State:
    return disk_state(directory, "{}", "log", IndexSettings(write_buffer_mb=1), part)


def sharded(one: OneProcess, log: Sequence[bytes], shards: int, dice: random.Random, folder: Path) -> list[Path]:
    """The directories of shards that have judged a log."""
    cluster, directories = Shards(one, shards), [folder / f"shard-{number}" for number in range(shards)]
    for number, directory in enumerate(directories):
        cluster.put(number, opened(directory, StatePart(number, shards)))
    cluster.apply(log, dice.choices([1, 2, 3, 7, 30, 200], k=3))
    for state in cluster.states:
        state.close()
    return directories


def held(state: State, floor: int) -> Held:
    """All that lives in a state without a horizon, or its entries; sources by their texts, not by their numbers.

    Numbers tell when a source was first named, also by a page of which nothing is left.
    """
    items = dict(state.items())
    texts = [decode_source(name, value) for name, value in items.items() if name.startswith(b"sources/")]
    found: Held = {}
    for name, value in items.items():
        family, _, key = name.partition(b"/")
        if family == b"entries" and value != FORGOTTEN:
            found[name] = texts[head_of_entry(key, value).source], with_source(value, 0)
        elif family == b"attempts":
            source, *place = page_of_key(key)
            found[b"attempts/" + f"{texts[source]}/{place}".encode()] = value
        elif family != b"sources" and (not floor or family == b"entries"):
            found[name] = value
    return found


def assert_merged(one: OneProcess, dice: random.Random, folder: Path, numbers: Sequence[int]) -> None:
    """Shards of these numbers make the state of one process amid the log, by which the rest is judged as before."""
    limits, place = one.settings.index, dice.randrange((len(one.log) + 1) // 2, len(one.log) + 1)
    step_ms = step_of(limits.horizon_hours)
    for number in numbers:
        merged = folder / f"of-{number}"
        directories = sharded(one, one.log[:place], number, dice, folder / str(number))
        for directory in directories:
            found = verify(directory)
            assert (found.damages, found.part[-1]) == ([], str(number))
        counts = merge_states(dice.sample(directories, number), merged)
        assert verify(merged).damages == []
        with opened(merged, None) as state:
            assert (counts.entries, state.position) == (state.entry_count - state.clock.floor, place)
            engine = Engine(one.scheme, state, limits, DIGEST, "log", policy_of(one.settings))
            applied = [engine.apply(record, offset) for offset, record in enumerate(one.log) if offset >= place]
            rest = [judged.verdicts for judged in applied if not judged.record.forgotten]
            if rest:
                assert_verdicts_equal(concatenate(rest), concatenate(one.verdicts[-len(rest) :]))
            assert state.clock == one.state.clock
            assert held(state, step_ms) == held(one.state, step_ms)


def without_leftovers(state: State, found: Held) -> Held:
    """What a shard holds, without the entries that it no longer needs.

    These are forgotten entries, and the entry of a page that superseded another, which the shard of its id keeps also
    after its verdict is committed.
    """
    part = state.identity.part
    assert part is not None
    needed: Held = {}
    for name, value in found.items():
        family, _, key = name.partition(b"/")
        if value == FORGOTTEN:
            continue
        if family == b"entries" and isinstance(value, tuple) and (head := head_of_entry(key, value[1])).has_own:
            hosts = shards_of(np.array([head.host], np.uint64), part.shards)
            page_id = f"{value[0]}/{[head.partition, head.offset]}"
            pending = found.get(b"attempts/" + page_id.encode())
            supersedes = isinstance(pending, bytes) and pending[-2] == Reason.LONGER
            if part.number not in (int(hosts[0]), int.from_bytes(key, "big") % part.shards) and not supersedes:
                continue
        needed[name] = value
    return needed


def assert_split(one: OneProcess, dice: random.Random, folder: Path, before: int, after: int) -> None:
    """States of shards amid the log become those of shards of another number, by which the rest is judged as before."""
    place = dice.randrange((len(one.log) + 1) // 2, len(one.log) + 1)
    step_ms, sizes = step_of(one.settings.index.horizon_hours), [dice.choice([1, 7, 30])]
    directories = sharded(one, one.log[:place], before, dice, folder / "before")
    split, whole = folder / "split", merge_states(directories, folder / "whole")
    counts = split_states(dice.sample(directories, before), after, split)
    assert sorted(path.name for path in split.iterdir()) == [f"shard-{number}" for number in range(after)]
    assert [sum(getattr(one, name) for one in counts) for name in ("hosts", "pending_verdicts")] == [
        whole.hosts,
        whole.pending_verdicts,
    ]
    for number in range(after):
        assert verify(split / f"shard-{number}").damages == []
    cluster = Shards(one, after)
    cluster.apply(one.log[:place], [1000])
    new = [opened(split / f"shard-{number}", StatePart(number, after)) for number in range(after)]
    for stayed, state in zip(cluster.states, new, strict=True):
        stayed.identity = stayed.identity._replace(part=state.identity.part)
        assert (state.progress[:5], state.clock) == (stayed.progress[:5], stayed.clock)
        assert without_leftovers(state, held(state, step_ms)) == without_leftovers(stayed, held(stayed, step_ms))
    forgotten = [key for state in new for key, value in state.scan("entries") if value == FORGOTTEN]
    assert sorted(forgotten) == sorted(
        {key for state in cluster.states for key, value in state.scan("entries") if value == FORGOTTEN}
    )
    # The rest of the log is judged by these states.
    first = len(cluster.rounds)
    for number, state in enumerate(new):
        cluster.put(number, state)
    cluster.apply(one.log, sizes, place)
    rest = [resolved.verdicts for _, resolved in cluster.rounds[first:]]
    signed = sum(not decode(record).forgotten for record in one.log[place:])
    if signed:
        assert_verdicts_equal(concatenate(rest), concatenate(one.verdicts[-signed:]))
    for state in new:
        state.close()


def with_hosts(seed: int) -> tuple[OneProcess, random.Random]:
    """A log of pages of a scheme that remembers hosts, judged by one process."""
    dice, pages, limits = any_world(seed)
    settings, _ = any_limits(dice)
    settings = settings.model_copy(update={"bucket_cap": limits.cap, "candidate_limit": limits.candidates})
    pages = [(page._replace(time_ms=1000 * max(0, number - dice.choice([0, 0, 9]))), number) for page, number in pages]
    schemes: list[Scheme] = [
        SCHEME,
        SCHEME,
        SCHEME.with_policy(keep_variants=True, drop_parts=False),
        HostScope(SCHEME),
    ]
    one = OneProcess(dice.choice(schemes), settings, limits.policy.longer_by)
    for record in Log(dice, pages).records:
        one.sign(signatures_of(record.pages), record.committed)
        if dice.random() < 0.1:
            one.forget(dice)
    return one, dice


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="their states are made one state"
)
# In 9032 a page that replaced another is forgotten, and comes again before it is committed.
@pytest.mark.parametrize("seed", [*range(8100, 8104), 9032])
def test_states_of_shards_that_remember_hosts_make_the_state_of_one_process(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    assert_merged(one, dice, tmp_path, [dice.randrange(1, 6)])


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="their states are split into those of other shards"
)
@pytest.mark.parametrize("seed", [*range(8200, 8208), 9032])
def test_states_that_remember_hosts_are_split_into_those_of_other_shards(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    assert_split(one, dice, tmp_path, dice.randrange(1, 6), dice.choice([1, 2, 3, 5, 9]))


@pytest.mark.parametrize("name", ["minhash", "manku"])
def test_states_of_shards_that_remember_no_hosts_make_the_state_of_one_process(name: str, tmp_path: Path) -> None:
    one, dice = without_hosts(name)
    assert_merged(one, dice, tmp_path, [3])


@pytest.mark.parametrize("name", ["minhash", "manku", "imatch"])
def test_states_that_remember_no_hosts_are_split_into_those_of_other_shards(name: str, tmp_path: Path) -> None:
    one, dice = without_hosts(name)
    assert_split(one, dice, tmp_path, 3, dice.choice([2, 4, 5]))


def without_hosts(name: str) -> tuple[OneProcess, random.Random]:
    """A log of pages of a scheme that remembers no hosts, judged by one process."""
    scheme, dice = scheme_of(settings_named(name)), random.Random(name)
    one = OneProcess(scheme, *any_limits(dice))
    signed_log(dice, one, scheme.sign(crawled(dice)))
    return one, dice


@pytest.mark.parametrize("seed", range(8300, 8303))
def test_a_split_into_one_is_the_merged_state_and_splits_can_be_taken_back(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    directories = sharded(one, one.log, 3, dice, tmp_path)
    merge_states(directories, tmp_path / "merged")
    split_states(directories, 1, tmp_path / "single")
    split_states(directories, 10, tmp_path / "ten")
    split_states([tmp_path / "ten" / f"shard-{number}" for number in range(10)], 3, tmp_path / "three")
    merge_states([tmp_path / "three" / f"shard-{number}" for number in range(3)], tmp_path / "again")
    split_states(directories, 3, tmp_path / "same")
    merged, again = opened(tmp_path / "merged", None), opened(tmp_path / "again", None)
    single = opened(tmp_path / "single" / "shard-0", StatePart(0, 1))
    with merged, again, single:
        assert first_difference(single, merged) is None
        assert single.heard is not None
        assert first_difference(again, merged) is None
    for number in range(3):
        same, three = (opened(tmp_path / name / f"shard-{number}", StatePart(number, 3)) for name in ("same", "three"))
        with same, three:
            assert first_difference(same, three) is None
            assert same.heard == three.heard
