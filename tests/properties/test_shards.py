"""Shards and a resolver give the verdicts of one process, whatever the scheme, the shards, the rounds and the limits.

Cases are made by seeds. Each log is judged by one process first, and pages are forgotten in it by what it indexed.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.speed.index_load import CandidateLoad
from spotsieve.state.index import NOBODY
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import IndexSettings, Rule, Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Reason, concatenate
from spotsieve.stream.judge.by_host.distinctive_text import IS_DISTINCTIVE, IS_TEMPLATE
from spotsieve.stream.sharding import confirmation
from spotsieve.stream.sharding.candidates import SentFlags
from spotsieve.stream.sharding.shares import shards_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import HostScope
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_in_scope, scheme_of
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.families import family_pages
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.generated import SCHEME_CASES, any_look, pages_of, signatures_of
from tests.fixtures.pages.hosts import signatures_of as signatures_of_hosts
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_case
from tests.fixtures.states.sharded_logs import any_limits, assert_verdicts_equal, crawled, signed_log
from tests.fixtures.states.shards import OneProcess, Shards, remembered


def assert_shards_agree(dice: random.Random, one: OneProcess, numbers: Sequence[int]) -> None:
    """Shards of these numbers give the verdicts of one process, and hold what it holds."""
    expected = concatenate(one.verdicts)
    for number in numbers:
        shards = Shards(one, number, dice.choice([None, False, True]))
        found = shards.apply(one.log, dice.choices([1, 2, 3, 7, 30, 200], k=3))
        assert_verdicts_equal(found, expected)
        assert shards.entry_count == one.state.entry_count
        assert shards.clock == one.state.clock
        for state in shards.states:
            np.testing.assert_array_equal(state.common_text().slots, one.state.common_text().slots)
        if not shards.step_ms:
            # What is dead goes at other times, since every shard sweeps by what it files.
            for family in ("buckets", "hosts"):
                assert remembered(shards.states, family) == remembered([one.state], family)


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="any scheme, shards, rounds, limits and deduplication window",
)
@pytest.mark.parametrize(
    ("name", "scope"),
    mostly_long([*((name, "global") for name in SCHEMES), *((name, "host") for name in SCHEMES)], len(SCHEMES) + 2),
)
def test_every_scheme_judges_in_shards_as_in_one_process(name: str, scope: str) -> None:
    given = settings_named(name)
    # Shards refuse candidates that must share several keys, as spotsigs asks for by default.
    scheme: Scheme = scheme_of(given.model_copy(update={"c": 1}) if name == "spotsigs" else given)
    scheme = HostScope(scheme) if scope == "host" else scheme
    dice = random.Random(f"{name} {scope}")
    one = OneProcess(scheme, *any_limits(dice))
    signed_log(dice, one, scheme.sign(crawled(dice)))
    assert_shards_agree(dice, one, dice.sample(range(1, 6), 2))


def test_pages_that_a_rule_exempts_are_judged_in_shards_as_in_one_process() -> None:
    dice, index = random.Random("exempt"), IndexSettings()
    rules = (Rule(url="*/a/1", exempt=True),)
    scheme = scheme_in_scope(Settings(rules=rules))
    one = OneProcess(scheme, index, rules=rules)
    signed_log(dice, one, scheme.sign(crawled(dice)))
    assert (concatenate(one.verdicts).reason == Reason.EXEMPT).any()
    assert_shards_agree(dice, one, [3])


def test_articles_under_own_headlines_are_judged_in_shards_as_in_one_process() -> None:
    dice, scheme = random.Random("headlines"), SCHEME
    made = family_pages("headlines", size=0.7)
    pages = [Page("", 0, n, one.url, one.body.encode(), True, 1000 * n) for n, one in enumerate(made)]
    one, signatures = OneProcess(scheme, IndexSettings()), scheme.sign(pages)
    for at in range(0, len(pages), 30):
        one.sign(signatures.part(at, min(at + 30, len(pages))))
    copies = sum(page.expected == "copy" for page in made)
    assert (concatenate(one.verdicts).reason == Reason.CONTAINED).sum() == copies
    assert_shards_agree(dice, one, [3])


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="any number of shards, rounds and limits"
)
@pytest.mark.parametrize("seed", mostly_long(range(8), 2))
@pytest.mark.parametrize("name", SCHEME_CASES)
def test_generated_pages_are_judged_in_shards_as_in_one_process(name: str, seed: int) -> None:
    dice, case = random.Random(seed), SCHEME_CASES[name]
    looks = [any_look(dice, name == "confirming") for _ in range(dice.randrange(10, 60))]
    looks += [look._replace(length=dice.choice([8, 10, 12, 30])) for look in dice.choices(looks, k=20)]
    pages = pages_of(looks)
    one = OneProcess(case.scheme, *any_limits(dice))
    signed_log(dice, one, signatures_of([*pages, *dice.choices(pages, k=10)]))
    assert_shards_agree(dice, one, dice.sample(range(1, 6), 2))


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="pages are submitted again, expire and are forgotten, with host memories",
)
@pytest.mark.parametrize("seed", mostly_long(range(8000, 8016), 2))
def test_remembered_hosts_are_judged_in_shards_as_in_one_process(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    settings, _ = any_limits(dice)
    settings = settings.model_copy(update={"bucket_cap": limits.cap, "candidate_limit": limits.candidates})
    # Pages are a second apart, and some are late; some come again, and some of these after their commit.
    pages = [(page._replace(time_ms=1000 * max(0, number - dice.choice([0, 0, 9]))), number) for page, number in pages]
    schemes: list[Scheme] = [SCHEME, SCHEME, SCHEME.with_policy(True, False), HostScope(SCHEME)]
    one = OneProcess(dice.choice(schemes), settings, limits.policy.longer_by)
    for record in Log(dice, pages).records:
        late = dice.choices(pages, k=2) if dice.random() < 0.2 else []
        one.sign(signatures_of_hosts([*record.pages, *late]), record.committed)
        if dice.random() < 0.1:
            one.forget(dice)
    assert_shards_agree(dice, one, [dice.randrange(1, 6), dice.randrange(2, 6)])


@pytest.mark.parametrize("seed", [8000, 8001, 8014])
def test_template_text_that_shards_got_wrong_changes_no_verdict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, pages, _ = any_case(seed)
    noise, found = np.random.default_rng(seed), confirmation._flags_to_send

    def wrong(*arguments: Any) -> SentFlags:
        sent = found(*arguments)
        flags = noise.choice(np.array([0, IS_TEMPLATE, IS_TEMPLATE | IS_DISTINCTIVE], np.uint8), len(sent.flags))
        return sent._replace(flags=flags)

    one = OneProcess(SCHEME, IndexSettings())
    one.sign(signatures_of_hosts(pages))
    expected = concatenate(one.verdicts)
    first = Shards(one, 3)
    assert_verdicts_equal(first.apply(one.log, [len(pages)]), expected)
    indexed = first.rounds[0][1].entry != NOBODY
    right = Shards(one, 3, indexed)
    assert_verdicts_equal(right.apply(one.log, [len(pages)]), expected)
    monkeypatch.setattr(confirmation, "_flags_to_send", wrong)
    corrected = Shards(one, 3, indexed)
    assert_verdicts_equal(corrected.apply(one.log, [len(pages)]), expected)
    assert right.resolution_count == 1
    assert corrected.resolution_count > 1
    assert remembered(corrected.states, "hosts") == remembered([one.state], "hosts")


def test_a_wrong_guess_costs_a_walk_and_changes_no_verdict() -> None:
    _, pages, limits = any_case(8001)
    settings = IndexSettings.model_construct(bucket_cap=256, candidate_limit=64, horizon_hours=0)
    one = OneProcess(SCHEME, settings, limits.policy.longer_by)
    one.sign(signatures_of_hosts(pages))

    def resolution(shards: int, speculation: NDArray[np.bool_]) -> Shards:
        cluster = Shards(one, shards, speculation)
        assert_verdicts_equal(cluster.apply(one.log, [len(pages)]), concatenate(one.verdicts))
        return cluster

    nothing = np.zeros(len(pages), np.bool_)
    right = resolution(3, nothing).rounds[0][1].entry != NOBODY
    assert [resolution(3, speculation).resolution_count > 1 for speculation in (right, ~right)] == [False, True]
    assert resolution(1, ~right).resolution_count == 1, "one shard takes nothing from a guess"


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="any speculation about pages of other hosts"
)
@pytest.mark.parametrize("seed", mostly_long(range(40), 3))
def test_no_page_rests_unseen_on_a_wrong_guess(seed: int) -> None:
    dice = np.random.default_rng(seed)
    for _ in range(5):
        load = CandidateLoad(60, dice, hosts=int(dice.integers(2, 12)))
        # A few stories on many hosts, whose copies have some of their bytes, hashes and blocks; and crowded buckets.
        story, kept = dice.integers(0, 12, 60), dice.random(60) < 0.7
        load.hashes[kept] = load.hashes[story[kept]]
        load.digest[::5] = load.digest[story[::5]]
        load.minima[:, :2] = 2 * dice.integers(0, dice.choice([2, 8, 30]), (60, 2), np.uint64)
        load.minima[:, 1] += np.uint64(1)
        load.minima[kept, 2:4] = load.minima[story[kept], 2:4]
        load.minima.sort(axis=1)
        load.minima[:, 1:] += load.minima[:, 1:] == load.minima[:, :-1]  # A page has no feature twice.
        cap, candidates = int(dice.choice([1, 2, 4, 256])), int(dice.choice([1, 3, 64]))
        settings = IndexSettings.model_construct(bucket_cap=cap, candidate_limit=candidates, horizon_hours=0)
        one = OneProcess(SpotsieveScheme(SpotsieveSettings()), settings)
        for first in (0, 20):
            one.sign(load.signatures(first, 60 if first else 20))
        expected, shards = concatenate(one.verdicts), int(dice.integers(2, 8))
        cluster = Shards(one, shards, lambda pages: dice.random(pages) < dice.random())
        assert_verdicts_equal(cluster.apply(one.log, [20, 40]), expected)
        # Where nearly all is guessed right, no other page has the round walked once more.
        right = {len(found.entry): found.entry != NOBODY for _, found in cluster.rounds}
        for _ in range(4):
            cluster = Shards(one, shards, nearly(right, dice))
            assert_verdicts_equal(cluster.apply(one.log, [20, 40]), expected)


def nearly(right: dict[int, NDArray[np.bool_]], dice: np.random.Generator) -> Callable[[int], NDArray[np.bool_]]:
    """Guesses that are right but for one to three pages. right: by the number of pages of a round"""

    def speculation(pages: int) -> NDArray[np.bool_]:
        found = right[pages].copy()
        found[dice.integers(0, pages, dice.integers(1, 4))] ^= True
        return found

    return speculation


def host_of_each(shards: int) -> list[int]:
    """A host of each shard."""
    hosts = np.arange(1, 64, dtype=np.uint64)
    return [int(hosts[shards_of(hosts, shards) == shard][0]) for shard in range(shards)]


def test_how_an_original_was_found_rests_on_who_had_room_before_it() -> None:
    load = CandidateLoad(3, np.random.default_rng(8))
    own = host_of_each(2)
    load.host[:] = [own[0], own[0], own[1]]
    # The third page has the bytes of the second one. All have a hash whose bucket takes one page: the first one.
    load.digest[2], load.minima[:, 0] = load.digest[1], 7
    settings = IndexSettings.model_construct(bucket_cap=1, candidate_limit=64, horizon_hours=0)
    one = OneProcess(SpotsieveScheme(SpotsieveSettings()), settings)
    one.sign(load.signatures(0, 3))
    cluster = Shards(one, 2, np.array([False, True, False]))
    assert_verdicts_equal(cluster.apply(one.log, [3]), concatenate(one.verdicts))
    assert one.verdicts[0].kind.tolist() == [0, 0, 1]
    assert cluster.resolution_count == 2


def test_a_wrong_guess_about_a_page_in_a_full_bucket_costs_nothing() -> None:
    load = CandidateLoad(4, np.random.default_rng(8))
    own = host_of_each(2)
    load.host[:] = [own[0], own[1], own[0], own[1]]
    # The third page has the bytes of the second one, and a hash that the first one and the last one have, too.
    load.digest[2], load.minima[[0, 2, 3], 0] = load.digest[1], 7
    settings = IndexSettings.model_construct(bucket_cap=1, candidate_limit=64, horizon_hours=0)
    one = OneProcess(SpotsieveScheme(SpotsieveSettings()), settings)
    for first in (0, 2):
        one.sign(load.signatures(first, first + 2))
    cluster = Shards(one, 2, True)
    assert_verdicts_equal(cluster.apply(one.log, [2]), concatenate(one.verdicts))
    assert [verdicts.kind.tolist() for verdicts in one.verdicts] == [[0, 0], [1, 0]]
    assert (len(cluster.rounds), cluster.resolution_count) == (2, 2)
