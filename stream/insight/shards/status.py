"""Derives the status of a service with shards from the ends of its topics, as data, JSON and text.

The status names the newest round, the shards that are behind, the progress of a resize, and the shards or the resolver
that the open round waits for.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from spotsieve.stream.insight.shards.reading import ServiceMembers, TimedMessage, TopicEnds
from spotsieve.stream.sharding.candidates import Speculation
from spotsieve.stream.sharding.messages import RoundMessage, combined_checksum
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
from spotsieve.stream.sharding.steps import READY_MS


class OpenRoundState(NamedTuple):
    """The resolver's records of the open round. excluded: rows of poison pages that the round continues without

    speculation: for the shards' sequential resolution; None for the first one, which shards compute themselves
    """

    excluded: frozenset[int] = frozenset()
    speculation: Speculation | None = None


def awaited_shards(
    verdicts: Sequence[TimedMessage],
    matches: Mapping[int, Sequence[TimedMessage]],
    range_: RoundRange,
    shards: int,
    by_host: bool,
) -> list[int]:
    """The shards that the open round waits for; an empty list if it waits for the resolver.

    matches: records of the round, by partition  range_: of the round; responses to an abandoned larger one do not count
    shards: number of shards  by_host: whether the shards confirm and resolve candidates
    """
    state = _open_round_state(verdicts, range_)
    responses = {number: _responses(matches.get(number, ()), range_, number, shards) for number in range(shards)}
    if any(_awaits_resolver(message, state) for messages in responses.values() for message in messages):
        return []
    candidates = {
        number: message
        for number, messages in responses.items()
        for message in messages
        if message.record.kind == KIND_CANDIDATES
    }
    if len(candidates) < shards or not by_host:
        return _all_except(candidates, shards)
    checksum = combined_checksum([candidates[number] for number in range(shards)])
    confirmed = {
        number for number, messages in responses.items() if any(_confirms(message, checksum) for message in messages)
    }
    if len(confirmed) < shards or (state.excluded and state.speculation is None):
        # After it has excluded pages, the resolver publishes the speculation for all shards.
        return _all_except(confirmed, shards)
    resolved = {
        number for number, messages in responses.items() if any(_resolves(message, state) for message in messages)
    }
    return _all_except(resolved, shards)


def _open_round_state(verdicts: Sequence[TimedMessage], range_: RoundRange) -> OpenRoundState:
    state = OpenRoundState()
    for message in [record.message for record in verdicts if record.message.record.range == range_]:
        if message.record.kind == KIND_RANGE:
            state = OpenRoundState()
        elif message.record.kind == KIND_POISON_ROWS:
            state = OpenRoundState(frozenset(message.poison().errors))
        elif message.record.kind == KIND_SPECULATION:
            state = state._replace(speculation=message.speculation())
    return state


def _responses(records: Sequence[TimedMessage], range_: RoundRange, number: int, shards: int) -> list[RoundMessage]:
    """The responses of one shard to the round, in order."""
    messages = [record.message for record in records]
    return [
        message for message in messages if message.record.range == range_ and message.record.share == (number, shards)
    ]


def _awaits_resolver(message: RoundMessage, state: OpenRoundState) -> bool:
    """Whether a shard waits until the resolver excludes poison pages or publishes a smaller round."""
    if message.record.kind == KIND_POISON_ROWS:
        return not message.poison().errors.keys() <= state.excluded
    return message.record.kind == KIND_TOO_LARGE and not state.excluded


def _confirms(message: RoundMessage, checksum: int) -> bool:
    return message.record.kind == KIND_CONFIRMATIONS and read_combined_checksum(message.record.body) == checksum


def _resolves(message: RoundMessage, state: OpenRoundState) -> bool:
    """Whether it is a resolution under the current speculation, without excluded pages."""
    if message.record.kind != KIND_RESOLUTIONS:
        return False
    resolutions, speculation = message.resolutions
    has_excluded = not state.excluded.isdisjoint(resolutions.rows.tolist())
    return (state.speculation is None or speculation.equals(state.speculation)) and not has_excluded


def _all_except(numbers: Mapping[int, RoundMessage] | set[int], shards: int) -> list[int]:
    return [number for number in range(shards) if number not in numbers]


class RoundStatus(NamedTuple):
    """The newest round. entries: indexed before it  seconds: since it was published  is_open: without an outcome yet"""

    range: RoundRange
    pages: int
    entries: int
    seconds: float
    is_open: bool


class ShardStatus(NamedTuple):
    """A shard in use. answered: end of the last round with its response, if known

    rounds_behind: number of recent rounds without its response
    answer_ms: median time from the publication of a round to its response
    """

    number: int
    answered: LogPlace | None
    rounds_behind: int
    answer_ms: float | None


class FillStatus(NamedTuple):
    """A new shard of a resize. record: log offset up to which its state is filled; None without recent progress

    records_a_second, seconds_left: None if unknown
    """

    number: int
    record: int | None
    records_a_second: float | None
    seconds_left: float | None
    is_ready: bool


class ServiceStatus(NamedTuple):
    """The status of a service.

    requested: number of shards after the open resize, 0 without one
    record: log offset up to which outcomes are published
    outcome, outcome_seconds: offset of the last outcome in `verdicts`, and time since it
    waits_for: the processes that the open round or the next one waits for, in words; "" without a round
    """

    shards: int
    requested: int
    log_end: int
    record: int
    outcome: int | None
    outcome_seconds: float | None
    round: RoundStatus | None
    answering: Sequence[ShardStatus]
    filling: Sequence[FillStatus]
    members: ServiceMembers
    waits_for: str

    @property
    def records_behind(self) -> int:
        """Records of the log without an outcome, including records without pages."""
        return max(0, self.log_end - self.record)

    def as_json(self) -> dict[str, Any]:
        """The output of `--json`."""
        round_ = self.round
        return {
            "shards": self.shards,
            "asked": self.requested or None,
            "log_end": self.log_end,
            "outcomes": {
                "record": self.record,
                "records_behind": self.records_behind,
                "offset": self.outcome,
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
    """The status of a service at `now_ms` (Unix time in ms; the clocks of other machines may differ)."""
    cluster_size = ends.cluster_size
    rounds = {
        record.message.record.range: record for record in ends.verdicts if record.message.record.kind == KIND_RANGE
    }
    outcomes = [record for record in ends.verdicts if record.message.record.kind == KIND_OUTCOME]
    newest = next(reversed(rounds), None)
    is_open = newest is not None and all(record.message.record.range != newest for record in outcomes)
    # Rounds before a resize were for other shards.
    own = {at: record for at, record in rounds.items() if record.message.record.share.shards == cluster_size.shards}
    answering = [
        _shard_status(number, own, ends.matches.get(number, ()), cluster_size.shards)
        for number in range(cluster_size.shards)
    ]
    record, round_ = 0, None
    if newest is not None:
        place = newest.start if is_open else newest.end
        record = place.record
        pages = sum(one.pages for one in rounds[newest].message.announcement().records)
        round_ = RoundStatus(newest, pages, newest.first_number, _age(rounds[newest], now_ms), is_open)
    filling = [_fill_status(number, ends, now_ms) for number in range(cluster_size.requested)]
    waits_for = _waits_for(ends, newest) if is_open and newest else ""
    if ends.members.resolvers == 0 and (is_open or ends.log_end > record):
        waits_for = "a resolver: none is running"
    return ServiceStatus(
        cluster_size.shards,
        cluster_size.requested,
        ends.log_end,
        record,
        outcomes[-1].message.offset if outcomes else None,
        _age(outcomes[-1], now_ms) if outcomes else None,
        round_,
        answering,
        filling,
        ends.members,
        waits_for,
    )


def _age(record: TimedMessage, now_ms: int) -> float:
    return round(max(0, now_ms - record.time_ms) / 1000, 3)


def _shard_status(
    number: int, rounds: dict[RoundRange, TimedMessage], records: Sequence[TimedMessage], shards: int
) -> ShardStatus:
    """The status of a shard. rounds: the recent rounds, in order  records: the records of its partition"""
    # A round that is published again with fewer pages replaces the larger one, and has the same start.
    ranges = list({range_.start: range_ for range_ in rounds}.values())
    processed = {
        record.message.record.range: record.time_ms
        for record in records
        if record.message.record.kind == KIND_CANDIDATES and record.message.record.share.shards == shards
    }
    took = [time_ms - rounds[range_].time_ms for range_, time_ms in processed.items() if range_ in rounds]
    before = [range_ for range_ in processed if not ranges or range_.start < ranges[0].start]
    last = max(before, default=None)
    behind = len(ranges)
    for at, range_ in enumerate(ranges):
        if range_ in processed:
            last, behind = range_, len(ranges) - at - 1
    return ShardStatus(number, last and last.end, behind, round(max(0.0, median(took)), 1) if took else None)


def _fill_status(number: int, ends: TopicEnds, now_ms: int) -> FillStatus:
    """The status of a new shard, from its recent progress records."""
    progress = [
        record
        for record in ends.matches.get(number, ())
        if record.message.record.kind == KIND_FILL_PROGRESS
        and record.message.record.share.shards == ends.cluster_size.requested
        and now_ms - record.time_ms <= READY_MS
    ]
    if not progress:
        return FillStatus(number, None, None, None, False)
    first, last = progress[0], progress[-1]
    record, seconds = last.message.record.range.end.record, (last.time_ms - first.time_ms) / 1000
    read = record - first.message.record.range.end.record
    rate = round(read / seconds, 1) if seconds > 0 and read > 0 else None
    ready, left = last.message.fill_progress().ready, None
    if rate and not ready:
        left = round(max(0, ends.log_end - record) / rate, 1)
    return FillStatus(number, record, rate, left, ready)


def _waits_for(ends: TopicEnds, range_: RoundRange) -> str:
    """The processes that the open round waits for."""
    numbers = awaited_shards(ends.verdicts, ends.matches, range_, ends.cluster_size.shards, ends.by_host)
    return _shard_list(numbers) if numbers else "the resolver"


def _shard_list(numbers: Sequence[int]) -> str:
    return f"shard {numbers[0]}" if len(numbers) == 1 else f"shards {', '.join(map(str, numbers))}"


def status_lines(status: ServiceStatus) -> list[str]:
    """The status as text: a line for each role, and for each new shard of a resize."""
    rows = [("shards", _count(status)), ("round", _round(status)), ("outcomes", _outcomes(status))]
    rows += [(f"shard {one.number}", _shard_text(one)) for one in status.answering]
    rows += [("workers", _workers(status.members)), ("resolver", _resolvers(status.members))]
    rows += [("waits for", status.waits_for or "nothing: no round is open")]
    rows += [(f"new shard {one.number}", _fill_text(one, status.log_end)) for one in status.filling]
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:<{width}}{text}" for name, text in rows]


def _count(status: ServiceStatus) -> str:
    if not status.shards:
        return "none: the service has no round yet"
    if not status.requested:
        return f"{status.shards}"
    ready = sum(one.is_ready for one in status.filling)
    resize = f"a resize to {status.requested} is under way, {ready} of {status.requested} new shards are ready"
    return f"{status.shards}; {resize}"


def _round(status: ServiceStatus) -> str:
    newest = status.round
    if newest is None:
        return "none"
    start, end = newest.range.start, newest.range.end
    state = f"open for {newest.seconds:.1f} s" if newest.is_open else "closed"
    place = f"records {start.record}:{start.page} to {end.record}:{end.page} of the log"
    return f"{place}, {newest.pages:,} pages, {state}; {newest.entries:,} entries before it"


def _outcomes(status: ServiceStatus) -> str:
    last = "" if status.outcome_seconds is None else f"; outcome {status.outcome}, {status.outcome_seconds:.1f} s ago"
    behind = f"{status.records_behind:,} records behind its end" if status.records_behind else "its end"
    if status.record > status.log_end:
        behind = f"but the log ends at {status.log_end}: it was recreated"
    return f"up to record {status.record} of the log, {behind}{last}"


def _shard_text(one: ShardStatus) -> str:
    if one.answered is None:
        return "no response to the last rounds: is it running?" if one.rounds_behind else "starts with the next round"
    took = "" if one.answer_ms is None else f", in {one.answer_ms:.0f} ms"
    rounds = "1 round" if one.rounds_behind == 1 else f"{one.rounds_behind} rounds"
    behind = "up to date" if not one.rounds_behind else f"{rounds} behind"
    return f"{behind}: responded up to record {one.answered.record}{took}"


def _fill_text(one: FillStatus, log_end: int) -> str:
    if one.record is None:
        return "no recent progress: start it"
    rate = "" if one.records_a_second is None else f", {one.records_a_second:,.1f} records/s"
    left = "" if one.seconds_left is None else f", about {one.seconds_left:.0f} s left"
    return f"{'ready' if one.is_ready else 'filling its state'}: record {one.record} of {log_end}{rate}{left}"


def _workers(members: ServiceMembers) -> str:
    behind = "" if members.messages is None else f", {members.messages:,} uncommitted input messages"
    return f"{_running(members.workers)}{behind}"


def _resolvers(members: ServiceMembers) -> str:
    if not members.resolvers:
        return _running(members.resolvers)
    return f"1 active, {members.resolvers - 1} on standby"


def _running(count: int | None) -> str:
    return "unknown: the client may not describe the group" if count is None else f"{count} running"
