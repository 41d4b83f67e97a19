"""Says to a person how a service of shards stands."""

from spotsieve.stream.service.cluster.reading import ServiceMembers
from spotsieve.stream.service.cluster.status import FillStatus, ServiceStatus, ShardStatus


def status_lines(status: ServiceStatus) -> list[str]:
    """A line for each role, and for a resize that is under way."""
    rows = [("shards", _count(status)), ("round", _round(status)), ("outcomes", _outcomes(status))]
    rows += [(f"shard {one.number}", _shard(one)) for one in status.answering]
    rows += [("workers", _workers(status.members)), ("resolver", _resolvers(status.members))]
    rows += [("waits for", status.waits_for or "nobody: no round is open")]
    rows += [(f"new shard {one.number}", _filling(one, status.log_end)) for one in status.filling]
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


def _shard(one: ShardStatus) -> str:
    if one.answered is None:
        return "has said nothing of the last rounds: is it running?" if one.rounds_behind else "answers the next round"
    took = "" if one.answer_ms is None else f", {one.answer_ms:.0f} ms after a round is named"
    behind = "has answered the newest round" if not one.rounds_behind else f"{one.rounds_behind} round(s) behind"
    return f"{behind}: up to record {one.answered.record}{took}"


def _filling(one: FillStatus, log_end: int) -> str:
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
