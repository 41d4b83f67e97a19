"""Messages of a round as its readers keep them: decoded records, the responses of shards, and the end of `verdicts`.

Nothing here reads a topic. The Kafka service and the simulator of the tests share this module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
import xxhash

from spotsieve.state.horizon import Clock
from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.sharding.candidates import (
    ACCEPTED,
    OPEN,
    SentFlags,
    ShardCandidates,
    Speculation,
    fits_blocks,
)
from spotsieve.stream.sharding.confirmation import ShardConfirmations, apply_confirmations
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_REQUEST,
    KIND_RESIZE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    KIND_TOO_LARGE,
    ColumnReader,
    RoundRange,
    RoundRecord,
    decode_body,
)
from spotsieve.stream.sharding.records.resolver import (
    PoisonRows,
    RoundAnnouncement,
    read_announcement,
    read_fill_progress,
    read_outcome,
    read_poison_rows,
    read_request,
    read_resize,
    read_speculation,
    write_poison_rows,
)
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_combined_checksum,
    read_confirmations,
    read_resolutions,
)
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import (
    ClusterSize,
    FillProgress,
    Resize,
    ResizeEvent,
    shards_of_entries,
    shards_of_hosts,
)

RECREATE_TOPICS = (
    "set topics.matches and topics.verdicts to new names, create these topics (spotsieve topics create), and start "
    "every shard with an empty state directory, which the log rebuilds"
)

Decoded = TypeVar("Decoded")


@dataclass(frozen=True)
class RoundMessage:
    """A record about a round with its topic and offset.

    checksum: checksum of the record, which identifies it
    time_ms: record time, Unix time in ms
    Decoded contents are cached, and must not be changed.
    """

    record: RoundRecord
    topic: str
    offset: int
    checksum: int
    time_ms: int = 0

    @cached_property
    def shard_candidates(self) -> ShardCandidates:
        """The candidates of a shard. Raises DamagedRecord, like all accessors."""
        return self._body(KIND_CANDIDATES, lambda columns: read_candidates(columns, self.record.range.first_number))

    @cached_property
    def confirmations(self) -> ShardConfirmations:
        """The confirmations of a shard for its entries."""
        return self._body(
            KIND_CONFIRMATIONS, lambda columns: read_confirmations(columns, self.record.range.first_number)
        )

    @cached_property
    def resolutions(self) -> tuple[HostResolutions, Speculation]:
        """The resolutions of a shard for the pages of its hosts, and their speculation."""
        return self._body(KIND_RESOLUTIONS, lambda columns: read_resolutions(columns, self.record.range.first_number))

    def outcome(self) -> RoundOutcome:
        """The outcome of a round."""
        return self._body(KIND_OUTCOME, lambda columns: read_outcome(columns, self.record.range.first_number))

    def announcement(self) -> RoundAnnouncement:
        """The announcement of a round."""
        return self._body(KIND_RANGE, lambda columns: read_announcement(columns, self.record.range))

    def speculation(self) -> Speculation:
        """A corrected speculation of the resolver."""
        return self._body(KIND_SPECULATION, read_speculation)

    def resize(self) -> Resize:
        """A resize step of the resolver."""
        return self._body(KIND_RESIZE, read_resize)

    def requested_shards(self) -> int:
        """The requested number of shards; 0 cancels the resize."""
        return self._body(KIND_REQUEST, read_request)

    def fill_progress(self) -> FillProgress:
        """The fill progress of a shard."""
        return self._body(KIND_FILL_PROGRESS, read_fill_progress)

    def poison(self) -> PoisonRows:
        """The poison pages of a round."""
        return self._body(KIND_POISON_ROWS, read_poison_rows)

    # The methods below also compare the record with the round. They raise DamagedRecord if it does not fit: the kernels
    # behind them rely on the lengths of all columns.

    def candidates_of(self, round_: Round, by_host: bool) -> ShardCandidates:
        """The candidates of a shard for this round. by_host: shards confirm each other's candidates"""
        found = self.shard_candidates
        self.check_pages(len(found.postings), len(round_.signatures))
        accepted = found.number[(found.proof != 0) | (found.result == ACCEPTED)]
        self.check(by_host or bool(np.isin(accepted, found.numbers).all()), "must hold the entries that it accepts")
        return found

    def confirmations_of(self, round_: Round, pairs: int) -> ShardConfirmations:
        """The confirmations of a shard for this round. pairs: number of candidates whose entries the shard holds"""
        found, share = self.confirmations, self.record.share
        self.check_pages(len(found.copies), len(round_.signatures))
        self.check(fits_blocks(round_.signatures, found.flags), "must have a flag for each block of its pages")
        self.check(len(found.result) == pairs, "must have a result for each candidate whose entry its shard holds")
        holders = shards_of_entries(found.numbers, share.shards)
        self.check(bool((holders == share.number).all()), "must be about entries that its shard holds")
        return found

    def resolutions_of(self, round_: Round) -> tuple[HostResolutions, Speculation]:
        """The resolutions of a shard for this round, and their speculation."""
        (found, used), signatures, share = self.resolutions, round_.signatures, self.record.share
        self.check_pages(len(used.indexed), len(signatures))
        counted = np.ones(len(signatures), np.bool_)
        counted[list(round_.excluded)] = False
        own = shards_of_hosts(signatures, share.shards) == share.number
        is_whole = np.array_equal(found.rows[counted[found.rows]], np.flatnonzero(own & counted))
        self.check(is_whole, "must resolve the pages of the hosts of its shard")
        indexed = SentFlags(found.rows[found.is_indexed], found.flags)
        is_fitting = fits_blocks(signatures, used.flags) and fits_blocks(signatures, indexed)
        self.check(is_fitting, "must have a flag for each block of its pages")
        return found, used

    def speculation_of(self, pages: int) -> Speculation:
        """A corrected speculation for a round of this number of pages."""
        found = self.speculation()
        self.check_pages(len(found.indexed), pages)
        return found

    def outcome_of(self, round_: Round, by_host: bool) -> RoundOutcome:
        """The outcome of this round. by_host: whether the scheme has a memory of hosts"""
        found = self.outcome()
        self.check_pages(len(found.verdicts), len(round_.signatures))
        self.check((found.flags is not None) == by_host, "must be of the scheme of this shard")
        if found.flags is not None:
            indexed = SentFlags(np.flatnonzero(found.entry != NOBODY), found.flags)
            self.check(fits_blocks(round_.signatures, indexed), "must have a flag for each block of its pages")
        return found

    def poison_of(self, pages: int) -> Mapping[int, str]:
        """The texts of the errors of poison pages, by row, of a round of this number of pages."""
        found = self.poison()
        self.check_pages(found.pages, pages)
        return found.errors

    def check_pages(self, found: int, pages: int) -> None:
        """Check that the record is about as many pages as its round. Raises DamagedRecord."""
        self.check(found == pages, "must be about the pages of its round")

    def check(self, is_met: bool, rule: str) -> None:
        """Raise DamagedRecord, which names this record, unless the rule is met."""
        if not is_met:
            raise DamagedRecord(
                self.topic, self.offset, rule, f"let all roles run the same release; or {RECREATE_TOPICS}"
            )

    def cluster_size(self, before: ClusterSize) -> ClusterSize:
        """The cluster size after this record of `verdicts`. before: the cluster size before it"""
        if self.record.kind not in (KIND_RANGE, KIND_RESIZE):
            return before
        return before.after(self.record.share.shards, self.resize() if self.record.kind == KIND_RESIZE else None)

    def _body(self, kind: int, read: Callable[[ColumnReader], Decoded]) -> Decoded:
        return decode_body(self.record, kind, read, self.topic, self.offset)


class ShardResponses:
    """The responses of S shards to open rounds. A later response of a shard replaces its earlier one."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._candidates: dict[RoundRange, dict[int, RoundMessage]] = {}
        self._confirmed: dict[RoundRange, dict[int, dict[int, RoundMessage]]] = {}
        self._resolution: dict[RoundRange, dict[int, list[RoundMessage]]] = {}
        self._too_large: set[RoundRange] = set()
        self._poison: dict[RoundRange, list[RoundMessage]] = {}

    def add(self, message: RoundMessage) -> None:
        """Keep a response. Responses from a cluster with another number of shards are ignored."""
        record = message.record
        if record.share.shards != self.shards:
            return
        if record.kind == KIND_CANDIDATES:
            self._candidates.setdefault(record.range, {})[record.share.number] = message
        elif record.kind == KIND_CONFIRMATIONS:
            of_range = self._confirmed.setdefault(record.range, {})
            of_range.setdefault(read_combined_checksum(record.body), {})[record.share.number] = message
        elif record.kind == KIND_RESOLUTIONS:
            self._resolution.setdefault(record.range, {}).setdefault(record.share.number, []).append(message)
        elif record.kind == KIND_TOO_LARGE:
            self._too_large.add(record.range)
        elif record.kind == KIND_POISON_ROWS:
            self._poison.setdefault(record.range, []).append(message)

    def candidates(self, range_: RoundRange) -> list[RoundMessage] | None:
        """The candidates of all shards, in shard order; None until all shards have responded."""
        return _of_all(self._candidates.get(range_, {}), self.shards)

    def confirmed(self, range_: RoundRange) -> list[RoundMessage] | None:
        """The confirmations of all shards for the present candidates, in shard order; None until all have responded.

        A shard that read other candidate responses has confirmed those. It reads the present ones too, and confirms
        again.
        """
        return _of_all(self._confirmed_by(range_), self.shards)

    def _confirmed_by(self, range_: RoundRange) -> dict[int, RoundMessage]:
        """By shard, its confirmations for the present candidates."""
        responses = self.candidates(range_)
        return self._confirmed.get(range_, {}).get(combined_checksum(responses), {}) if responses else {}

    def resolution(self, range_: RoundRange) -> dict[int, list[RoundMessage]]:
        """By shard, its resolutions under successive speculations."""
        return self._resolution.get(range_, {})

    def too_large(self, range_: RoundRange) -> bool:
        """Whether the response of a shard exceeds the message limit."""
        return range_ in self._too_large

    def poison(self, range_: RoundRange, pages: int) -> dict[int, str]:
        """The poison pages that shards reported, by row, with the text of the error. pages: of the round"""
        found = dict[int, str]()
        for message in self._poison.get(range_, []):
            found |= message.poison_of(pages)
        return found

    def missing(self, range_: RoundRange, confirmations: bool) -> list[int]:
        """The shards without candidates, or, once all have sent them, without confirmations.

        confirmations: whether shards send confirmations
        """
        responded = set(self._candidates.get(range_, {}))
        if confirmations and len(responded) == self.shards:
            responded = set(self._confirmed_by(range_))
        return sorted(set(range(self.shards)) - responded)

    def forget_resolutions(self, range_: RoundRange) -> None:
        """Drop resolutions under superseded speculations, of which a round may have many."""
        self._resolution.pop(range_, None)

    def forget_too_large(self, range_: RoundRange) -> None:
        """Forget that a response was too large, and wait for smaller ones."""
        self._too_large.discard(range_)

    def forget_before(self, range_: RoundRange) -> None:
        """Drop the responses to rounds before this one."""
        for kept in (self._candidates, self._confirmed, self._resolution, self._poison):
            for one in [one for one in kept if one.start < range_.start]:
                del kept[one]
        self._too_large = {one for one in self._too_large if one.start >= range_.start}


def confirmed_candidates(
    round_: Round, responses: Sequence[RoundMessage], confirmed: Sequence[RoundMessage]
) -> list[ShardCandidates]:
    """The candidates of all shards with their confirmations applied. Both sequences are in shard order.

    Raises DamagedRecord if a response does not belong to the round or to the others.
    """
    candidates = [one.candidates_of(round_, True) for one in responses]
    numbers = np.concatenate([one.number for one in candidates])
    pairs = np.bincount(shards_of_entries(numbers, len(confirmed)), minlength=len(confirmed)).tolist()
    confirmations = [one.confirmations_of(round_, count) for one, count in zip(confirmed, pairs, strict=True)]
    found = apply_confirmations(candidates, confirmations)
    sent = np.concatenate([one.numbers for one in confirmations])
    is_judged = round_.signatures.status != SignatureStatus.EMPTY
    for message, one in zip(responses, found, strict=True):
        judged = np.repeat(is_judged, sizes_of(one.bounds))
        needed = one.number[judged & ((one.proof != 0) | (one.result == OPEN))]
        message.check(bool(np.isin(needed, sent).all()), "must name entries that the shards that hold them have sent")
    return found


def check_originals(
    round_: Round, shard_candidates: Sequence[ShardCandidates], resolutions: Mapping[int, HostResolutions]
) -> None:
    """Check that the entries of all originals were sent. resolutions: by shard  Raises StateError."""
    sent = [one.numbers for one in shard_candidates]
    for number, one in resolutions.items():
        present = np.concatenate([np.array([NOBODY]), *sent, np.fromiter(one.entries, np.int64, len(one.entries))])
        if not np.isin([one.indexed.number, one.indexed.replaced], present).all():
            raise StateError(
                f"the round from {round_.start.record}:{round_.start.page}",
                f"has a resolution of shard {number} that names originals whose entries no shard has sent",
                None,
                f"let all roles run the same release; or {RECREATE_TOPICS}",
            )


def combined_checksum(responses: Sequence[RoundMessage]) -> int:
    """A 64-bit checksum over the checksums of all responses. It identifies this set of responses."""
    return xxhash.xxh3_64_intdigest(b"".join(one.checksum.to_bytes(8, "little") for one in responses))


def _of_all(by_shard: dict[int, RoundMessage], shards: int) -> list[RoundMessage] | None:
    return [by_shard[number] for number in range(shards)] if len(by_shard) == shards else None


def are_responses_lost(starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether responses to a round are lost from `matches`. A reader would wait for them for ever."""
    return any(at != offset for at, offset in zip(starts, response_offsets(starts, spans), strict=False))


def response_offsets(starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """The offset from which each partition of `matches` is read for these responses.

    Lost responses are skipped. A topic that ends before them was recreated, and is read from its beginning.
    """
    return [at if first <= at <= last else first for at, (first, last) in zip(starts, spans, strict=False)]


class RoundsEnd(NamedTuple):
    """The end of all finished rounds, and the open round if there is one.

    place, next_number: log place and entry number after the last finished round
    clock: clock of the open round, or of the last finished one
    open: range and announcement of the open round, or None
    speculation: present speculation of the open round, or None for the first one
    cluster_size: the present number of shards
    response_starts: by shard, the read position of `matches` at the last announcement
    poison: error texts of the pages excluded from the open round, by row
    last_record: checksum of the last log record of finished rounds; None if a round is open, because its records are
    compared instead
    requested_at: offset in `verdicts` of the last record that says that a resize is pending, or 0
    """

    place: LogPlace
    clock: Clock
    next_number: int
    open: tuple[RoundRange, RoundAnnouncement] | None
    speculation: Speculation | None
    cluster_size: ClusterSize = ClusterSize()
    response_starts: tuple[int, ...] = ()
    poison: Mapping[int, str] = MappingProxyType({})
    last_record: int | None = None
    requested_at: int = 0


def end_of(messages: Sequence[RoundMessage]) -> RoundsEnd:
    """The end of these records of `verdicts`, which include the last announcement if there is any."""
    cluster_size, requested_at = cluster_size_of(messages), 0
    for message in messages:
        if message.record.kind == KIND_RESIZE and message.resize().change == ResizeEvent.REQUESTED:
            requested_at = message.offset
    announced = [number for number, message in enumerate(messages) if message.record.kind == KIND_RANGE]
    if not announced:
        return RoundsEnd(LogPlace(0, 0), Clock(), 0, None, None, cluster_size, requested_at=requested_at)
    at = announced[-1]
    range_, announcement = messages[at].record.range, messages[at].announcement()
    cluster_size = cluster_size_of(messages[at:])
    clock, speculation, poison = Clock(range_.watermark_ms, announcement.marks), None, dict[int, str]()
    for message in messages[at + 1 :]:
        if message.record.kind == KIND_POISON_ROWS:
            # The shards restart under their first speculation.
            poison, speculation = dict(message.poison_of(announcement.pages)), None
        elif message.record.kind == KIND_SPECULATION:
            speculation = message.speculation_of(announcement.pages)
        elif message.record.kind == KIND_OUTCOME:
            number = message.outcome().next_number
            end = RoundsEnd(
                range_.end,
                clock,
                number,
                None,
                None,
                cluster_size,
                announcement.response_starts,
                requested_at=requested_at,
            )
            return end._replace(last_record=announcement.last_record)
    opened = RoundsEnd(range_.start, clock, range_.first_number, (range_, announcement), speculation, cluster_size)
    return opened._replace(response_starts=announcement.response_starts, poison=poison, requested_at=requested_at)


def cluster_size_of(messages: Sequence[RoundMessage]) -> ClusterSize:
    """The cluster size after these records. The first one is the last announcement, if there is any."""
    cluster_size = ClusterSize()
    for message in messages:
        cluster_size = message.cluster_size(cluster_size)
    return cluster_size


def poison_body(round_: Round, errors: Mapping[int, str]) -> bytes:
    """Encode the body of a record of kind 10. errors: error texts by row"""
    return write_poison_rows(PoisonRows(len(round_.signatures), errors))
