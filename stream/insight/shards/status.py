"""Says how a service of shards stands, by the ends of its topics: which round, who is behind, who holds all up.

Says who holds the open round up, by what `verdicts` and `matches` hold of it.

Says to a person how a service of shards stands.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.insight.shards.reading import ServiceMembers, TimedMessage, TopicEnds
from spotsieve.stream.service.roles.resolver.publication import READY_SECONDS
from spotsieve.stream.service.roles.responses import combined_checksum
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    KIND_TOO_LARGE,
    RoundRange,
)
from spotsieve.stream.sharding.records.shard import read_combined_checksum
from spotsieve.stream.sharding.rounds import LogPlace


class OpenRoundState(NamedTuple):
    """What the resolver has said of the open round. excluded: rows that it goes on without

    speculation: under which shards walk; None: the first one, which each of them makes by itself
    """

    excluded: frozenset[int] = frozenset()
    speculation: NDArray[np.bool_] | None = None


def awaited_shards(
    verdicts: Sequence[TimedMessage],
    matches: Mapping[int, Sequence[TimedMessage]],
    range_: RoundRange,
    shards: int,
    walks: bool,
) -> list[int]:
    """The shards that the open round waits for; none: it is the resolver's turn.

    matches: by partition, all that was said of the round  range_: its own; an answer to a larger one that was given up
    counts for nothing  shards: so many answer  walks: whether they confirm and walk
    """
    spoken = _open_round_state(verdicts, range_)
    told = {number: _of(matches.get(number, ()), range_, number, shards) for number in range(shards)}
    if any(_awaits_resolver(heard, spoken) for answers in told.values() for heard in answers):
        return []
    met = {number: heard for number, answers in told.items() for heard in answers if heard.told.kind == KIND_CANDIDATES}
    if len(met) < shards or not walks:
        return _all_but(met, shards)
    word = combined_checksum([met[number] for number in range(shards)])
    confirmed = {number for number, answers in told.items() if any(_confirms(heard, word) for heard in answers)}
    if len(confirmed) < shards or (spoken.excluded and spoken.speculation is None):
        # After it has spared pages, the resolver tells all shards under which guess they walk.
        return _all_but(confirmed, shards)
    return _all_but({number for number, answers in told.items() if any(_walks(one, spoken) for one in answers)}, shards)


def _open_round_state(verdicts: Sequence[TimedMessage], range_: RoundRange) -> OpenRoundState:
    spoken = OpenRoundState()
    for heard in [said.heard for said in verdicts if said.heard.told.range == range_]:
        if heard.told.kind == KIND_RANGE:
            spoken = OpenRoundState()
        elif heard.told.kind == KIND_POISON_ROWS:
            spoken = OpenRoundState(frozenset(heard.broken().errors))
        elif heard.told.kind == KIND_SPECULATION:
            spoken = spoken._replace(speculation=heard.speculation())
    return spoken


def _of(said: Sequence[TimedMessage], range_: RoundRange, number: int, shards: int) -> list[RoundMessage]:
    """What this shard has said of the round, in its order."""
    return [one.heard for one in said if one.heard.told.range == range_ and one.heard.told.share == (number, shards)]


def _awaits_resolver(heard: RoundMessage, spoken: OpenRoundState) -> bool:
    """Whether a shard cannot go on before the resolver spares pages or names a smaller round."""
    if heard.told.kind == KIND_POISON_ROWS:
        return not heard.broken().errors.keys() <= spoken.excluded
    return heard.told.kind == KIND_TOO_LARGE and not spoken.excluded


def _confirms(heard: RoundMessage, word: int) -> bool:
    return heard.told.kind == KIND_CONFIRMATIONS and read_combined_checksum(heard.told.body) == word


def _walks(heard: RoundMessage, spoken: OpenRoundState) -> bool:
    """Whether this is what a shard found under the guess that counts, and of no page that is spared."""
    if heard.told.kind != KIND_RESOLUTIONS:
        return False
    walks, under = heard.walks
    is_of_spared = not spoken.excluded.isdisjoint(walks.rows.tolist())
    return (spoken.speculation is None or np.array_equal(under, spoken.speculation)) and not is_of_spared


def _all_but(numbers: Mapping[int, RoundMessage] | set[int], shards: int) -> list[int]:
    return [number for number in range(shards) if number not in numbers]


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


def status_lines(status: ServiceStatus) -> list[str]:
    """A line for each role, and for a resize that is under way."""
    rows = [("shards", _count(status)), ("round", _round(status)), ("outcomes", _outcomes(status))]
    rows += [(f"shard {one.number}", _shard_text(one)) for one in status.answering]
    rows += [("workers", _workers(status.members)), ("resolver", _resolvers(status.members))]
    rows += [("waits for", status.waits_for or "nobody: no round is open")]
    rows += [(f"new shard {one.number}", _filling_text(one, status.log_end)) for one in status.filling]
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:<{width}}{text}" for name, text in rows]


def _count(status: ServiceStatus) -> str:
    if not status.shards:
        return "no round was named yet"
    if not status.asked:
        return f"{status.shards}"
    ready = sum(one.is_ready for one in status.filling)
    return f"{status.shards}; a resize to {status.asked} is under way, {ready} of {status.asked} new ones are ready"


def _round(status: ServiceStatus) -> str:
    newest = status.round
    if newest is None:
        return "none"
    start, end = newest.range.start, newest.range.end
    state = f"open for {newest.seconds:.1f} s" if newest.is_open else "over"
    place = f"records {start.record}:{start.page} to {end.record}:{end.page} of the log"
    return f"{place}, {newest.pages:,} pages, {state}; {newest.entries:,} entries before it"


def _outcomes(status: ServiceStatus) -> str:
    last = "" if status.outcome_seconds is None else f"; the last {status.outcome_seconds:.1f} s ago"
    behind = f"{status.records_behind:,} records behind its end" if status.records_behind else "which is all of it"
    if status.record > status.log_end:
        behind = f"which ends at {status.log_end}: it was made anew"
    return f"up to record {status.record} of the log, {behind}{last}"


def _shard_text(one: ShardStatus) -> str:
    if one.answered is None:
        return "has said nothing of the last rounds: is it running?" if one.rounds_behind else "answers the next round"
    took = "" if one.answer_ms is None else f", {one.answer_ms:.0f} ms after a round is named"
    behind = "has answered the newest round" if not one.rounds_behind else f"{one.rounds_behind} round(s) behind"
    return f"{behind}: up to record {one.answered.record}{took}"


def _filling_text(one: FillStatus, log_end: int) -> str:
    if one.record is None:
        return "has said nothing of late: start it"
    rate = "" if one.records_a_second is None else f", {one.records_a_second:,.1f} records/s"
    left = "" if one.seconds_left is None else f", about {one.seconds_left:.0f} s left"
    return f"{'ready' if one.is_ready else 'fills itself'}: record {one.record} of {log_end}{rate}{left}"


def _workers(members: ServiceMembers) -> str:
    behind = "" if members.messages is None else f", {members.messages:,} messages of the input are not committed"
    return f"{_running(members.workers)}{behind}"


def _resolvers(members: ServiceMembers) -> str:
    if not members.resolvers:
        return _running(members.resolvers)
    return f"1 works, {members.resolvers - 1} stand(s) by"


def _running(count: int | None) -> str:
    return "unknown: the broker does not describe the group" if count is None else f"{count} running"
