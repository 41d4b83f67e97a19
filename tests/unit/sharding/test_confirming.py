"""The shard that an entry's number names holds the entry for all others, and says what candidates could be."""

import numpy as np
import pytest

from spotsieve.state.format.entries import head_of_entry
from spotsieve.state.horizon import Clock
from spotsieve.state.index import NOBODY, PendingVerdict
from spotsieve.state.log.record import decode
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.judge.policy import KEEP_FIRST
from spotsieve.stream.sharding.candidates import OF_HOST, OPEN, REFUSED, ShardCandidates
from spotsieve.stream.sharding.confirmation import ShardConfirmations, apply_confirmations, confirm
from spotsieve.stream.sharding.keys import read_round
from spotsieve.stream.sharding.messages import RoundMessage, ShardResponses, combined_checksum
from spotsieve.stream.sharding.records.frame import KIND_CANDIDATES, KIND_CONFIRMATIONS, RoundRecord
from spotsieve.stream.sharding.records.shard import write_confirmations
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import next_round
from spotsieve.stream.sharding.shares import Share, shards_of
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_case
from tests.fixtures.states.round_records import ENTRIES, RANGE, SETTINGS
from tests.fixtures.states.shards import OneProcess, Shards

SHARDS = 3


def judged(seed: int) -> tuple[OneProcess, Shards]:
    """One process and shards over the same log of pages of many hosts."""
    dice, pages, _ = any_case(seed)
    one = OneProcess(SCHEME, IndexSettings(), KEEP_FIRST)
    for record in Log(dice, [(page, number) for number, (page, _) in enumerate(pages)]).records:
        one.sign(signatures_of(record.pages), record.committed)
    cluster = Shards(one, SHARDS)
    cluster.apply(one.log, [30])
    return one, cluster


def entries_of(state: State) -> dict[int, bytes]:
    prefix = b"entries/"
    return {int.from_bytes(key[len(prefix) :], "big"): value for key, value in state.items() if key.startswith(prefix)}


@pytest.mark.parametrize("seed", [8101, 8105, 8110])
def test_an_entry_is_held_by_the_shard_of_its_number_and_that_of_its_host(seed: int) -> None:
    one, cluster = judged(seed)
    every, by_shard = entries_of(one.state), [entries_of(state) for state in cluster.states]
    for number, value in every.items():
        host = head_of_entry(b"", value).host
        wanted = {number % SHARDS, int(shards_of(np.array([host], np.uint64), SHARDS)[0])}
        holders = {shard for shard, entries in enumerate(by_shard) if number in entries}
        # A page that is remembered for what it replaced is stored once more; none is replaced here.
        assert holders == wanted
        # Each state numbers its sources by itself: bytes 2 and 3.
        assert {entries[number][4:] for entries in by_shard if number in entries} == {value[4:]}
    assert sum(map(len, by_shard)) < 2 * len(every)


@pytest.mark.parametrize("seed", [8101, 8105, 8110])
def test_shards_say_of_pairs_what_one_that_holds_all_entries_says(seed: int) -> None:
    one, cluster = judged(seed)
    limits, seen = cluster.limits, set[int]()
    for record in one.log[-3:]:
        # Pages that have been judged come again, and meet themselves and others.
        round_ = next_round([(0, decode(record))], 0, Clock(), one.state.entry_count, 0, 10**6)
        signatures, whole = round_.signatures, Share(0, 1)
        parts = [
            (read_round(signatures, SCHEME, state, share), state, share)
            for state, share in zip(cluster.states, cluster.shares, strict=True)
        ]
        shard_candidates = [
            find_shard_candidates(signatures, shard_reads, SCHEME, state, limits, share)
            for shard_reads, state, share in parts
        ]
        reads = read_round(signatures, SCHEME, one.state, whole)
        by_all = confirm(round_, reads, shard_candidates, SCHEME, one.state, whole)
        confirms = [
            confirm(round_, shard_reads, shard_candidates, SCHEME, state, share) for shard_reads, state, share in parts
        ]
        for shard, confirmed in enumerate(confirms):
            assert set((confirmed.numbers % SHARDS).tolist()) <= {shard}
            assert dict(confirmed.entries).items() <= dict(by_all.entries).items()
        found = apply_confirmations(shard_candidates, confirms)
        results = np.concatenate([met.result for met in found])
        np.testing.assert_array_equal(results, by_all.result)
        assert sorted(np.concatenate([met.numbers for met in found]).tolist()) == by_all.numbers.tolist()
        seen |= set(results.tolist())
    assert seen >= {REFUSED, OF_HOST}


def shard_candidates_of(numbers: list[int], pending_verdicts: dict[int, PendingVerdict]) -> ShardCandidates:
    """What one page meets: candidates of these numbers."""
    one, cluster = judged(8101)
    signatures = decode(one.log[0]).signatures
    shard_reads = read_round(signatures, SCHEME, cluster.states[0], cluster.shares[0])
    some = find_shard_candidates(signatures, shard_reads, SCHEME, cluster.states[0], cluster.limits, cluster.shares[0])
    return some._replace(number=np.array(numbers, np.int64), pending_verdicts=pending_verdicts)


def confirms_of(results: list[int], numbers: list[int]) -> ShardConfirmations:
    entries = dict.fromkeys(numbers, ENTRIES[3])
    return ShardConfirmations(np.array(results, np.uint8), np.array(numbers, np.int64), entries, None)


def test_what_is_said_of_other_answers_is_refused() -> None:
    shard_candidates = [shard_candidates_of([4, 5], {}), shard_candidates_of([6, 7], {})]
    found = apply_confirmations(shard_candidates, [confirms_of([OPEN, REFUSED], []), confirms_of([OF_HOST, OPEN], [])])
    assert [met.result.tolist() for met in found] == [[OPEN, OF_HOST], [REFUSED, OPEN]]
    for results in ([OPEN], [OPEN, OPEN, OPEN]):
        with pytest.raises(ValueError, match="confirmations must be about"):
            apply_confirmations(shard_candidates, [confirms_of(results, []), confirms_of([OF_HOST, OPEN], [])])


def test_a_remembered_verdict_whose_original_is_gone_counts_for_nothing() -> None:
    remembered = {
        1: PendingVerdict(3, 0.5, Reason.NEAR, 0),
        2: PendingVerdict(NOBODY, np.nan, Reason.NO_MATCH, 0),
        3: PendingVerdict(4, 0.5, Reason.NEAR, 0),
    }
    shard_candidates = [shard_candidates_of([], remembered), shard_candidates_of([], {})]
    found = apply_confirmations(shard_candidates, [confirms_of([], []), confirms_of([], [3])])
    assert found[0].pending_verdicts == {page: remembered[page] for page in (1, 2)}


def message(kind: int, shard: int, checksum: int, body: bytes = b"") -> RoundMessage:
    return RoundMessage(RoundRecord(kind, SETTINGS, Share(shard, 2), RANGE, body), "matches", 0, checksum)


def test_what_is_said_counts_for_the_very_answers_that_were_heard() -> None:
    """Two processes of one shard, or one that isolates a page, may respond differently than before."""

    def confirmed(shard: int, of: list[RoundMessage]) -> RoundMessage:
        body = write_confirmations(confirms_of([], []), combined_checksum(of), RANGE.first_number)
        return message(KIND_CONFIRMATIONS, shard, 0, body)

    responses, first = ShardResponses(2), [message(KIND_CANDIDATES, shard, 7 + shard) for shard in range(2)]
    responses.add(first[0])
    assert responses.confirmed(RANGE) is None
    assert responses.missing(RANGE, confirmations=True) == [1]
    responses.add(first[1])
    assert responses.missing(RANGE, confirmations=True) == [0, 1]
    for shard in range(2):
        responses.add(confirmed(shard, first))
    assert responses.confirmed(RANGE) is not None
    assert responses.missing(RANGE, confirmations=True) == []
    other = message(KIND_CANDIDATES, 1, 9)
    responses.add(other)
    assert responses.confirmed(RANGE) is None, "that confirms another response"
    assert responses.missing(RANGE, confirmations=True) == [0, 1]
    responses.add(confirmed(1, [first[0], other]))
    assert responses.missing(RANGE, confirmations=True) == [0]
    responses.add(confirmed(0, [first[0], other]))
    assert [one.record.share.number for one in responses.confirmed(RANGE) or ()] == [0, 1]
