"""Keeps where the next round begins, by what clock it is judged, and cuts it from the records at hand."""

from itertools import takewhile

from spotsieve.state.horizon import Clock, step_of
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.log_records import LogRecords, has_pages
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.range import RoundAnnouncement
from spotsieve.stream.sharding.rounds import LogPlace, Round, next_round

GROWTH = 8
"""Behind a round that was named anew with half of its pages, each has an eighth more, up to cluster.round_pages."""


class RoundPlanner:
    """The end of all rounds that are over, and what comes behind it."""

    def __init__(self, settings: Settings, log: LogRecords, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._step_ms = step_of(settings.index.horizon_hours)
        self._most = self._usual = settings.cluster.round_pages
        self._place, self._clock, self._next_number = LogPlace(0, 0), Clock(), 0

    def begin(self, place: LogPlace, clock: Clock, next_number: int) -> None:
        """Go on at this place of the log. next_number: of the next page that is filed"""
        self._place, self._clock, self._next_number = place, clock, next_number
        self._metrics.log_position.set(place.record)

    def go_behind(self, round_: Round, next_number: int) -> None:
        """Go on behind a round that is over."""
        # What made a round too large is seldom gone with the next one, so they grow again little by little.
        self._most = min(self._usual, self._most + max(1, self._most // GROWTH))
        self.begin(round_.end, round_.clock, next_number)

    def here(self) -> RoundRange:
        """An empty range, where the next round begins."""
        return RoundRange(self._place, self._place, self._next_number, self._clock.floor, self._clock.watermark_ms)

    def next(self) -> Round | None:
        """The next round of what is at hand; None where the log has no pages yet."""
        self._log.drop_before(self._place.record)
        for offset, _ in takewhile(lambda one: not has_pages(one[1]), self._log.held):
            # Pages to forget, and what moves nothing: every shard comes to it by itself.
            self._place = LogPlace(offset + 1, 0)
        place = self._place
        self._metrics.log_position.set(place.record)
        self._log.drop_before(place.record)
        records = list(takewhile(lambda one: has_pages(one[1]), self._log.held))
        if not records:
            return None
        return next_round(records, place.page, self._clock, self._next_number, self._step_ms, self._most)

    def half(self, round_: Round) -> Round | None:
        """The next round, with half of the pages of this one; None where it has no place to be cut at."""
        pages = len(round_.signatures)
        self._most = max(1, pages // 2)
        smaller = self.next()
        return smaller if smaller is not None and len(smaller.signatures) < pages else None

    def named(self, round_: Round) -> RoundAnnouncement:
        """What is said of a round that comes next, but for where its answers stand."""
        records = list[tuple[int, int]]()
        for offset, record in self._log.held:
            if LogPlace(offset, 0) >= round_.end:
                break
            begin = round_.start.page if offset == round_.start.record else 0
            stop = round_.end.page if offset == round_.end.record else len(record.signatures)
            records.append((offset, stop - begin))
        return RoundAnnouncement(round_.last_record, round_.clock.marks, (), tuple(records))
