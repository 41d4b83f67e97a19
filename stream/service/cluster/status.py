"""Says how a service of shards stands, by the ends of its topics: which round, who is behind, who holds all up."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from spotsieve.stream.service.cluster.awaiting import awaited_shards
from spotsieve.stream.service.cluster.reading import ServiceMembers, TimedMessage, TopicEnds
from spotsieve.stream.service.roles.resolver.resizing import READY_SECONDS
from spotsieve.stream.sharding.records.frame import (
    KIND_FILL_PROGRESS,
    KIND_CANDIDATES,
    KIND_OUTCOME,
    KIND_RANGE,
    RoundRange,
)
from spotsieve.stream.sharding.rounds import LogPlace


class RoundStatus(NamedTuple):
    """The newest round. entries: filed before it  seconds: since it was named  is_open: it has no outcome yet"""

    range: RoundRange
    pages: int
    entries: int
    seconds: float
    is_open: bool


class ShardStatus(NamedTuple):
    """A shard that answers. answered: end of the last round that it answered, as far as that is known

    rounds_behind: without its answer, of those that are looked at  answer_ms: from naming a round to its answer, median
    """

    number: int
    answered: LogPlace | None
    rounds_behind: int
    answer_ms: float | None


class FillStatus(NamedTuple):
    """A shard that is to take over. record: of the log, up to which it has filed; None: it has said nothing of late

    records_a_second, seconds_left: None where that is not known
    """

    number: int
    record: int | None
    records_a_second: float | None
    seconds_left: float | None
    is_ready: bool


class ServiceStatus(NamedTuple):
    """A service. record: of the log, up to which there are outcomes  outcome_seconds: since the last one

    waits_for: who holds the open round up, or the next one, in words; "" without one
    """

    shards: int
    asked: int
    log_end: int
    record: int
    outcome_seconds: float | None
    round: RoundStatus | None
    answering: Sequence[ShardStatus]
    filling: Sequence[FillStatus]
    members: ServiceMembers
    waits_for: str

    @property
    def records_behind(self) -> int:
        """Records of the log without an outcome, those of other kinds among them."""
        return max(0, self.log_end - self.record)

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        round_ = self.round
        return {
            "shards": self.shards,
            "asked": self.asked or None,
            "log_end": self.log_end,
            "outcomes": {
                "record": self.record,
                "records_behind": self.records_behind,
                "seconds_ago": self.outcome_seconds,
            },
            "round": round_
            and {
                "start": round_.range.start._asdict(),
                "end": round_.range.end._asdict(),
                "pages": round_.pages,
                "entries": round_.entries,
                "seconds": round_.seconds,
                "open": round_.is_open,
            },
            "answering": [
                one._asdict() | {"answered": one.answered and one.answered._asdict()} for one in self.answering
            ],
            "filling": [one._asdict() for one in self.filling],
            "workers": {"members": self.members.workers, "messages_behind": self.members.messages},
            "resolvers": {"members": self.members.resolvers, "records_behind": self.records_behind},
            "waits_for": self.waits_for or None,
        }


def status_of(ends: TopicEnds, now_ms: int) -> ServiceStatus:
    """How a service stands. now_ms: Unix time; clocks of other machines may differ"""
    cluster_size = ends.cluster_size
    named = {said.heard.told.range: said for said in ends.verdicts if said.heard.told.kind == KIND_RANGE}
    outcomes = [said for said in ends.verdicts if said.heard.told.kind == KIND_OUTCOME]
    newest = next(reversed(named), None)
    is_open = newest is not None and all(said.heard.told.range != newest for said in outcomes)
    # The rounds before a resize were others' to answer.
    own = {range_: said for range_, said in named.items() if said.heard.told.share.shards == cluster_size.shards}
    answering = [
        _shard(number, own, ends.matches.get(number, ()), cluster_size.shards) for number in range(cluster_size.shards)
    ]
    record, round_ = 0, None
    if newest is not None:
        place = newest.start if is_open else newest.end
        record = place.record
        pages = sum(pages for _, pages in named[newest].heard.named().records)
        round_ = RoundStatus(newest, pages, newest.first_number, _age(named[newest], now_ms), is_open)
    filling = [_filling(number, ends, now_ms) for number in range(cluster_size.asked)]
    waits_for = _waits_for(ends, newest) if is_open and newest else ""
    if ends.members.resolvers == 0 and (is_open or ends.log_end > record):
        waits_for = "a resolver: none runs"
    return ServiceStatus(
        cluster_size.shards,
        cluster_size.asked,
        ends.log_end,
        record,
        _age(outcomes[-1], now_ms) if outcomes else None,
        round_,
        answering,
        filling,
        ends.members,
        waits_for,
    )


def _age(said: TimedMessage, now_ms: int) -> float:
    return round(max(0, now_ms - said.time_ms) / 1000, 3)


def _shard(
    number: int, named: dict[RoundRange, TimedMessage], said: Sequence[TimedMessage], shards: int
) -> ShardStatus:
    """named: the rounds that are looked at, in their order"""
    own = [one for one in said if one.heard.told.kind == KIND_CANDIDATES and one.heard.told.share.shards == shards]
    # A round that is named anew with fewer pages takes the place of the larger one, and begins where that did.
    ranges = list({range_.start: range_ for range_ in named}.values())
    answered = {one.heard.told.range: one.time_ms for one in own}
    took = [time_ms - named[range_].time_ms for range_, time_ms in answered.items() if range_ in named]
    before = [range_ for range_ in answered if not ranges or range_.start < ranges[0].start]
    last = max(before, default=None)
    behind = len(ranges)
    for at, range_ in enumerate(ranges):
        if range_ in answered:
            last, behind = range_, len(ranges) - at - 1
    return ShardStatus(number, last and last.end, behind, round(max(0.0, median(took)), 1) if took else None)


def _filling(number: int, ends: TopicEnds, now_ms: int) -> FillStatus:
    """A shard that is to take over, by what it said of late."""
    told = [
        said
        for said in ends.matches.get(number, ())
        if said.heard.told.kind == KIND_FILL_PROGRESS
        and said.heard.told.share.shards == ends.cluster_size.asked
        and now_ms - said.time_ms <= READY_SECONDS * 1000
    ]
    if not told:
        return FillStatus(number, None, None, None, False)
    first, last = told[0], told[-1]
    record, seconds = last.heard.told.range.end.record, (last.time_ms - first.time_ms) / 1000
    read = record - first.heard.told.range.end.record
    rate = round(read / seconds, 1) if seconds > 0 and read > 0 else None
    ready, left = last.heard.filled().ready, None
    if rate and not ready:
        left = round(max(0, ends.log_end - record) / rate, 1)
    return FillStatus(number, record, rate, left, ready)


def _waits_for(ends: TopicEnds, range_: RoundRange) -> str:
    """Who holds the open round up."""
    numbers = awaited_shards(ends.verdicts, ends.matches, range_, ends.cluster_size.shards, ends.walks)
    return _shards(numbers) if numbers else "the resolver"


def _shards(numbers: Sequence[int]) -> str:
    return f"shard {numbers[0]}" if len(numbers) == 1 else f"shards {', '.join(map(str, numbers))}"
