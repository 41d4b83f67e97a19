"""How a resolver treats an open round: the shards that it waits for, and when it announces a smaller round."""

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spotsieve.state.format.meta import NO_LOG
from spotsieve.state.horizon import Clock
from spotsieve.state.log.record import decode, encode
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.resolver import loop as resolver_loop
from spotsieve.stream.service.roles.resolver.loop import MOST_SPECULATIONS, Resolver
from spotsieve.stream.service.roles.resolver.rounds import OpenRound, RoundJudge, RoundPlanner
from spotsieve.stream.service.roles.resolver.work import ResolveResult, ResolverWork
from spotsieve.stream.service.roles.responses import ShardResponses, combined_checksum
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.sharding.candidates import Speculation, no_flags
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_TOO_LARGE,
    RoundRecord,
    decode_round_record,
)
from spotsieve.stream.sharding.records.shard import write_confirmations
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.states.remembering import any_world

SETTINGS = Settings.model_validate({"cluster": {"shards": 2, "round_pages": 64}})
DIGEST = settings_digest(verdict_settings_text(SETTINGS))


def log_of(records: int, pages: int) -> list[tuple[int, Any]]:
    """A log of `records` records with `pages` pages each."""
    some = signatures_of(any_world(8003)[1]).part(0, pages)
    return [(number, decode(encode(some, bytes(16), number, DIGEST))) for number in range(records)]


def heard(kind: int, shard: int, range_: Any, checksum: int = 0, body: bytes = b"") -> RoundMessage:
    return RoundMessage(RoundRecord(kind, DIGEST, Share(shard, 2), range_, body), "matches", 0, checksum)


class World:
    """A resolver over a log that it has read, whose writes are kept."""

    def __init__(self, records: int, pages: int, patch: pytest.MonkeyPatch) -> None:
        self.metrics = Metrics()
        self.work = ResolverWork(SETTINGS, scheme_in_scope(SETTINGS))
        self.resolver = Resolver(SETTINGS, self.work, self.metrics, Heartbeats())
        self.published = list[RoundRecord]()
        self.resolver._rounds.log = NO_LOG
        self.resolver._answers = ShardResponses(2)
        self.resolver._telling.begin_with(self.resolver._telling.resizing.cluster_size._replace(shards=2), [0, 0])
        self.resolver._log.held.extend(log_of(records, pages))
        self.resolver._naming.begin(LogPlace(0, 0), Clock(), 0)

        async def publish(*told: bytes) -> None:
            self.published += [decode_round_record(one, DIGEST, 2, "verdicts", 0) for one in told]

        async def positions() -> tuple[int, ...]:
            return (0, 0)

        patch.setattr(self.resolver._publisher, "publish", publish)
        patch.setattr(self.resolver._rounds, "matches_positions", positions)

    async def named(self) -> OpenRound:
        round_ = self.resolver._naming.next()
        assert round_ is not None
        await self.resolver._publisher.publish(*await self.resolver._name(round_))
        assert self.resolver._open is not None
        return self.resolver._open

    @property
    def open(self) -> Round:
        assert self.resolver._open is not None
        return self.resolver._open.round


@pytest.fixture
async def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    records, pages = request.param
    made = World(records, pages, monkeypatch)
    yield made
    await made.resolver._close()


@pytest.mark.parametrize("world", [(8, 8)], indirect=True)
async def test_a_round_whose_guess_stays_wrong_is_named_anew_with_half_of_its_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await world.named()
    speculation = Speculation(np.zeros(len(opened.round.signatures), np.bool_), no_flags())

    async def wrong(*_: object) -> ResolveResult:
        return ResolveResult(None, b"", speculation)

    monkeypatch.setattr(world.resolver._judging, "outcome", wrong)
    for _ in range(MOST_SPECULATIONS):
        await world.resolver._resolve(opened)
        assert len(world.open.signatures) == 64
    await world.resolver._resolve(opened)
    assert len(world.open.signatures) == 32
    assert world.published[-1].kind == KIND_RANGE


@pytest.mark.parametrize("world", [(1, 1)], indirect=True)
async def test_a_page_of_which_too_much_is_to_be_said_is_spared(world: World) -> None:
    opened = await world.named()
    for _ in range(2):
        # Another shard says the same of it before it hears that the page is spared.
        world.resolver._answers.add(heard(KIND_TOO_LARGE, 0, opened.range))
        assert world.resolver._answers.too_large(opened.range)
        await world.resolver._make_smaller(opened, "the answer of a shard")
        assert not world.resolver._answers.too_large(opened.range)
    told = [one for one in world.published if one.kind == KIND_POISON_ROWS]
    assert len(told) == 1
    assert opened.round.excluded == (0,)
    assert "exceeds" in opened.errors[0]


@pytest.mark.parametrize("world", [(1, 8)], indirect=True)
async def test_a_round_that_cannot_be_cut_and_told_stops_with_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await world.named()
    monkeypatch.setattr(world.resolver._naming, "half", lambda _: None)
    with pytest.raises(StateError, match="cannot be cut"):
        await world.resolver._make_smaller(opened, "the outcome")


@pytest.mark.parametrize("world", [(60, 8)], indirect=True)
async def test_rounds_grow_again_little_by_little_behind_one_that_was_too_large(world: World) -> None:
    naming: RoundPlanner = world.resolver._naming
    whole = naming.next()
    assert whole is not None
    round_ = naming.half(whole)
    sizes = list[int]()
    while round_ is not None and len(sizes) < 8:
        sizes.append(len(round_.signatures))
        naming.go_behind(round_, 0)
        round_ = naming.next()
    assert sizes == [32, 36, 40, 45, 50, 56, 63, 64]


@pytest.mark.parametrize("world", [(1, 4)], indirect=True)
async def test_a_shard_that_has_not_walked_under_the_guess_that_counts_is_waited_for(world: World) -> None:
    opened = await world.named()
    pages, answers = len(opened.round.signatures), ShardResponses(2)
    first, better = (Speculation(np.full(pages, indexed), no_flags()) for indexed in (False, True))
    judging = RoundJudge(world.work, world.metrics, Heartbeats())

    def walks(shard: int, speculation: Any) -> Any:
        found = SimpleNamespace(rows=np.empty(0, np.int64))
        told = RoundRecord(KIND_RESOLUTIONS, DIGEST, Share(shard, 2), opened.range, b"")
        return cast("Any", SimpleNamespace(told=told, walks=(found, speculation)))

    met = [heard(KIND_CANDIDATES, shard, opened.range, 7 + shard) for shard in range(2)]
    for one in met:
        answers.add(one)
    assert await judging.outcome(opened, answers) is None
    assert list(opened.awaited) == [0, 1], "nobody has confirmed"
    said = write_confirmations(
        ShardConfirmations(np.empty(0, np.uint8), np.empty(0, np.int64), {}, None), combined_checksum(met), 0
    )
    for shard in range(2):
        answers.add(heard(KIND_CONFIRMATIONS, shard, opened.range, body=said))
    opened.shard_candidates, opened.speculation = [cast("Any", None)] * 2, better
    for shard in range(2):
        answers.add(walks(shard, first))
    answers.add(walks(1, better))
    assert await judging.outcome(opened, answers) is None
    assert list(opened.awaited) == [0], "it has walked under the first guess alone"
    await judging.close()


@pytest.mark.parametrize("world", [(1, 4)], indirect=True)
async def test_who_is_waited_for_is_named_once_and_again_when_it_is_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await world.named()
    lines = list[Any]()
    told = SimpleNamespace(warning=lambda _, missing: lines.append(list(missing)), info=lines.append)
    monkeypatch.setattr(resolver_loop, "logger", lambda: told)
    opened.awaited = [1]
    assert not world.resolver._tell_missing(opened), "nobody is late yet"
    opened.waits_since -= 60
    for awaited in ([1], [1], [0], [0]):
        opened.awaited = awaited
        assert world.resolver._tell_missing(opened)
    assert lines == [[1], [0]]
    assert "shard(s) 0" in "".join(world.resolver.problems())
    opened.awaited = []
    assert not world.resolver._tell_missing(opened)
    assert not world.resolver._tell_missing(opened)
    assert lines[2:] == ["the round continues: all missing shards have responded"]
    assert "shard(s)" not in "".join(world.resolver.problems())


@pytest.mark.parametrize("world", [(1, 4)], indirect=True)
async def test_nobody_is_waited_for_once_the_last_round_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = await world.named()

    async def hear() -> None:
        opened.waits_since -= 60

    async def judge(*_: object) -> ResolveResult | None:
        if not opened.awaited:
            opened.awaited, opened.announced_again = [1], True
            return None
        assert "shard(s) 1" in "".join(world.resolver.problems())
        opened.awaited = []
        return ResolveResult(cast("Any", SimpleNamespace(next_number=4)), b"", None)

    async def lost(_: OpenRound) -> bool:
        return False

    monkeypatch.setattr(world.resolver, "_hear", hear)
    monkeypatch.setattr(world.resolver, "_are_lost", lost)
    monkeypatch.setattr(world.resolver._judging, "outcome", judge)
    await world.resolver._listen()
    assert world.published[-1].kind == KIND_OUTCOME
    assert "shard(s)" not in "".join(world.resolver.problems())


@pytest.mark.parametrize("world", [(1, 4)], indirect=True)
async def test_a_round_waits_anew_for_each_thing_that_shards_are_to_say(world: World) -> None:
    opened = await world.named()
    opened.waits_since -= 60
    judging, asked = RoundJudge(world.work, world.metrics, Heartbeats()), time.monotonic()
    answers = cast(
        "Any", SimpleNamespace(missing=lambda *_: [], met=lambda _: [], confirmed=lambda _: [], resolution=lambda _: {})
    )
    said = {
        "shard_candidates": [None],
        "first_speculation": Speculation(np.zeros(4, np.bool_), no_flags()),
        "resolution": {},
    }
    judging._work = cast("Any", SimpleNamespace(walks=True, **{k: lambda *_, v=v: v for k, v in said.items()}))
    assert await judging.outcome(opened, answers) is None
    assert list(opened.awaited) == [0]
    assert opened.waits_since >= asked
    await judging.close()
