"""Runs a single-process judge over a synthetic log, and all shards and the resolver of a cluster over the same."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import step_of
from spotsieve.state.index import CommitMark, LiveView, OutcomeRef, StateView
from spotsieve.state.log.record import LogRecord, decode, encode, encode_forget
from spotsieve.state.removal import ForgottenPage, removal_of
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.model import IndexSettings, PolicySettings, Rule, Settings
from spotsieve.stream.base.signature import Signatures, page_ids_of
from spotsieve.stream.base.verdict import Verdicts, concatenate
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import KEEP_FIRST, policy_of
from spotsieve.stream.sharding.bucket_prefetch import BucketPrefetch
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.confirmation import ShardConfirmations, apply_confirmations, confirm
from spotsieve.stream.sharding.hosts import (
    HostResolutions,
    check_speculation,
    first_speculation,
    merge_resolutions,
    resolve_hosts,
)
from spotsieve.stream.sharding.indexing import index_round
from spotsieve.stream.sharding.keys import ShardReads, lay_out_keys, read_round
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_RESOLUTIONS,
    ColumnReader,
    decode_body,
    decode_round_record,
    encode_round_record,
    range_of,
)
from spotsieve.stream.sharding.records.resolver import read_outcome, write_outcome
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_combined_checksum,
    read_confirmations,
    read_resolutions,
    write_candidates,
    write_confirmations,
    write_resolutions,
)
from spotsieve.stream.sharding.resolution import RoundOutcome, resolve
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import Round, limits_in_shards, next_round, round_between
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes import Scheme

DIGEST = bytes(16)
Told = TypeVar("Told")


class OneProcess:
    """The single-process judge, the log that it has judged, and its verdicts."""

    def __init__(
        self, scheme: Scheme, index: IndexSettings, longer_by: float = KEEP_FIRST, rules: tuple[Rule, ...] = ()
    ) -> None:
        """rules: the rules of the scheme"""
        # Limits that take effect in a small log are below those that settings allow.
        keep: Literal["first", "longest"] = "first" if longer_by == KEEP_FIRST else "longest"
        policy = PolicySettings.model_construct(keep=keep, longer_by=longer_by)
        self.scheme = scheme
        self.settings = Settings().model_copy(update={"index": index, "policy": policy, "rules": rules})
        self.state = memory_state()
        self.log: list[bytes] = []
        self.verdicts: list[Verdicts] = []
        self._engine = Engine(scheme, self.state, index, DIGEST, "log", policy_of(self.settings))
        self._keys: dict[PageId, tuple[int, ...]] = {}

    def sign(self, signatures: Signatures, committed: Sequence[CommitMark] = ()) -> None:
        """Append a record of pages and judge it."""
        probes = self.scheme.probe(signatures)
        for row, (source, partition, offset) in enumerate(
            zip(signatures.source.tolist(), signatures.partition.tolist(), signatures.offset.tolist(), strict=True)
        ):
            keys = probes.keys[probes.bounds[row] : probes.bounds[row + 1]]
            self._keys[signatures.sources[source], partition, offset] = tuple(keys.tolist())
        self.log.append(encode(signatures, bytes(16), len(self.log), DIGEST, committed))
        self.verdicts.append(self._engine.apply(self.log[-1], len(self.log) - 1).verdicts)

    def forget(self, dice: random.Random) -> None:
        """Append a record that forgets some pages, now and then with their hosts."""
        indexed = range(self.state.entry_count)
        numbers = dice.sample(indexed, min(len(indexed), dice.choice([1, 3])))
        page_ids = self.state.page_ids(np.array(numbers, np.uint64))
        forgotten = [
            ForgottenPage(number, *page_id, self._keys[page_id], dice.random() < 0.2)
            for number, page_id in zip(numbers, page_ids, strict=True)
            if page_id is not None
        ]
        if forgotten:
            self.log.append(encode_forget(forgotten, bytes(16), len(self.log), DIGEST))
            self._engine.apply(self.log[-1], len(self.log) - 1)


class Shards:
    """S shards that hold parts of one state, and the knowledge of a resolver. They read some buckets ahead.

    speculation: the first speculation of every round, or the same for all its pages, or a function that makes one for a
    number of pages; None: the one that is made of the responses
    resizes: before the round of this number the cluster gets that many shards, which have filled themselves
    """

    def __init__(
        self,
        one: OneProcess,
        shards: int,
        speculation: NDArray[np.bool_] | bool | Callable[[int], NDArray[np.bool_]] | None = None,
        resizes: Mapping[int, int] | None = None,
    ) -> None:
        self.scheme, self.limits = one.scheme, limits_in_shards(one.settings, one.scheme)
        self._be(shards)
        self._resizes = resizes or {}
        self._history: list[tuple[Round, RoundOutcome] | tuple[int, LogRecord]] = []
        self.step_ms = step_of(one.settings.index.horizon_hours)
        self.clock, self.entry_count, self.walks = self.states[0].clock, 0, 0
        self.rounds: list[tuple[Round, RoundOutcome]] = []
        self.sent_bytes: dict[int, int] = {}
        self._speculation = speculation
        self._heard = 0
        self._dice = random.Random(shards)

    def put(self, number: int, state: State) -> None:
        """Replace the state of this shard."""
        self.states[number], self._ahead[number] = state, BucketPrefetch(state)

    def apply(self, log: Sequence[bytes], sizes: Sequence[int], first: int = 0) -> Verdicts:
        """Judge and index a log, from a record on, in rounds of these sizes, and then of the last of them.

        Returns the verdicts of all rounds so far.
        """
        records = [(offset, decode(record)) for offset, record in enumerate(log)]
        remaining, at, page = list(sizes), first, 0
        while at < len(records):
            if records[at][1].forgotten:
                self._forget(*records[at])
                at, page = at + 1, 0
                continue
            end = next((row for row in range(at, len(records)) if records[row][1].forgotten), len(records))
            most = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            if len(self.rounds) in self._resizes:
                self._take_over(self._resizes[len(self.rounds)])
            round_ = next_round(records[at:end], page, self.clock, self.entry_count, self.step_ms, most)
            self.rounds.append((round_, self._judge(round_, records[at:end])))
            at, page = round_.end
        return concatenate([resolved.verdicts for _, resolved in self.rounds])

    def _be(self, shards: int) -> None:
        """Resize to this number of empty shards."""
        self.shares = [Share(number, shards) for number in range(shards)]
        self.states: list[State] = [memory_state() for _ in self.shares]
        self._ahead: list[BucketPrefetch] = [BucketPrefetch(state) for state in self.states]
        self._next_ahead = [0 for _ in self.shares]

    def _take_over(self, shards: int) -> None:
        """Let other shards take over: they index from the log and the outcomes, without judging."""
        self._be(shards)
        for one in self._history:
            if isinstance(one[0], Round):
                self._file(*one)
            else:
                self._remove(*one)

    def _forget(self, offset: int, record: LogRecord) -> None:
        self._history.append((offset, record))
        self._remove(offset, record)

    def _remove(self, offset: int, record: LogRecord) -> None:
        for state, ahead in zip(self.states, self._ahead, strict=True):
            removal = removal_of(record.forgotten, state, state.clock.floor, whole=False)
            state.remove(removal, offset + 1, record.checksum)
            ahead.drop()

    def _judge(self, round_: Round, records: Sequence[tuple[int, LogRecord]]) -> RoundOutcome:
        self._assert_cut_alike(round_, records)
        views = [living(ahead, round_.clock.floor) for ahead in self._ahead]
        each = [
            read_round(round_.signatures, self.scheme, view, share)
            for view, share in zip(views, self.shares, strict=True)
        ]
        shard_candidates = [
            self._sent_meetings(
                round_, share, find_shard_candidates(round_.signatures, held, self.scheme, view, self.limits, share)
            )
            for held, view, share in zip(each, views, self.shares, strict=True)
        ]
        if self.scheme.bars is None:
            laid = lay_out_keys(round_.signatures, self.scheme)
            resolved = resolve(round_, laid, self.scheme, self.limits, shard_candidates)
        else:
            resolved = self._walk(round_, each, views, shard_candidates)
        resolved = self._sent(round_, KIND_OUTCOME, Share(0, len(self.shares)), write_outcome(resolved), read_outcome)
        self._history.append((round_, resolved))
        self._read_ahead(records)
        self._file(round_, resolved, each)
        self.clock, self.entry_count = round_.clock, resolved.next_number
        return resolved

    def _read_ahead(self, records: Sequence[tuple[int, LogRecord]]) -> None:
        """Read buckets of some of the next records, before the open round is indexed."""
        for number, (ahead, share) in enumerate(zip(self._ahead, self.shares, strict=True)):
            for offset, record in records[: self._dice.randrange(4)]:
                if offset >= self._next_ahead[number]:
                    ahead.read(offset, record.signatures, self.scheme, share)
                    self._next_ahead[number] = offset + 1

    def _file(self, round_: Round, resolved: RoundOutcome, each: Sequence[ShardReads] | None = None) -> None:
        """Index a round. each: the buckets that the shards read for it; None: they have not responded"""
        for number, (state, share) in enumerate(zip(self.states, self.shares, strict=True)):
            view = living(self._ahead[number], round_.clock.floor)
            held = each[number] if each else None
            index_update = index_round(round_, resolved, held, self.scheme, view, self.limits, share)
            if index_update.places is not None:
                index_update = replace(
                    index_update, places=index_update.places._replace(heard=OutcomeRef(self._heard, 0))
                )
            state.file(index_update, round_.end.record, round_.last_record, round_.end.page, round_.clock)
            self._ahead[number].drop_before(round_.end.record)
            self._ahead[number].changed(index_update.keys)
        self._heard += 1

    def _assert_cut_alike(self, round_: Round, records: Sequence[tuple[int, LogRecord]]) -> None:
        """A shard that knows only where a round begins and ends has the same round."""
        end = round_.end.record + (round_.end.page > 0)
        own = [record for record in records if record[0] < end]
        told = round_between(own, round_.start, round_.end, round_.first_number, round_.clock)
        assert told is not None
        assert told._replace(signatures=round_.signatures) == round_
        assert page_ids_of(told.signatures) == page_ids_of(round_.signatures)

    def _walk(
        self,
        round_: Round,
        each: Sequence[ShardReads],
        views: Sequence[StateView],
        shard_candidates: Sequence[ShardCandidates],
    ) -> RoundOutcome:
        """Resolve under one speculation after the other, until none is wrong."""
        confirms = [
            self._sent_confirms(round_, share, confirm(round_.signatures, shard_candidates, self.scheme, view, share))
            for view, share in zip(views, self.shares, strict=True)
        ]
        shard_candidates = apply_confirmations(shard_candidates, confirms)
        speculation: NDArray[np.bool_] | None = first_speculation(round_, shard_candidates)
        if self._speculation is not None:
            pages = len(round_.signatures)
            speculation = (
                self._speculation(pages) if callable(self._speculation) else np.broadcast_to(self._speculation, pages)
            )
        while speculation is not None:
            self.walks, used = self.walks + 1, speculation
            walks = [
                self._sent_walks(
                    round_,
                    share,
                    resolve_hosts(round_, held, self.scheme, view, self.limits, shard_candidates, used),
                    used,
                )
                for held, view, share in zip(each, views, self.shares, strict=True)
            ]
            checked = check_speculation(round_, self.scheme, self.limits, shard_candidates, walks, used)
            speculation = checked.speculation
        return merge_resolutions(round_, self.scheme, shard_candidates, walks, checked)

    def _sent_meetings(self, round_: Round, share: Share, shard_candidates: ShardCandidates) -> ShardCandidates:
        body = write_candidates(shard_candidates, round_.first_number)
        return self._sent(round_, KIND_CANDIDATES, share, body, read_candidates)

    def _sent_confirms(self, round_: Round, share: Share, confirms: ShardConfirmations) -> ShardConfirmations:
        body = write_confirmations(confirms, len(self.rounds), round_.first_number)
        assert read_combined_checksum(body) == len(self.rounds)
        return self._sent(round_, KIND_CONFIRMATIONS, share, body, read_confirmations)

    def _sent_walks(
        self, round_: Round, share: Share, walks: HostResolutions, speculation: NDArray[np.bool_]
    ) -> HostResolutions:
        body = write_resolutions(walks, speculation, round_.first_number)
        read, under = self._sent(round_, KIND_RESOLUTIONS, share, body, read_resolutions)
        np.testing.assert_array_equal(under, speculation)
        return read

    def _sent(
        self, round_: Round, kind: int, share: Share, body: bytes, read: Callable[[ColumnReader, int], Told]
    ) -> Told:
        """The content of a record as other roles read it. sent_bytes counts the bytes by kind"""
        record = encode_round_record(kind, DIGEST, share, range_of(round_), body)
        self.sent_bytes[kind] = self.sent_bytes.get(kind, 0) + len(record)
        told = decode_round_record(record, DIGEST, len(self.shares), "topic", 0)
        assert told.range == range_of(round_)
        return decode_body(told, kind, lambda columns: read(columns, told.range.first_number), "topic", 0)


def living(state: StateView, floor: int) -> StateView:
    """The live entries of a state."""
    return LiveView(state, floor) if floor else state


def remembered(states: Sequence[State], family: str) -> dict[bytes, bytes]:
    """The content of a column family in all states, by key. No key is in two of them."""
    prefix, found = f"{family}/".encode(), dict[bytes, bytes]()
    for state in states:
        for name, value in state.items():
            if name.startswith(prefix):
                assert name not in found
                found[name] = value
    return found
