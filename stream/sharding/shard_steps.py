"""Steps of a shard: fills its state from `verdicts`, responds to rounds of the resolver, and indexes their outcomes."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.state.index import OutcomeRef
from spotsieve.state.log.record import LogRecord
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.sharding.candidates import Speculation
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.messages import (
    RECREATE_TOPICS,
    RoundMessage,
    ShardResponses,
    combined_checksum,
    poison_body,
    response_offsets,
)
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
from spotsieve.stream.sharding.records.resolver import RoundAnnouncement, write_fill_progress
from spotsieve.stream.sharding.rounds import Round, has_pages
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Share
from spotsieve.stream.sharding.steps import (
    Action,
    Draft,
    Fetch,
    LogUntil,
    MatchesSpans,
    Note,
    Now,
    RoleEnd,
    SeekMatches,
    Steps,
    VerdictsSpan,
)

REPORT_SECONDS = 1.0
NEAR_OFFSETS = 16
"""A shard is ready if at most this many offsets are left in `verdicts`. A round takes four offsets or more."""

_TAKE_SNAPSHOTS = (
    "take snapshots of all present shards (spotsieve state snapshot --after-outcome) and set cluster.snapshots"
)


class ShardResponse(NamedTuple):
    """The response of a shard to a round.

    reads: the buckets and entries that were read for it
    body: the body of the record
    poison: errors of poison pages, by row; if there are any, the body is not sent
    """

    reads: ShardReads
    body: bytes
    poison: Mapping[int, Exception]


@dataclass(slots=True)
class ShardRound:
    """An announced round without an outcome.

    excluded: rows of poison pages, which the round continues without
    round, reads: set once the shard has responded
    speculation: from the resolver, or None for the first speculation
    confirmed: combined checksum of the candidates that this shard has confirmed
    resolution: whether the shard has sent its resolution under the present speculation
    refused: the shard has reported poison pages or a response that is too large, and waits for the resolver
    sent: responses that were sent, by kind, with their offsets in `matches`
    """

    range: RoundRange
    announcement: RoundAnnouncement
    excluded: tuple[int, ...] = ()
    round: Round | None = None
    reads: ShardReads | None = None
    speculation: Speculation | None = None
    confirmed: int | None = None
    resolution: bool = False
    refused: bool = False
    sent: dict[int, tuple[int, Draft]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CutRound(Action[Round]):
    """Cut the open round from the log, up to its range, without its excluded pages. Raises StateError."""

    opened: ShardRound


@dataclass(frozen=True, slots=True)
class FindCandidates(Action[ShardResponse]):
    """Find the candidates of the round under the keys of the shard."""

    round: Round


@dataclass(frozen=True, slots=True)
class Confirm(Action[ShardResponse]):
    """Confirm candidates whose entries the shard holds. responses: of all shards"""

    round: Round
    reads: ShardReads
    responses: Sequence[RoundMessage]


@dataclass(frozen=True, slots=True)
class ResolveHosts(Action[ShardResponse]):
    """Resolve the pages of the shard's hosts. speculation: None for the first one"""

    round: Round
    reads: ShardReads
    responses: Sequence[RoundMessage]
    confirmed: Sequence[RoundMessage]
    speculation: Speculation | None


@dataclass(frozen=True, slots=True)
class IndexOutcome(Action[None]):
    """Index the outcome of a round, in one atomic write. reads: None if the shard has not responded to it"""

    round: Round
    reads: ShardReads | None
    outcome: RoundMessage


@dataclass(frozen=True, slots=True)
class Send(Action[int]):
    """Write a record to the shard's partition of `matches`. The result is its offset."""

    record: Draft


@dataclass(frozen=True, slots=True)
class PoisonTexts(Action[Mapping[int, str]]):
    """Log poison pages of a round. The result are the texts of their errors, by row."""

    round: Round
    errors: Mapping[int, Exception]


@dataclass(frozen=True, slots=True)
class Place(Action[RoundRange]):
    """An empty range at the position of the state."""


@dataclass(frozen=True, slots=True)
class VerdictsPosition(Action[int]):
    """The next offset of `verdicts` to read. It moves past transaction markers."""


@dataclass(frozen=True, slots=True)
class SeekVerdicts(Action[None]):
    """Read `verdicts` from this offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class PresentSize(Action[ClusterSize]):
    """The number of shards at the end of `verdicts`, which may be far behind the position of the shard."""


def check_wanted(share: Share, cluster_size: ClusterSize, is_new: bool) -> None:
    """Raise RoleEnd for a shard that a resize has replaced, and StateError for a shard that was never requested.

    is_new: the shard has indexed nothing and has read no resize
    """
    if cluster_size.needs(share.shards):
        return
    if not is_new:
        raise RoleEnd(
            f"shard {share.number} of {share.shards} is not needed any more, because the number of shards is now "
            f"{cluster_size.shards}; delete its state directory"
        )
    requested = f", and {cluster_size.requested} are requested" if cluster_size.requested else ""
    raise StateError(
        f"shard {share.number} of {share.shards}",
        f"does not belong to this cluster: there are {cluster_size.shards} shards{requested}",
        None,
        f"set cluster.shards = {cluster_size.shards}; or request {share.shards} first (spotsieve shards resize)",
    )


class ShardSteps:
    """The steps of one shard."""

    def __init__(self, share: Share, by_host: bool, verdicts: str, most_bytes: int) -> None:
        """by_host: whether shards resolve the pages of their hosts, because the scheme has a host memory

        verdicts: the name of that topic  most_bytes: limit of a record
        """
        self._share, self._by_host, self._verdicts, self._most_bytes = share, by_host, verdicts, most_bytes
        self._inbox = deque[RoundMessage]()
        self.responses = ShardResponses(share.shards)
        self.cluster_size = ClusterSize()
        self.open: ShardRound | None = None
        self._listening, self._reported = False, float("-inf")

    @property
    def fills(self) -> bool:
        """Whether this shard only indexes, while other shards respond to rounds."""
        return self.cluster_size.shards not in (0, self._share.shards)

    def prefetches(self, offset: int, record: LogRecord) -> bool:
        """Whether to prefetch the buckets of a log record: its pages are of a round that this shard will respond to."""
        opened = self.open
        is_answered = opened is not None and opened.reads is not None and offset < opened.range.end.record
        return has_pages(record) and not is_answered and not self.fills

    def start(self, indexed_by: OutcomeRef | None) -> Steps[None]:
        """Continue behind the last outcome of the state, and index up to the present end of `verdicts`.

        indexed_by: None for a state without rounds
        """
        now = yield from PresentSize()
        check_wanted(self._share, now, indexed_by is None)
        begin, end = yield from VerdictsSpan()
        yield from self._continue(indexed_by, begin, end, now)
        while self._inbox or (yield from VerdictsPosition()) < end:
            yield from self._take_messages()
            yield from self._check_still_wanted()
        # The records after the state's position may not include the number of shards; the end of the topic does.
        self.cluster_size = self.cluster_size if self.cluster_size.shards else now
        if self.fills:
            yield from Note(
                "this shard still fills its state and does not respond to rounds yet",
                {"shards": self._share.shards, "answering": now.shards},
            )

    def _continue(self, indexed_by: OutcomeRef | None, begin: int, end: int, now: ClusterSize) -> Steps[None]:
        """Read on behind the outcome that the state was last indexed by, and check that outcome.

        begin, end: offsets of `verdicts`
        Raises StateError if `verdicts` was recreated or no longer holds the records that the state needs.
        """
        if indexed_by is None:
            if begin:
                raise self._cannot_fill(begin, now)
            yield from SeekVerdicts(0)
            return
        found: RoundMessage | None = None
        if begin <= indexed_by.offset < end:
            yield from SeekVerdicts(indexed_by.offset)
            # A recreated topic may have only a transaction marker from there on, which is not a record.
            while found is None and (yield from VerdictsPosition()) < end:
                found = next(iter((yield from Fetch())), None)
        if begin > indexed_by.offset and now.shards not in (0, self._share.shards):
            raise StateError(
                f"topics.verdicts {self._verdicts!r}",
                f"must hold outcome {indexed_by.offset}, behind which this new shard continues, but begins at {begin}",
                None,
                f"cancel the resize (spotsieve shards resize --cancel), {_TAKE_SNAPSHOTS}, and request it again with "
                "new state directories",
            )
        if found is None or (found.offset, found.checksum) != indexed_by:
            raise StateError(
                f"topics.verdicts {self._verdicts!r}",
                f"does not hold outcome {indexed_by.offset}, by which this shard was indexed last: the topic was "
                "recreated or lost it",
                None,
                f"restore the topic; or {RECREATE_TOPICS}",
            )
        yield from SeekVerdicts(indexed_by.offset + 1)

    def _cannot_fill(self, begin: int, now: ClusterSize) -> StateError:
        """The error of an empty shard that cannot be filled. No advice may harm the shards that respond."""
        then = "restore a snapshot of this shard (spotsieve state restore), or copy the directory of its hot standby"
        if self._share.shards != now.shards:
            then = (
                f"{_TAKE_SNAPSHOTS}, and start this shard again; or cancel the resize (spotsieve shards resize "
                "--cancel): the present shards keep working, so keep both topics"
            )
        return StateError(
            f"topics.verdicts {self._verdicts!r}",
            f"must hold all verdicts for a shard with an empty state, but begins at offset {begin}",
            None,
            then,
        )

    def work(self) -> Steps[None]:
        """Respond to rounds and index them, or fill the state. Never returns."""
        while True:
            if self.fills:
                yield from self._report()
                yield from self._check_still_wanted()
            else:
                yield from self._seek_responses()
                yield from self._respond()
            before, filled = self.cluster_size, self.fills
            yield from self._take_messages()
            if not self.cluster_size.needs(self._share.shards):
                yield from self._check_still_wanted(not before.shards)
            if filled and not self.fills:
                yield from Note("this shard responds to rounds from now on", {"shards": self._share.shards})

    def _check_still_wanted(self, is_new: bool = False) -> Steps[None]:
        """End if the last record of `verdicts` does not need this shard, whatever the shard has read so far."""
        check_wanted(self._share, (yield from PresentSize()), is_new)

    def _seek_responses(self) -> Steps[None]:
        """Begin to read the responses of all shards, from the first open round on that this shard responds to.

        The announcement of the round has their first offsets. From later offsets, a quick response would be missed.
        """
        opened = self.open
        if self._listening or opened is None:
            return
        self._listening, responses = True, opened.announcement.response_starts
        spans = yield from MatchesSpans()
        starts = response_offsets(responses, spans)
        yield from SeekMatches([*starts, *(begin for begin, _ in spans[len(starts) :])])

    def _report(self) -> Steps[None]:
        """Report the fill progress to the resolver if a second has passed."""
        seconds = (yield from Now()).seconds
        if seconds - self._reported < REPORT_SECONDS:
            return
        self._reported = seconds
        at, (_, end) = (yield from VerdictsPosition()), (yield from VerdictsSpan())
        # Records that were fetched and wait in the inbox are not indexed yet.
        at = next((message.offset for message in self._inbox if message.topic == self._verdicts), at)
        progress = write_fill_progress(FillProgress(end - at <= NEAR_OFFSETS, at))
        yield from Send(Draft(KIND_FILL_PROGRESS, self._share.shards, (yield from Place()), progress))

    def _take_messages(self) -> Steps[None]:
        """Process the messages since the last call."""
        self._inbox.extend((yield from Fetch()))
        while self._inbox:
            message = self._inbox[0]
            yield from self._take(message)
            self._inbox.popleft()
            if self.fills and message.record.kind == KIND_OUTCOME:
                yield from self._report()
                yield from self._check_still_wanted()

    def _take(self, message: RoundMessage) -> Steps[None]:
        record = message.record
        if message.topic != self._verdicts:
            if record.kind != KIND_RESOLUTIONS:  # Resolutions are for the resolver.
                self.responses.add(message)
            return
        self.cluster_size = message.cluster_size(self.cluster_size)
        opened = self.open
        is_open = opened is not None and record.range == opened.range
        if record.kind == KIND_RANGE:
            if opened is not None and is_open:
                yield from self._send_again(opened, message.announcement())
            else:
                self.open = ShardRound(record.range, message.announcement())
            self.responses.forget_before(record.range)
        elif record.kind == KIND_POISON_ROWS and opened is not None and is_open:
            excluded = tuple(message.poison_of(opened.announcement.pages))
            if excluded != opened.excluded:
                self.open = ShardRound(record.range, opened.announcement, excluded)
        elif record.kind == KIND_SPECULATION and opened is not None and is_open:
            opened.speculation, opened.resolution = message.speculation_of(opened.announcement.pages), False
        elif record.kind == KIND_OUTCOME:
            yield from self._index(message)

    def _send_again(self, opened: ShardRound, announcement: RoundAnnouncement) -> Steps[None]:
        """Send the responses again that are before the announced offset: the round was announced again.

        What is computed stays, and a response that is behind the announced offset is not sent twice. The resolver
        begins with the first speculation.
        """
        opened.announcement = announcement
        if opened.speculation is not None:
            opened.speculation, opened.resolution = None, False
            opened.sent.pop(KIND_RESOLUTIONS, None)
        number = self._share.number
        if self.fills or number >= len(announcement.response_starts):
            return
        end = (yield from MatchesSpans())[number][1]
        for kind, (offset, draft) in list(opened.sent.items()):
            if not announcement.response_starts[number] <= offset < end:
                opened.sent[kind] = (yield from Send(draft)), draft

    def _respond(self) -> Steps[None]:
        """Send the responses to the open round that are possible by now."""
        opened = self.open
        if opened is None or opened.refused:
            return
        if opened.reads is None:
            round_ = yield from self._cut(opened)
            response = yield from FindCandidates(round_)
            if not (yield from self._send_response(opened, round_, KIND_CANDIDATES, response)):
                return
            opened.reads = response.reads
        responses = self.responses.candidates(opened.range)
        if not self._by_host or responses is None or opened.round is None:
            return
        if opened.confirmed != combined_checksum(responses):
            response = yield from Confirm(opened.round, opened.reads, responses)
            if not (yield from self._send_response(opened, opened.round, KIND_CONFIRMATIONS, response)):
                return
            opened.confirmed = combined_checksum(responses)
        confirmed = self.responses.confirmed(opened.range)
        if confirmed is not None and not opened.resolution:
            response = yield from ResolveHosts(opened.round, opened.reads, responses, confirmed, opened.speculation)
            opened.resolution = True
            yield from self._send_response(opened, opened.round, KIND_RESOLUTIONS, response)

    def _cut(self, opened: ShardRound) -> Steps[Round]:
        yield from LogUntil(opened.range.end.record_end)
        if opened.round is None:
            opened.round = yield from CutRound(opened)
        return opened.round

    def _send_response(self, opened: ShardRound, round_: Round, kind: int, response: ShardResponse) -> Steps[bool]:
        """Send a response, or the reason why there is none: poison pages, or its size. Returns whether it was sent.

        The resolver then excludes the poison pages from the round, or announces a smaller round.
        """
        body = response.body
        if response.poison:
            kind, body = KIND_POISON_ROWS, poison_body(round_, (yield from PoisonTexts(round_, response.poison)))
        draft = Draft(kind, self._share.shards, opened.range, body)
        if draft.bytes > self._most_bytes:
            kind, draft = KIND_TOO_LARGE, Draft(KIND_TOO_LARGE, self._share.shards, opened.range)
        opened.refused = kind in (KIND_POISON_ROWS, KIND_TOO_LARGE)
        opened.sent[kind] = (yield from Send(draft)), draft
        return not opened.refused

    def _index(self, outcome: RoundMessage) -> Steps[None]:
        """Index the outcome of the open round. Raises StateError if it belongs to another round."""
        opened = self.open
        if opened is None or opened.range != outcome.record.range:
            raise StateError(
                f"topics.verdicts[{outcome.offset}]",
                "is not the outcome of the round that was announced before it",
                None,
                f"restore the topic; or {RECREATE_TOPICS}",
            )
        round_ = yield from self._cut(opened)
        yield from IndexOutcome(round_, opened.reads, outcome)
        self.open = None
