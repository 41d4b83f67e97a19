"""Steps of a role: a generator that yields actions and receives their results. It reads no clock, topic or disk.

A driver performs the actions: stream/service/roles on Kafka, and tests/fixtures/simulation on a simulated cluster. So
both run the same decisions. `result = yield from Fetch()` performs one action. A role ends with an exception: RoleEnd
if it is not needed any more, otherwise an error class, which is a decision.

ResizeState keeps the resize requests and the shards that are ready to take over. RecordVerdicts assigns the verdicts
of rounds to the log records of one worker.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from spotsieve.state.identity import OtherLogError
from spotsieve.stream.base.errors import BrokerTrouble
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.sharding.messages import RECREATE_TOPICS, RoundMessage
from spotsieve.stream.sharding.records.frame import (
    FRAME_BYTES,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_REQUEST,
    RoundRange,
)
from spotsieve.stream.sharding.records.resolver import RoundAnnouncement
from spotsieve.stream.sharding.shares import ClusterSize, Resize, ResizeEvent

READY_MS = 10_000
"""A shard counts as ready for this time after its last report, by record time. Ready shards report every second."""
T = TypeVar("T")


class RoleEnd(Exception):
    """The role is not needed any more: its process logs this text and stops cleanly."""


class Action(Generic[T]):
    """An action of a role, whose result has type T."""

    def __iter__(self) -> "Steps[T]":
        result: T = yield self
        return result


Steps = Generator[Action[Any], Any, T]
"""Steps that return a T."""


class Moment(NamedTuple):
    """seconds: monotonic time  time_ms: Unix time in ms, which is compared with record times"""

    seconds: float
    time_ms: int


class Draft(NamedTuple):
    """A record to write. The driver adds the identity of the cluster. shards: number of shards in its frame"""

    kind: int
    shards: int
    range: RoundRange
    body: bytes = b""

    @property
    def bytes(self) -> int:
        """Length of the encoded record."""
        return FRAME_BYTES + len(self.body)


@dataclass(frozen=True, slots=True)
class Now(Action[Moment]):
    """The present time."""


@dataclass(frozen=True, slots=True)
class Fetch(Action[Sequence[RoundMessage]]):
    """The next messages, in order per partition; none after a short wait."""


@dataclass(frozen=True, slots=True)
class MatchesSpans(Action[Sequence[tuple[int, int]]]):
    """By shard, first offset and end of its partition of `matches`."""


@dataclass(frozen=True, slots=True)
class VerdictsSpan(Action[tuple[int, int]]):
    """First offset of `verdicts`, and its end for committed records."""


@dataclass(frozen=True, slots=True)
class LogUntil(Action[None]):
    """Wait until the records of the log before this offset are in memory."""

    end: int


@dataclass(frozen=True, slots=True)
class SeekMatches(Action[None]):
    """Read the responses of each shard from its offset on. offsets: at least one per shard"""

    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class Note(Action[None]):
    """Log a line."""

    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    is_warning: bool = False


class ResizeState:
    """Resize requests and ready shards, in the order of `matches`."""

    def __init__(self, cluster_size: ClusterSize, requested_at: int = 0) -> None:
        """cluster_size: from `verdicts`

        requested_at: offset in `verdicts` of the record that says that a resize is pending
        """
        self.cluster_size = cluster_size
        self.requested_at = requested_at
        self._requests = list[tuple[int, int, int]]()
        self._ready = dict[int, int]()

    def take(self, message: RoundMessage) -> None:
        """Process a record of `matches`.

        A report from before the request is from an earlier resize: its shard had not read the request.
        """
        record = message.record
        if record.kind == KIND_REQUEST and not record.share.number:
            self._requests.append((message.offset, message.requested_shards(), record.share.shards))
        elif record.kind == KIND_FILL_PROGRESS and record.share.shards == self.cluster_size.requested:
            progress = message.fill_progress()
            if progress.next_offset <= self.requested_at:
                return
            if progress.ready:
                self._ready[record.share.number] = message.time_ms
            else:
                self._ready.pop(record.share.number, None)

    def has_requests(self) -> bool:
        """Whether requests wait for their response."""
        return bool(self._requests)

    def responses(self, fillable: bool) -> Iterator[Resize]:
        """Yield the responses to resize requests since the last call, and apply them to cluster_size.

        fillable: whether new shards can fill themselves; otherwise a resize cannot end, and is refused
        """
        requests, self._requests = self._requests, []
        for offset, wanted, seen in requests:
            step = self.cluster_size.respond(wanted, offset, seen)
            if step is None:
                continue
            if step.change == ResizeEvent.REQUESTED and not fillable:
                step = Resize(ResizeEvent.REFUSED, 0, step.processed)
            if step.change != ResizeEvent.REFUSED:
                self._ready.clear()
            self.cluster_size = self.cluster_size.after(self.cluster_size.shards, step)
            yield step

    def due(self, time_ms: int) -> bool:
        """Whether all requested shards have reported readiness within READY_MS. time_ms: the present time"""
        ready = [number for number, at in self._ready.items() if time_ms - at <= READY_MS]
        return 0 < self.cluster_size.requested == len(ready)

    def switch(self) -> Resize:
        """Let the requested shards take over. Returns the record content that says so."""
        step = self.cluster_size.switch()
        self.cluster_size = self.cluster_size.after(step.shards, step)
        self._ready.clear()
        return step


UNCLAIMED_PAGES = 500_000
"""Limit of pages whose verdicts are buffered while a record is being sent. All workers' verdicts arrive meanwhile, and
a send is repeated for as long as the broker is down. The verdicts take 70 MB if half of the pages are copies."""


class VerdictPart(NamedTuple):
    """Verdicts of consecutive pages of a record.

    checksum: of the record  errors: error texts of poison pages, by row in the part
    """

    verdicts: Verdicts
    checksum: int
    errors: Mapping[int, str]


class RecordVerdicts:
    """Assigns the verdicts of rounds to the log records of one worker, of which one is being sent at most."""

    def __init__(self, log_name: str, verdicts_name: str) -> None:
        self._log_name, self._verdicts_name = log_name, verdicts_name
        self._waiting: dict[int, int] = {}
        self._sending: int | None = None
        self._unclaimed: dict[int, list[VerdictPart]] = {}
        self._unclaimed_pages = 0
        self._errors: Mapping[int, str] = {}
        self._announced: tuple[RoundRange, RoundAnnouncement] | None = None

    def begin_sending(self, checksum: int) -> None:
        """Buffer all verdicts from now on: they may arrive before the broker's response. checksum: of the record"""
        self._sending = checksum

    def end_sending(self, offset: int | None) -> list[VerdictPart]:
        """Wait for the verdicts of the record at this offset. Returns those that arrived already.

        offset: None if the record was not sent
        Raises OtherLogError if they belong to another record at this offset.
        """
        unclaimed, checksum = self._unclaimed, self._sending
        self._sending, self._unclaimed, self._unclaimed_pages = None, {}, 0
        if offset is None or checksum is None:
            return []
        self._waiting[offset] = checksum
        found = unclaimed.get(offset, [])
        for part in found:
            self._check(offset, part)
        return found

    def forget(self, offset: int) -> None:
        """Wait no more for the record at this offset: it has all verdicts."""
        self._waiting.pop(offset, None)

    def take(self, message: RoundMessage) -> Iterator[tuple[int, VerdictPart]]:
        """Yield the verdicts in a record of `verdicts` for the records that wait, with the offsets of these.

        Raises BrokerTrouble if a record that waits was passed, or above UNCLAIMED_PAGES, and OtherLogError if verdicts
        belong to another record at the offset of one that waits.
        """
        record = message.record
        if record.kind == KIND_RANGE:
            passed = [offset for offset in self._waiting if offset < record.range.start.record]
            if passed:
                raise BrokerTrouble(
                    f"log {self._log_name}[{passed[0]}]", "was skipped while this worker waits for its verdicts"
                )
            self._announced, self._errors = (record.range, message.announcement()), {}
        elif record.kind == KIND_POISON_ROWS and self._announced is not None and self._announced[0] == record.range:
            self._errors = message.poison_of(self._announced[1].pages)
        elif record.kind == KIND_OUTCOME and self._announced is not None and self._announced[0] == record.range:
            verdicts, first = message.outcome().verdicts, 0
            message.check_pages(len(verdicts), self._announced[1].pages)
            for offset, pages, checksum in self._announced[1].records:
                errors = {row - first: text for row, text in self._errors.items() if first <= row < first + pages}
                part = VerdictPart(verdicts.part(first, first + pages), checksum, errors)
                first += pages
                if offset in self._waiting:
                    self._check(offset, part)
                    yield offset, part
                elif self._sending is not None:
                    self._keep(offset, part)

    def _check(self, offset: int, part: VerdictPart) -> None:
        """Raise OtherLogError if verdicts belong to another record at this offset than the one that waits."""
        if part.checksum != self._waiting[offset]:
            raise OtherLogError(
                f"topics.verdicts {self._verdicts_name!r}",
                f"holds verdicts for record {offset} of topics.log {self._log_name!r} with the checksum "
                f"{part.checksum:016x}, and this worker wrote {self._waiting[offset]:016x} there: the verdicts "
                "belong to another history of the log",
                None,
                f"restore the log that they belong to; or {RECREATE_TOPICS}",
            )

    def _keep(self, offset: int, part: VerdictPart) -> None:
        """Buffer verdicts that may belong to the record that is being sent."""
        self._unclaimed.setdefault(offset, []).append(part)
        self._unclaimed_pages += len(part.verdicts)
        if self._unclaimed_pages > UNCLAIMED_PAGES:
            raise BrokerTrouble(
                f"topics.log {self._log_name!r}",
                f"took a record of this worker too slowly: more than {UNCLAIMED_PAGES} verdicts arrived meanwhile",
            )
