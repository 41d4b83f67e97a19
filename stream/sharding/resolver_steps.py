"""Steps of the active resolver: takes over, announces rounds, resolves them, and processes resize requests.

Its only state is the end of `verdicts`. After a failed write, or one with an unknown outcome, a new resolver starts
there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spotsieve.state.horizon import Clock
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.sharding.messages import (
    RECREATE_TOPICS,
    RoundsEnd,
    ShardResponses,
    are_responses_lost,
    poison_body,
    response_offsets,
)
from spotsieve.stream.sharding.records.frame import (
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESIZE,
    KIND_SPECULATION,
    RoundRange,
    range_of,
)
from spotsieve.stream.sharding.records.resolver import (
    RoundAnnouncement,
    error_texts,
    write_announcement,
    write_resize,
    write_speculation,
)
from spotsieve.stream.sharding.resolver_work import LogWindow, OpenRound, ResolveResult, ResolverWork, RoundPlanner
from spotsieve.stream.sharding.rounds import Round, round_between
from spotsieve.stream.sharding.shares import ClusterSize, Resize, ResizeEvent
from spotsieve.stream.sharding.steps import (
    Action,
    Draft,
    Fetch,
    LogUntil,
    MatchesSpans,
    Note,
    Now,
    ResizeState,
    SeekMatches,
    Steps,
    T,
)

MOST_SPECULATIONS = 8
"""After this number of corrected speculations, a round is halved. Most rounds need none or one. Pages that are chained
on purpose, each a copy if its predecessor is not, need one per page."""
MISSING_SECONDS = 10.0
"""After this wait for the response of a shard, a log line names the missing shards."""


@dataclass(frozen=True, slots=True)
class Publish(Action[Sequence[int]]):
    """Write records to `verdicts` in one transaction. The result is their offsets."""

    records: Sequence[Draft]


@dataclass(frozen=True, slots=True)
class Rest(Action[bool]):
    """Wait for pages of the log or for messages. The result is whether messages arrived."""


@dataclass(frozen=True, slots=True)
class ReadMatchesOf(Action[None]):
    """Read the messages of this number of shards, for newly added shards from the present end on."""

    shards: int


@dataclass(frozen=True, slots=True)
class HistoryIsWhole(Action[bool]):
    """Whether new shards can fill themselves: from snapshots, or from all records of the log and `verdicts`."""


@dataclass(frozen=True, slots=True)
class MatchesPositions(Action[tuple[int, ...]]):
    """By shard, the offset behind the last message that these steps have received."""


@dataclass(frozen=True)
class Compute(Action[T]):
    """Run a computation. stage: its name in the metrics, or empty"""

    call: Callable[[], T]
    stage: str = ""


@dataclass(frozen=True, slots=True)
class MissingShards(Action[None]):
    """The shards whose responses a round waits for; empty if it waits for none. is_news: other shards than before"""

    shards: Sequence[int]
    seconds: float
    is_news: bool


@dataclass(frozen=True, slots=True)
class SpeculationEvent(Action[None]):
    """A corrected speculation was published."""


@dataclass(frozen=True, slots=True)
class PoisonEvent(Action[None]):
    """The resolver found poison pages. errors: by row"""

    round: Round
    errors: Mapping[int, Exception]


@dataclass(frozen=True, slots=True)
class RoundEnd(Action[None]):
    """The outcome of a round was published."""

    pages: int
    seconds: float


class ResolverSteps:
    """The steps of one active resolver."""

    def __init__(self, settings: Settings, work: ResolverWork, log: LogWindow, matches: str, most_bytes: int) -> None:
        """matches: the name of the topic of responses  most_bytes: limit of a record"""
        self._setting, self._log_name, self._matches = settings.cluster.shards, settings.topics.log, matches
        self._most_bytes = most_bytes
        self._work, self._log = work, log
        self.planner = RoundPlanner(settings, log)
        self.resizing = ResizeState(ClusterSize())
        self.responses = ShardResponses(0)
        self.open: OpenRound | None = None

    def take_over(self, end: RoundsEnd) -> Steps[None]:
        """Continue at the end of `verdicts`. The log is read from there. Raises StateError if it is another log."""
        size = end.cluster_size if end.cluster_size.shards else end.cluster_size._replace(shards=self._setting)
        yield from ReadMatchesOf(size.most)
        spans = yield from MatchesSpans()
        size = size.over(spans[0][1])
        self.resizing, self.responses = ResizeState(size, end.requested_at), ShardResponses(size.shards)
        if size.shards != self._setting:
            yield from Note(
                "cluster.shards differs from the number of shards in the topic verdicts, which applies; change the "
                "setting, or request a resize (spotsieve shards resize)",
                {"setting": self._setting, "shards": size.shards},
                is_warning=True,
            )
        # Requests since the last announcement are read again. Newer partitions are read from their end.
        starts = [*end.response_starts, *(last for _, last in spans[len(end.response_starts) :])]
        self.planner.begin(end.place, end.clock, end.next_number)
        if end.open is not None:
            yield from self._restore(end, *end.open)
        yield from SeekMatches(response_offsets(starts, spans))
        if self.open is not None and are_responses_lost(starts, spans):
            yield from self._announce_again(self.open)

    def _restore(self, end: RoundsEnd, range_: RoundRange, announcement: RoundAnnouncement) -> Steps[None]:
        """Restore the open round from the log. Raises StateError if the log is another one."""
        yield from LogUntil(range_.end.record_end)
        records = [one for one in self._log.records if range_.start.record <= one[0] < range_.end.record_end]
        clock = Clock(range_.watermark_ms, announcement.marks)
        round_ = round_between(records, range_.start, range_.end, range_.first_number, clock)
        if round_ is None or (round_.last_record, len(round_.signatures)) != (
            announcement.last_record,
            announcement.pages,
        ):
            raise StateError(
                f"log {self._log_name}[{range_.start.record}]",
                "differs from the log of which rounds were made",
                None,
                f"restore that log; or {RECREATE_TOPICS}",
            )
        self.open = yield from self._opened(range_, round_, announcement)
        self.open.exclude(end.poison)
        self.open.speculation = end.speculation

    def _opened(self, range_: RoundRange, round_: Round, announcement: RoundAnnouncement) -> Steps[OpenRound]:
        now = (yield from Now()).seconds
        return OpenRound(range_, round_, announcement, since=now, waits_since=now)

    def work(self) -> Steps[None]:
        """Announce and resolve rounds. Never returns."""
        while True:
            if self.open is None:
                yield from self._process_requests()
                if (yield from self._is_due()):
                    yield from self._switch_now()
                following = self.planner.next()
                if following is None:
                    if (yield from Rest()):
                        yield from self._take_messages()
                    continue
                yield from Publish((yield from self._open(following)))
            yield from self._finish()

    def _take_messages(self) -> Steps[None]:
        """Process responses of shards and resize requests since the last call."""
        for message in (yield from Fetch()):
            if message.topic == self._matches:
                self.responses.add(message)
                self.resizing.take(message)

    def draft(self, kind: int, range_: RoundRange, body: bytes) -> Draft:
        """A record of the present shards."""
        return Draft(kind, self.resizing.cluster_size.shards, range_, body)

    def _resize(self, step: Resize) -> Draft:
        return self.draft(KIND_RESIZE, self.planner.here(), write_resize(step))

    def _poison(self, opened: OpenRound) -> Draft:
        return self.draft(KIND_POISON_ROWS, opened.range, poison_body(opened.round, opened.errors))

    def _process_requests(self) -> Steps[None]:
        """Publish the responses to new resize requests. From now on, the messages of the requested shards are read."""
        if not self.resizing.has_requests():
            return
        events = list(self.resizing.responses((yield from HistoryIsWhole())))
        if not events:
            return
        yield from ReadMatchesOf(self.resizing.cluster_size.most)
        for event in events:
            yield from Note(_EVENTS[event.change], {"shards": event.shards})
        offsets = yield from Publish(list(map(self._resize, events)))
        requested = [at for event, at in zip(events, offsets, strict=True) if event.change == ResizeEvent.REQUESTED]
        self.resizing.requested_at = max([self.resizing.requested_at, *requested])

    def _is_due(self) -> Steps[bool]:
        if not self.resizing.cluster_size.requested:
            return False
        return self.resizing.due((yield from Now()).time_ms)

    def _switch(self) -> Steps[Draft]:
        """Let the new shards respond from the next round on. Returns the record that says so. No round is open."""
        step, before = self.resizing.switch(), self.responses.shards
        self.responses = ShardResponses(step.shards)
        yield from Note(_EVENTS[step.change], {"shards": step.shards, "before": before})
        return self._resize(step)

    def _switch_now(self) -> Steps[None]:
        yield from Publish([(yield from self._switch())])

    def _open(self, round_: Round) -> Steps[list[Draft]]:
        """Open a round. Returns the records that announce it."""
        self.open = yield from self._opened(range_of(round_), round_, self.planner.announcement(round_))
        self.responses.forget_before(self.open.range)
        return (yield from self._announcement(self.open))

    def _announcement(self, opened: OpenRound) -> Steps[list[Draft]]:
        """The records that announce a round. Its responses follow the present read positions of `matches`.

        A pending resize and the excluded pages are repeated after the announcement, because a new resolver reads only
        the end of `verdicts`.
        """
        # Requests before these positions got their response, because the next resolver does not read them.
        assert not self.resizing.has_requests()
        opened.announcement = opened.announcement._replace(response_starts=(yield from MatchesPositions()))
        drafts = [self.draft(KIND_RANGE, opened.range, write_announcement(opened.announcement))]
        pending = self.resizing.cluster_size.pending()
        if pending is not None:
            drafts.append(self._resize(pending))
        return [*drafts, *([self._poison(opened)] if opened.errors else [])]

    def _finish(self) -> Steps[None]:
        """Process responses until the open round is finished."""
        while (opened := self.open) is not None:
            yield from self._take_messages()
            yield from self._process_requests()
            if self.responses.too_large(opened.range):
                yield from self._make_smaller(opened, "the response of a shard")
                continue
            poison = self.responses.poison(opened.range, len(opened.round.signatures))
            if poison.keys() - opened.errors.keys():
                yield from self._exclude(opened, poison)
            yield from self.resolve(opened)
            if (yield from self._is_missing(opened)) and self.open is opened:
                lost = are_responses_lost(opened.announcement.response_starts, (yield from MatchesSpans()))
                if lost or not opened.announced_again:
                    yield from self._announce_again(opened)

    def outcome(self, opened: OpenRound) -> Steps[ResolveResult | None]:
        """The result of the round; None while responses are missing."""
        work, round_ = self._work, opened.round
        if opened.shard_candidates is None:
            opened.awaited = self.responses.missing(opened.range, work.by_host)
            responses = self.responses.candidates(opened.range)
            if opened.awaited or responses is None:
                return None
            confirmed = self.responses.confirmed(opened.range) if work.by_host else None
            opened.shard_candidates = yield from Compute(lambda: work.shard_candidates(round_, responses, confirmed))
            opened.waits_since = (yield from Now()).seconds
        candidates = opened.shard_candidates
        if not work.by_host:
            return (yield from Compute(lambda: work.resolve(round_, candidates), "resolve"))
        if opened.speculation is None:
            opened.speculation = yield from Compute(lambda: work.first_speculation(round_, candidates))
            if opened.errors and not opened.speculation_published:
                # Shards with an earlier response in memory may speculate otherwise, so the speculation is sent to all.
                opened.speculation_published = True
                return ResolveResult(None, b"", opened.speculation)
        messages, speculation = self.responses.resolution(opened.range), opened.speculation
        resolution = yield from Compute(lambda: work.resolutions_under(round_, messages, speculation))
        shards = range(len(candidates))
        opened.awaited = [shard for shard in shards if shard not in resolution]
        if opened.awaited:
            return None
        opened.waits_since = (yield from Now()).seconds
        resolutions = [resolution[shard] for shard in shards]
        return (
            yield from Compute(lambda: work.merge_resolutions(round_, candidates, resolutions, speculation), "resolve")
        )

    def resolve(self, opened: OpenRound) -> Steps[None]:
        """Publish the result of the round, if all responses are present."""
        outcome = yield from self.outcome(opened)
        if outcome is None:
            return
        if outcome.poison:
            yield from PoisonEvent(opened.round, outcome.poison)
            yield from self._exclude(opened, error_texts(outcome.poison))
        elif outcome.speculation is not None:
            because = "the verdicts of its pages depend on each other"
            if opened.speculations == MOST_SPECULATIONS and (yield from self._halve(opened, because)):
                return
            opened.speculation, opened.speculations = outcome.speculation, opened.speculations + 1
            self.responses.forget_resolutions(opened.range)
            body = write_speculation(outcome.speculation)
            yield from Publish([self.draft(KIND_SPECULATION, opened.range, body)])
            yield from SpeculationEvent()
        elif outcome.resolved is not None:
            yield from self._end(opened, outcome.resolved.next_number, outcome.body)

    def _exclude(self, opened: OpenRound, errors: Mapping[int, str]) -> Steps[None]:
        """Exclude poison pages from the open round. errors: error texts by row"""
        opened.exclude(errors)
        opened.waits_since = (yield from Now()).seconds
        yield from Publish([self._poison(opened)])

    def _announce_again(self, opened: OpenRound) -> Steps[None]:
        """Announce the open round again, so that the shards send lost responses again.

        After a long wait this happens once, whatever the ends of `matches` are: a topic that was recreated and has
        grown since does not show that responses are lost.
        """
        yield from Note(
            "responses of shards may be lost from the topic matches; the round is announced again", is_warning=True
        )
        opened.forget_results()
        opened.waits_since, opened.announced_again = (yield from Now()).seconds, True
        yield from self._process_requests()
        yield from Publish((yield from self._announcement(opened)))

    def _end(self, opened: OpenRound, next_number: int, body: bytes) -> Steps[None]:
        """Publish the outcome, and with it the next round if its pages are in memory."""
        record = self.draft(KIND_OUTCOME, opened.range, body)
        if record.bytes > self._most_bytes:
            yield from self._make_smaller(opened, "the outcome")
            return
        self.open = None
        self.planner.go_behind(opened.round, next_number)
        records = [record, (yield from self._switch())] if (yield from self._is_due()) else [record]
        following = self.planner.next()
        if following is not None:
            records += yield from self._open(following)
        yield from Publish(records)
        seconds = (yield from Now()).seconds - opened.since
        yield from RoundEnd(len(opened.round.signatures), seconds)

    def _make_smaller(self, opened: OpenRound, what: str) -> Steps[None]:
        """Announce a smaller round, because a message about this one exceeds the limit."""
        pages = len(opened.round.signatures)
        if (yield from self._halve(opened, f"{what} exceeds the message limit")):
            return
        if pages > 1:
            raise StateError(
                f"the round from {opened.range.start.record}:{opened.range.start.page}",
                f"cannot be published: {what} exceeds {self._most_bytes} bytes, and its pages are repeated in one "
                "record with their commit marks, which cannot be cut",
                pages,
                "judge in one process (remove cluster.shards)",
            )
        self.responses.forget_too_large(opened.range)
        if not opened.errors:
            text = f"{what} about this page exceeds {self._most_bytes} bytes"
            yield from self._exclude(opened, {0: text})

    def _halve(self, opened: OpenRound, because: str) -> Steps[bool]:
        """Announce a round with half of the pages instead. Returns whether the round could be cut."""
        smaller, pages = self.planner.half(opened.round), len(opened.round.signatures)
        if smaller is None:
            return False
        yield from Note("a round is announced again with fewer pages", {"because": because, "pages": pages // 2})
        yield from Publish((yield from self._open(smaller)))
        return True

    def _is_missing(self, opened: OpenRound) -> Steps[bool]:
        """Report the shards that a round waits for. Returns whether it has waited longer than MISSING_SECONDS."""
        waits = (yield from Now()).seconds - opened.waits_since
        missing = tuple(opened.awaited) if waits > MISSING_SECONDS else ()
        yield from MissingShards(missing, waits, missing != tuple(opened.missing_logged))
        opened.missing_logged = missing
        return bool(missing)


_EVENTS: Mapping[ResizeEvent, str] = {
    ResizeEvent.REQUESTED: "a resize begins; it waits until the new shards are ready",
    ResizeEvent.SWITCHED: "the resize ends: the new shards take over",
    ResizeEvent.CANCELLED: "the resize was cancelled on request",
    ResizeEvent.REFUSED: "a resize request was refused: it does not fit the present number of shards, or the log or "
    "the topic verdicts no longer hold their first records, from which new shards fill themselves",
}
