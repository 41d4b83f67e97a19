"""How a resolver treats an open round: the shards that it waits for, and when it announces a smaller round."""

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spotsieve.state.log.record import decode, encode
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.resolver import loop as resolver_loop
from spotsieve.stream.service.roles.resolver.loop import Resolver
from spotsieve.stream.sharding.candidates import Speculation, no_flags
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.messages import RoundMessage, ShardResponses, combined_checksum
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_TOO_LARGE,
    RoundRecord,
)
from spotsieve.stream.sharding.records.shard import write_confirmations
from spotsieve.stream.sharding.resolver_steps import (
    MOST_SPECULATIONS,
    Compute,
    MatchesPositions,
    MissingShards,
    Publish,
    ResolverSteps,
)
from spotsieve.stream.sharding.resolver_work import OpenRound, ResolveResult, ResolverWork
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.shares import ClusterSize, Share
from spotsieve.stream.sharding.steps import Action, Draft, MatchesSpans, Moment, Now, Steps, T
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.states.remembering import any_case

SETTINGS = Settings.model_validate({"cluster": {"shards": 2, "round_pages": 64}})
DIGEST = digest_of_settings(SETTINGS)


def log_of(records: int, pages: int) -> list[tuple[int, Any]]:
    """A log of `records` records with `pages` pages each."""
    some = signatures_of(any_case(8003)[1]).part(0, pages)
    return [(number, decode(encode(some, bytes(16), number, DIGEST))) for number in range(records)]


def message(kind: int, shard: int, range_: Any, checksum: int = 0, body: bytes = b"") -> RoundMessage:
    return RoundMessage(RoundRecord(kind, DIGEST, Share(shard, 2), range_, body), "matches", 0, checksum)


class Setup:
    """The steps of a resolver over a log that it has read, whose writes are kept. Time moves by hand."""

    def __init__(self, records: int, pages: int) -> None:
        self.records = deque(log_of(records, pages))
        self.work = ResolverWork(SETTINGS, scheme_in_scope(SETTINGS))
        self.steps = ResolverSteps(SETTINGS, self.work, self, "matches", LOG_RECORD_BYTES)
        self.published = list[Draft]()
        self.missing = list[MissingShards]()
        self.seconds = 0.0
        self.steps.responses = ShardResponses(2)
        self.steps.resizing.cluster_size = ClusterSize(2)

    def drop_before(self, offset: int) -> None:
        while self.records and self.records[0][0] < offset:
            self.records.popleft()

    def run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                action = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = self.perform(action)

    def perform(self, action: Action[Any]) -> Any:
        match action:
            case Now():
                return Moment(self.seconds, 0)
            case Publish(records):
                self.published += records
                return [0 for _ in records]
            case MatchesPositions():
                return (0, 0)
            case MatchesSpans():
                return [(0, 0), (0, 0)]
            case Compute(call):
                return call()
            case MissingShards():
                self.missing.append(action)
        return None

    def named(self) -> OpenRound:
        round_ = self.steps.planner.next()
        assert round_ is not None
        self.run(Publish(self.run(self.steps._open(round_))).__iter__())
        assert self.steps.open is not None
        return self.steps.open

    @property
    def open(self) -> Round:
        assert self.steps.open is not None
        return self.steps.open.round


@pytest.fixture
def setup(request: pytest.FixtureRequest) -> Setup:
    return Setup(*request.param)


def constant(result: Any) -> Any:
    """Steps without an action, whatever they are called with."""

    def steps(*_: object) -> Steps[Any]:
        yield from ()
        return result

    return steps


@pytest.mark.parametrize("setup", [(8, 8)], indirect=True)
def test_a_round_whose_guess_stays_wrong_is_named_anew_with_half_of_its_pages(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = setup.named()
    speculation = Speculation(np.zeros(len(opened.round.signatures), np.bool_), no_flags())
    monkeypatch.setattr(setup.steps, "outcome", constant(ResolveResult(None, b"", speculation)))
    for _ in range(MOST_SPECULATIONS):
        setup.run(setup.steps.resolve(opened))
        assert len(setup.open.signatures) == 64
    setup.run(setup.steps.resolve(opened))
    assert len(setup.open.signatures) == 32
    assert setup.published[-1].kind == KIND_RANGE


@pytest.mark.parametrize("setup", [(1, 1)], indirect=True)
def test_a_page_of_which_too_much_is_to_be_said_is_spared(setup: Setup) -> None:
    opened = setup.named()
    for _ in range(2):
        # Another shard says the same of it before it hears that the page is spared.
        setup.steps.responses.add(message(KIND_TOO_LARGE, 0, opened.range))
        assert setup.steps.responses.too_large(opened.range)
        setup.run(setup.steps._make_smaller(opened, "the response of a shard"))
        assert not setup.steps.responses.too_large(opened.range)
    reports = [one for one in setup.published if one.kind == KIND_POISON_ROWS]
    assert len(reports) == 1
    assert opened.round.excluded == (0,)
    assert "exceeds" in opened.errors[0]


@pytest.mark.parametrize("setup", [(1, 8)], indirect=True)
def test_a_round_that_cannot_be_cut_and_told_stops_with_the_reason(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = setup.named()
    monkeypatch.setattr(setup.steps.planner, "half", lambda _: None)
    with pytest.raises(StateError, match="cannot be cut"):
        setup.run(setup.steps._make_smaller(opened, "the outcome"))


@pytest.mark.parametrize("setup", [(60, 8)], indirect=True)
def test_rounds_grow_again_little_by_little_behind_one_that_was_too_large(setup: Setup) -> None:
    planner = setup.steps.planner
    whole = planner.next()
    assert whole is not None
    round_ = planner.half(whole)
    sizes = list[int]()
    while round_ is not None and len(sizes) < 8:
        sizes.append(len(round_.signatures))
        planner.go_behind(round_, 0)
        round_ = planner.next()
    assert sizes == [32, 36, 40, 45, 50, 56, 63, 64]


@pytest.mark.parametrize("setup", [(1, 4)], indirect=True)
def test_a_shard_that_has_not_walked_under_the_guess_that_counts_is_waited_for(setup: Setup) -> None:
    opened = setup.named()
    pages, responses = len(opened.round.signatures), setup.steps.responses
    first, better = (Speculation(np.full(pages, indexed), no_flags()) for indexed in (False, True))

    def resolutions(shard: int, speculation: Any) -> Any:
        found = SimpleNamespace(rows=np.empty(0, np.int64))
        record = RoundRecord(KIND_RESOLUTIONS, DIGEST, Share(shard, 2), opened.range, b"")
        return cast("Any", SimpleNamespace(record=record, resolutions_of=lambda _: (found, speculation)))

    met = [message(KIND_CANDIDATES, shard, opened.range, 7 + shard) for shard in range(2)]
    for one in met:
        responses.add(one)
    assert setup.run(setup.steps.outcome(opened)) is None
    assert list(opened.awaited) == [0, 1], "nobody has confirmed"
    confirmations = write_confirmations(
        ShardConfirmations(np.empty(0, np.uint8), np.empty(0, np.int64), {}, None), combined_checksum(met), 0
    )
    for shard in range(2):
        responses.add(message(KIND_CONFIRMATIONS, shard, opened.range, body=confirmations))
    opened.shard_candidates, opened.speculation = [cast("Any", None)] * 2, better
    for shard in range(2):
        responses.add(resolutions(shard, first))
    responses.add(resolutions(1, better))
    assert setup.run(setup.steps.outcome(opened)) is None
    assert list(opened.awaited) == [0], "it has walked under the first guess alone"


@pytest.mark.parametrize("setup", [(1, 4)], indirect=True)
def test_who_is_waited_for_is_news_once_and_again_when_it_is_another(setup: Setup) -> None:
    opened = setup.named()
    opened.awaited = [1]
    assert not setup.run(setup.steps._is_missing(opened)), "nobody is late yet"
    setup.seconds = 60
    for awaited in ([1], [1], [0], [0]):
        opened.awaited = awaited
        assert setup.run(setup.steps._is_missing(opened))
    opened.awaited = []
    assert not setup.run(setup.steps._is_missing(opened))
    assert [(list(one.shards), one.is_news) for one in setup.missing] == [
        *(([], False), ([1], True), ([1], False)),
        *(([0], True), ([0], False), ([], True)),
    ]


async def test_a_resolver_names_the_shards_that_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(SETTINGS, ResolverWork(SETTINGS, scheme_in_scope(SETTINGS)), Metrics(), Heartbeats())
    lines = list[Any]()
    logger = SimpleNamespace(warning=lambda _, missing: lines.append(missing), info=lines.append)
    monkeypatch.setattr(resolver_loop, "logger", lambda: logger)
    for shards, is_news in (([1], True), ([1], False), ([0], True)):
        resolver._observe(MissingShards(shards, 60.0, is_news))
    assert lines == [[1], [0]]
    assert "shard(s) 0" in "".join(resolver.problems())
    for is_news in (True, False):
        resolver._observe(MissingShards((), 0.0, is_news))
    assert lines[2:] == ["the round continues: all missing shards have responded"]
    assert "shard(s)" not in "".join(resolver.problems())
    await resolver._close()


@pytest.mark.parametrize("setup", [(1, 4)], indirect=True)
def test_nobody_is_waited_for_once_the_last_round_is_over(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = setup.named()

    def outcome(_: OpenRound) -> Steps[ResolveResult | None]:
        yield from ()
        setup.seconds += 60
        if not opened.awaited:
            opened.awaited, opened.announced_again = [1], True
            return None
        assert list(setup.missing[-1].shards) == [1]
        opened.awaited = []
        return ResolveResult(cast("Any", SimpleNamespace(next_number=4)), b"", None)

    monkeypatch.setattr(setup.steps, "_take_messages", constant(None))
    monkeypatch.setattr(setup.steps, "outcome", outcome)
    setup.run(setup.steps._finish())
    assert setup.published[-1].kind == KIND_OUTCOME
    assert list(setup.missing[-1].shards) == []


@pytest.mark.parametrize("setup", [(1, 4)], indirect=True)
def test_a_round_waits_anew_for_each_thing_that_shards_are_to_say(setup: Setup) -> None:
    opened = setup.named()
    setup.seconds = 60
    setup.steps.responses = cast(
        "Any",
        SimpleNamespace(
            missing=lambda *_: [], candidates=lambda _: [], confirmed=lambda _: [], resolution=lambda _: {}
        ),
    )
    results = {
        "shard_candidates": [None],
        "first_speculation": Speculation(np.zeros(4, np.bool_), no_flags()),
        "resolutions_under": {},
    }
    setup.steps._work = cast("Any", SimpleNamespace(by_host=True, **{k: lambda *_, v=v: v for k, v in results.items()}))
    assert setup.run(setup.steps.outcome(opened)) is None
    assert list(opened.awaited) == [0]
    assert opened.waits_since == 60
