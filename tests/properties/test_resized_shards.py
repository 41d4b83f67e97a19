"""A cluster that grows or shrinks at any round gives the verdicts of one process, and then holds what it holds."""

import random

import pytest

from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import concatenate
from spotsieve.stream.sharding.shares import ClusterSize, Resize, ResizeEvent
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.hosts import signatures_of as signatures_of_hosts
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_case
from tests.fixtures.states.sharded_logs import any_limits, assert_verdicts_equal, crawled, signed_log
from tests.fixtures.states.shards import OneProcess, Shards, remembered

SCHEMES = ("spotsieve", "manku", "minhash", "imatch")


def assert_resizes_change_nothing(dice: random.Random, one: OneProcess) -> None:
    """Any numbers of shards follow each other, at any rounds."""
    expected, first = concatenate(one.verdicts), dice.randrange(1, 6)
    size = dice.choice([3, 7, 20])
    rounds = 1 + len(expected) // size
    resizes = {dice.randrange(rounds): dice.randrange(1, 6) for _ in range(dice.choice([1, 1, 2, 3]))}
    shards = Shards(one, first, resizes=resizes)
    assert_verdicts_equal(shards.apply(one.log, [size]), expected)
    at = [number for number in resizes if number < len(shards.rounds)]
    assert len(shards.states) == (resizes[max(at)] if at else first)
    if not shards.step_ms:
        for family in ("buckets", "hosts"):
            assert remembered(shards.states, family) == remembered([one.state], family)
    if at:
        stayed = Shards(one, len(shards.states))
        stayed.apply(one.log, [size])
        assert [dict(state.items()) for state in shards.states] == [dict(state.items()) for state in stayed.states]


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="the number of shards changes at any round"
)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_judges_across_a_resize_as_one_process(name: str) -> None:
    dice, scheme = random.Random(f"resize {name}"), scheme_of(settings_named(name))
    one = OneProcess(scheme, *any_limits(dice))
    signed_log(dice, one, scheme.sign(crawled(dice)))
    assert_resizes_change_nothing(dice, one)


@pytest.mark.parametrize("seed", mostly_long(range(9000, 9008), 2))
def test_remembered_hosts_are_judged_across_a_resize_as_in_one_process(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    settings = IndexSettings.model_construct(
        bucket_cap=limits.cap, candidate_limit=limits.candidates, horizon_hours=dice.choice([0, 0, 20]) / 3600
    )
    pages = [(page._replace(time_ms=1000 * number), number) for number, (page, _) in enumerate(pages)]
    one = OneProcess(SCHEME, settings, limits.policy.longer_by)
    for record in Log(dice, pages).records:
        one.sign(signatures_of_hosts(record.pages), record.committed)
        if dice.random() < 0.1:
            one.forget(dice)
    assert_resizes_change_nothing(dice, one)


def test_who_reads_the_rounds_from_anywhere_knows_the_shards() -> None:
    dice = random.Random("sizing")
    for _ in range(300):
        now, offset = ClusterSize(3), 0
        expected: list[tuple[int, Resize | None]] = [(3, None)]
        for _ in range(dice.randrange(1, 12)):
            change: Resize | None = None
            if now.requested and dice.random() < 0.3:
                change = now.switch()
            elif dice.random() < 0.5:
                change, offset = (
                    now.respond(dice.choice([0, 1, 2, 3]), offset, dice.choice([now.shards, 1])),
                    offset + 1,
                )
            if change is not None:
                now = now.after(change.shards if change.change == ResizeEvent.SWITCHED else now.shards, change)
                expected.append((now.shards, change))
            else:
                # A round, with the resize that is under way behind it.
                expected.append((now.shards, None))
                expected += [(now.shards, now.pending())] if now.requested else []
        whole = ClusterSize()
        for one in expected:
            whole = whole.after(*one)
        assert whole == now
        last = max(at for at, (_, change) in enumerate(expected) if change is None)
        tail = ClusterSize()
        for one in expected[last:]:
            tail = tail.after(*one)
        assert tail[:2] == now[:2]


def test_a_request_counts_once_and_stays_refused() -> None:
    two = ClusterSize(2)
    request = two.respond(3, 7, 2)
    assert request == Resize(ResizeEvent.REQUESTED, 3, 8)
    growing = two.after(2, request)
    assert (growing, growing.most) == (ClusterSize(2, 3, 8), 3)
    assert growing.respond(3, 7, 2) is None, "the next resolver hears it again"
    refused = growing.respond(4, 9, 2)
    assert refused == Resize(ResizeEvent.REFUSED, 3, 10), "a resize is under way"
    assert two.respond(2, 9, 2) == Resize(ResizeEvent.REFUSED, 0, 10)
    assert two.respond(0, 9, 2) == Resize(ResizeEvent.REFUSED, 0, 10)
    assert two.respond(4, 9, 3) == Resize(ResizeEvent.REFUSED, 0, 10), "it was made when there were three"
    assert growing.after(2, growing.respond(0, 9, 2)) == ClusterSize(2, 0, 10)
    assert growing.after(2, refused) == ClusterSize(2, 3, 10)
    switched = growing.after(2, refused)
    assert switched.after(3, switched.switch()).respond(4, 9, 3) is None, "the next resolver reads it again"
    three = growing.after(3, growing.switch())
    assert three == ClusterSize(3, 0, 8)
    assert three.respond(2, 5, 3) is None, "it was requested before"
