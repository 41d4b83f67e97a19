"""The work of a shard on a round over its state: takes log records and messages, and returns the bytes of responses."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spotsieve.state.horizon import Clock
from spotsieve.state.index import LiveView, OutcomeRef, StateView
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import ENVIRONMENT_ERRORS, StateError, isolate
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import forget
from spotsieve.stream.sharding.bucket_prefetch import BucketPrefetch
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.confirmation import confirm
from spotsieve.stream.sharding.hosts import first_speculation, resolve_hosts
from spotsieve.stream.sharding.indexing import index_round
from spotsieve.stream.sharding.isolation import exclude_pages, without_excluded
from spotsieve.stream.sharding.keys import ShardReads, read_round
from spotsieve.stream.sharding.messages import RECREATE_TOPICS, RoundMessage, combined_checksum, confirmed_candidates
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.shard import write_candidates, write_confirmations, write_resolutions
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import LogPlace, Round, has_pages, limits_in_shards, round_between
from spotsieve.stream.sharding.shard_steps import ShardResponse, ShardRound
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes import Scheme


class ShardWork:
    """The work of one shard. Call it from one thread."""

    def __init__(self, settings: Settings, scheme: Scheme, state: State, share: Share) -> None:
        self._log_name = settings.topics.log
        self._scheme, self._state, self._share = scheme, state, share
        self._ahead = BucketPrefetch(state)
        self._limits = limits_in_shards(settings, scheme)

    @property
    def place(self) -> LogPlace:
        """The earliest start of the next round."""
        return LogPlace(self._state.position, self._state.pages_applied)

    def here(self) -> RoundRange:
        """An empty range at the position of the state."""
        state, clock = self._state, self._state.clock
        return RoundRange(self.place, self.place, state.entry_count, clock.floor, clock.watermark_ms)

    def cut(self, opened: ShardRound, records: Iterable[tuple[int, LogRecord]]) -> Round:
        """Cut the open round without its poison pages, after applying the records before it, which only remove pages.

        records: log records, at least from the state's position to the end of the range
        Raises StateError if the range does not follow the state, or if the log is another one.
        """
        range_, announcement, reads = opened.range, opened.announcement, list(records)
        self._go_to(range_, reads)
        of_round = [(at, one) for at, one in reads if range_.start.record <= at < range_.end.record_end]
        clock = Clock(range_.watermark_ms, announcement.marks)
        found = round_between(of_round, range_.start, range_.end, range_.first_number, clock)
        is_announced = found is not None and (found.last_record, len(found.signatures)) == (
            announcement.last_record,
            announcement.pages,
        )
        if found is None or not is_announced or not all(has_pages(one) for _, one in of_round):
            raise StateError(
                f"log {self._log_name}[{range_.start.record}]",
                "differs from the log of which the resolver made its rounds",
                None,
                f"restore that log; or {RECREATE_TOPICS}",
            )
        return exclude_pages(found, opened.excluded)

    def _go_to(self, range_: RoundRange, records: Sequence[tuple[int, LogRecord]]) -> None:
        state, start = self._state, range_.start
        between = [(at, one) for at, one in records if state.position <= at < start.record]
        goes_on = self.place == start or (not state.pages_applied and not start.page and self.place < start)
        if not goes_on or any(has_pages(one) for _, one in between) or range_.first_number != state.entry_count:
            raise StateError(
                f"the round from {start.record}:{start.page}",
                f"does not follow the state, which is at {self.place.record}:{self.place.page} with "
                f"{state.entry_count} entries: rounds are missing, or the verdicts belong to another log",
                range_.first_number,
                RECREATE_TOPICS,
            )
        for offset, record in between:
            if record.forgotten:
                forget(state, record, offset, whole=False)
                self._ahead.drop()
            else:
                state.file(None, offset + 1, record.checksum)

    def read_ahead(self, offset: int, record: LogRecord) -> None:
        """Prefetch the buckets of pages after the open round in the log."""
        try:
            self._ahead.read(offset, record.signatures, self._scheme, self._share)
        except ENVIRONMENT_ERRORS:
            raise
        except Exception:
            # A poison page. Its round isolates it and continues without it.
            return

    def _view(self, round_: Round) -> StateView:
        return LiveView(self._ahead, round_.clock.floor) if round_.clock.floor else self._ahead

    def find_candidates(self, round_: Round) -> ShardResponse:
        """The candidates of the round under the shard's own keys: the body of kind 1."""
        (reads, body), poison = isolate(
            lambda rows: self._find_candidates(exclude_pages(round_, rows)), len(round_.signatures)
        )
        return ShardResponse(reads, body, poison)

    def _find_candidates(self, round_: Round) -> tuple[ShardReads, bytes]:
        view = self._view(round_)
        reads = read_round(round_.signatures, self._scheme, view, self._share)
        candidates = find_shard_candidates(round_.signatures, reads, self._scheme, view, self._limits, self._share)
        return reads, write_candidates(candidates, round_.first_number)

    def confirm(self, round_: Round, reads: ShardReads, responses: Sequence[RoundMessage]) -> ShardResponse:
        """The confirmations for the entries that the shard holds: the body of kind 11.

        reads: the reads that find_candidates() returned
        responses: candidates of all shards, in shard order
        """
        shard_candidates, of = [one.candidates_of(round_, True) for one in responses], combined_checksum(responses)
        body, poison = isolate(
            lambda rows: self._confirm(exclude_pages(round_, rows), None if rows else reads, shard_candidates, of),
            len(round_.signatures),
        )
        return ShardResponse(reads, body, poison)

    def _confirm(
        self, round_: Round, reads: ShardReads | None, shard_candidates: Sequence[ShardCandidates], of: int
    ) -> bytes:
        view = self._view(round_)
        if reads is None:
            reads = read_round(round_.signatures, self._scheme, view, self._share)
        # Excluded pages too, because the other shards expect confirmations for all pairs.
        confirmations = confirm(round_, reads, shard_candidates, self._scheme, view, self._share)
        return write_confirmations(confirmations, of, round_.first_number)

    def resolve_hosts(
        self,
        round_: Round,
        reads: ShardReads,
        responses: Sequence[RoundMessage],
        confirmed: Sequence[RoundMessage],
        speculation: Speculation | None,
    ) -> ShardResponse:
        """The sequential resolution of the pages of the shard's hosts: the body of kind 2.

        reads: the reads that find_candidates() returned
        responses, confirmed: candidates and confirmations of all shards, in shard order
        speculation: None for the first speculation, which follows from the candidates
        """
        shard_candidates = confirmed_candidates(round_, responses, confirmed)
        body, poison = isolate(
            lambda rows: self._resolve_hosts(
                exclude_pages(round_, rows), None if rows else reads, shard_candidates, speculation
            ),
            len(round_.signatures),
        )
        return ShardResponse(reads, body, poison)

    def _resolve_hosts(
        self,
        round_: Round,
        reads: ShardReads | None,
        shard_candidates: Sequence[ShardCandidates],
        speculation: Speculation | None,
    ) -> bytes:
        view, candidates = self._view(round_), without_excluded(shard_candidates, round_)
        if reads is None:
            reads = read_round(round_.signatures, self._scheme, view, self._share)
        used = first_speculation(round_, candidates) if speculation is None else speculation.without(round_.excluded)
        resolutions = resolve_hosts(round_, reads, self._scheme, view, self._limits, candidates, used)
        return write_resolutions(resolutions, used, round_.first_number)

    def index(self, round_: Round, reads: ShardReads | None, outcome: RoundMessage) -> int:
        """Index the outcome of a round. Returns the number of entries of this shard.

        reads: the reads that find_candidates() returned, or None if the shard did not respond to the round
        """
        resolved = outcome.outcome_of(round_, self._scheme.host_thresholds is not None)
        view = self._view(round_)
        index_update = index_round(round_, resolved, reads, self._scheme, view, self._limits, self._share)
        if index_update.places is not None:
            index_update = replace(
                index_update,
                places=index_update.places._replace(last_outcome=OutcomeRef(outcome.offset, outcome.checksum)),
            )
        self._state.file(index_update, round_.end.record, round_.last_record, round_.end.page, round_.clock)
        self._ahead.drop_before(round_.end.record)
        self._ahead.changed(index_update.keys)
        return len(index_update.pages)
