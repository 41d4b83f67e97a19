"""States of all shards make the state of one process over the same log, and whoever goes on with it judges alike."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from spotsieve.state.format.entries import FORGOTTEN, head_of_entry, with_source
from spotsieve.state.format.meta import StatePart, decode_source, page_of_key
from spotsieve.state.horizon import step_of
from spotsieve.state.portable.merging import merge_states
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import concatenate
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import policy_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import HostScope
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_world
from tests.fixtures.states.sharded_logs import any_limits, assert_verdicts_equal, crawled, signed_log
from tests.fixtures.states.shards import DIGEST, OneProcess, Shards


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


def held(state: State, floor: int) -> dict[bytes, bytes | tuple[str, bytes]]:
    """All that lives in a state without a horizon, or its entries; sources by their texts, not by their numbers.

    Numbers tell when a source was first named, also by a page of which nothing is left.
    """
    items = dict(state.items())
    texts = [decode_source(name, value) for name, value in items.items() if name.startswith(b"sources/")]
    found = dict[bytes, bytes | tuple[str, bytes]]()
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


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="their states are made one state"
)
# In 9032 a page that replaced another is forgotten, and comes again before it is committed.
@pytest.mark.parametrize("seed", [*range(8100, 8104), 9032])
def test_states_of_shards_that_remember_hosts_make_the_state_of_one_process(seed: int, tmp_path: Path) -> None:
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
    assert_merged(one, dice, tmp_path, [dice.randrange(1, 6)])


@pytest.mark.parametrize("name", ["minhash", "manku"])
def test_states_of_shards_that_remember_no_hosts_make_the_state_of_one_process(name: str, tmp_path: Path) -> None:
    scheme, dice = scheme_of(settings_named(name)), random.Random(name)
    one = OneProcess(scheme, *any_limits(dice))
    signed_log(dice, one, scheme.sign(crawled(dice)))
    assert_merged(one, dice, tmp_path, [3])
