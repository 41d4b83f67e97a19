"""Says what a resolver that takes over goes on with: the round that the one before has left open."""

from spotsieve.state.horizon import Clock
from spotsieve.stream.errors import StateError
from spotsieve.stream.service.roles.log_records import LogRecords
from spotsieve.stream.service.roles.resolver.opened import OpenRound
from spotsieve.stream.service.roles.told import MAKE_ANEW
from spotsieve.stream.service.roles.told_end import RoundsEnd
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.range import RoundAnnouncement
from spotsieve.stream.sharding.rounds import round_between


async def open_of(
    end: RoundsEnd, range_: RoundRange, named: RoundAnnouncement, log: LogRecords, log_name: str
) -> OpenRound:
    """The open round, of the records of the log. Raises StateError where that is another log."""
    stop = range_.end.record + (range_.end.page > 0)
    await log.until(stop)
    records = [one for one in log.held if range_.start.record <= one[0] < stop]
    clock = Clock(range_.watermark_ms, named.marks)
    round_ = round_between(records, range_.start, range_.end, range_.first_number, clock)
    if round_ is None or round_.last_record != named.last_record:
        raise StateError(
            f"log {log_name}[{range_.start.record}]",
            "must be the log that rounds were made of",
            None,
            f"bring that log back; or {MAKE_ANEW}",
        )
    opened = OpenRound(range_, round_, named)
    opened.go_on_without(end.broken)
    opened.speculation = end.speculation
    return opened
