"""What shards and the resolver tell each other is read back as it was written, and nothing else is taken for it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from spotsieve.state.index import NOBODY, Attempt
from spotsieve.stream.cluster.hosts import Walks
from spotsieve.stream.cluster.meetings import ACCEPTED, OF_HOST, OPEN, REFUSED, Meetings, SentTexts, Sizes
from spotsieve.stream.cluster.records.columns import ColumnReader
from spotsieve.stream.cluster.records.frame import (
    FRAME_BYTES,
    KIND_MEETINGS,
    KIND_OUTCOME,
    KIND_RANGE,
    KIND_WALKS,
    Range,
    Told,
    decode_body,
    decode_told,
    encode_told,
    of_all_shards,
)
from spotsieve.stream.cluster.records.meetings import read_meetings, write_meetings
from spotsieve.stream.cluster.records.outcome import read_outcome, write_outcome
from spotsieve.stream.cluster.records.walks import read_walks, write_walks
from spotsieve.stream.cluster.resolving import Resolved
from spotsieve.stream.cluster.rounds import Place
from spotsieve.stream.cluster.shares import Share
from spotsieve.stream.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.judge.rules import nothing_found
from spotsieve.stream.signature import Entry, OwnText
from spotsieve.stream.verdict import FoundBy, Kind, Reason, Verdicts

FIRST = 1000
SETTINGS, SHARE = bytes(range(16)), Share(1, 3)
RANGE = Range(Place(7, 2), Place(9, 0), FIRST, 10, -5)
ENTRIES = {
    3: Entry("pages", 0, 12, 1_700_000_000_000, "http://one.example/ä", ""),
    998: Entry("other", -1, 2**40, -1, "http://two.example/\udcff", "label"),
}
TEXTS = SentTexts(
    np.array([2**63, 5], np.uint64),
    np.array([300, 0], np.uint32),
    np.array([[1, 2**64 - 1], [0, 0]], np.uint64),
    OwnText(
        np.array([7, 65_535], np.uint16),
        np.zeros(2, np.uint8),
        np.zeros(2, np.uint16),
        np.empty(0, np.uint32),
        np.zeros(3, np.int64),
        np.array([4, 9], np.uint16),
        np.array([0, 2, 2]),
    ),
)
MEETINGS = Meetings(
    np.array([4, 0, 300]),
    np.array([0, 3, 3, 5]),
    np.array([3, 40, 998, 998, 999]),
    np.array([0, 0, FoundBy.BODY, 0, 0], np.uint8),
    np.array([FoundBy.MINIMA, FoundBy.MINIMA, FoundBy.BODY | FoundBy.MINIMA, FoundBy.TABLES, FoundBy.PRINTS], np.uint8),
    np.array([255, 255, 3, 255, 255], np.uint8),
    np.array([ACCEPTED, REFUSED, REFUSED, OPEN, OF_HOST], np.uint8),
    np.array([0.75, np.nan, np.nan, np.nan, np.nan]),
    np.array([10, 20, 0, 70_000, 0]),
    Sizes(np.array([1, 2**64 - 1], np.uint64), np.array([256, 4])),
    np.array(list(ENTRIES)),
    ENTRIES,
    TEXTS,
    {1: Attempt(3, 0.5, Reason.NEAR, FoundBy.MINIMA), 2: Attempt(NOBODY, np.nan, Reason.NO_MATCH, 0)},
)
RESOLVED = Resolved(
    Verdicts(
        np.array([Kind.DUPLICATE, Kind.NOVEL, Kind.UNCHECKED], np.uint8),
        np.array([Reason.OWN_TEXT, Reason.LONGER, Reason.EMPTY], np.uint8),
        np.array([0.25, np.nan, np.nan]),
        (ENTRIES[3], None, None),
        np.array([9, 300, 0]),
        np.array([FoundBy.TITLE, 0, 0], np.uint8),
        np.array([True, False, False]),
        (None, ENTRIES[998], None),
    ),
    np.array([NOBODY, FIRST, NOBODY]),
    FIRST + 1,
    np.array([3, NOBODY, NOBODY]),
    np.array([NOBODY, 998, NOBODY]),
    np.array([2, 1, 0], np.uint8),
    np.array([True, True, False]),
)


def walks() -> Walks:
    """Of pages 0 and 2: one is a copy of a filed page, one of an earlier page of the round."""
    filed, within = nothing_found(2), nothing_found(2)
    filed.number[0], filed.score[0], filed.reason[0], filed.found_by[0] = 3, 0.5, Reason.OWN_TEXT, FoundBy.TITLE
    filed.replaced[1] = 998
    within.number[1], within.proof[1], within.found_by[1], within.cut[1] = 0, FoundBy.BODY, FoundBy.BODY, True
    return Walks(
        np.array([0, 2]),
        filed,
        within,
        np.array([False, False]),
        np.array([2, 0], np.uint8),
        np.array([True, False]),
        np.array([5, 6]),
        {3: ENTRIES[3]},
    )


GUESS = np.array([True, False, True])


class Kept(NamedTuple):
    """A kind of record. write: the body again, of what was read"""

    kind: int
    body: bytes
    read: Callable[[ColumnReader], Any]
    write: Callable[[Any], bytes]


def kept() -> dict[str, Kept]:
    """One record of each kind that has a body."""
    return {
        "meetings": Kept(
            KIND_MEETINGS,
            write_meetings(MEETINGS, FIRST),
            lambda columns: read_meetings(columns, FIRST),
            lambda read: write_meetings(read, FIRST),
        ),
        "walks": Kept(
            KIND_WALKS,
            write_walks(walks(), GUESS, FIRST),
            lambda columns: read_walks(columns, FIRST),
            lambda read: write_walks(read[0], read[1], FIRST),
        ),
        "outcome": Kept(
            KIND_OUTCOME, write_outcome(RESOLVED), lambda columns: read_outcome(columns, FIRST), write_outcome
        ),
    }


kinds = pytest.mark.parametrize("name", ["meetings", "walks", "outcome"])


def read_record(record: bytes, of: Kept) -> Any:
    """What a reader makes of a record."""
    told = decode_told(record, SETTINGS, SHARE.shards, "matches", 5)
    assert (told.share, told.range) == (SHARE, RANGE)
    return decode_body(told, of.kind, of.read, "matches", 5)


@kinds
def test_a_record_is_read_as_it_was_written(name: str) -> None:
    of = kept()[name]
    found = read_record(encode_told(of.kind, SETTINGS, SHARE, RANGE, of.body), of)
    assert of.write(found) == of.body


def test_columns_come_back_with_their_values() -> None:
    found = read_meetings(ColumnReader(write_meetings(MEETINGS, FIRST)), FIRST)
    for name in ("postings", "bounds", "number", "proof", "kinds", "distance", "said", "score", "length", "numbers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(MEETINGS, name), name)
    assert dict(found.entries) == MEETINGS.entries
    assert list(found.attempts) == list(MEETINGS.attempts)
    outcome = read_outcome(ColumnReader(write_outcome(RESOLVED)), FIRST)
    assert outcome.verdicts.originals == RESOLVED.verdicts.originals
    assert outcome.verdicts.replaces == RESOLVED.verdicts.replaces
    assert outcome.next_number == RESOLVED.next_number


def test_a_range_needs_no_body() -> None:
    record = encode_told(KIND_RANGE, SETTINGS, Share(0, 3), RANGE)
    assert len(record) == FRAME_BYTES
    assert decode_told(record, SETTINGS, 3, "verdicts", 0).range == RANGE


def test_a_round_needs_an_answer_of_every_shard_and_takes_one_of_each() -> None:
    told = [Told(KIND_WALKS, SETTINGS, Share(number, 3), RANGE, b"") for number in (2, 0, 1, 0)]
    assert [one.share.number for one in of_all_shards(told, KIND_WALKS, RANGE, "matches")] == [0, 1, 2]
    with pytest.raises(StateError, match=r"matches, the round from 7:2 must be answered by all .* got 'none by \[2\]'"):
        of_all_shards(told[1:], KIND_WALKS, RANGE, "matches")
    for other in (RANGE._replace(end=Place(9, 1)), RANGE._replace(floor=11)):
        with pytest.raises(StateError, match="none by"):
            of_all_shards([told[0]._replace(range=other), *told[1:]], KIND_WALKS, RANGE, "matches")
    with pytest.raises(StateError, match=r"shards of \[3, 4\]|none by"):
        of_all_shards([*told, told[0]._replace(share=Share(3, 4))], KIND_WALKS, RANGE, "matches")


@kinds
def test_a_record_that_is_cut_or_has_a_flipped_bit_is_refused(name: str) -> None:
    of = kept()[name]
    record = encode_told(of.kind, SETTINGS, SHARE, RANGE, of.body)
    for end in range(len(record)):
        with pytest.raises(DamagedRecord, match=r"matches\[5\]"):
            read_record(record[:end], of)
    for bit in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord):
            read_record(bytes(flipped), of)


@kinds
def test_a_body_whose_columns_are_not_what_it_declares_is_refused(name: str) -> None:
    """Behind a right checksum: only a defect writes such a body."""
    of = kept()[name]
    for end in range(len(of.body)):
        with pytest.raises(DamagedRecord, match="must hold the columns"):
            read_record(encode_told(of.kind, SETTINGS, SHARE, RANGE, of.body[:end]), of)
    with pytest.raises(DamagedRecord, match="must hold the columns"):
        read_record(encode_told(of.kind, SETTINGS, SHARE, RANGE, of.body + b"\0"), of)
    for byte in range(len(of.body)):
        changed = bytearray(of.body)
        changed[byte] ^= 0xFF
        try:
            read_record(encode_told(of.kind, SETTINGS, SHARE, RANGE, bytes(changed)), of)
        except DamagedRecord:
            continue


def test_records_of_others_are_refused_with_what_to_do() -> None:
    of = kept()["outcome"]
    record = encode_told(of.kind, SETTINGS, SHARE, RANGE, of.body)
    with pytest.raises(SettingsMismatch, match="start all roles with the same settings"):
        decode_told(record, bytes(16), SHARE.shards, "verdicts", 1)
    with pytest.raises(StateError, match="must be of one of 4 shards, got '1 of 3'; start all roles with the same"):
        decode_told(record, SETTINGS, 4, "verdicts", 1)
    with pytest.raises(StateError, match="kind 9'; let all roles run the same release"):
        decode_told(encode_told(9, SETTINGS, SHARE, RANGE), SETTINGS, SHARE.shards, "verdicts", 1)
    with pytest.raises(DamagedRecord, match="must be a record of walks"):
        read_record(record, of._replace(kind=KIND_WALKS))
    backwards = RANGE._replace(end=Place(7, 1))
    with pytest.raises(DamagedRecord, match="must have a range that does not end before it starts"):
        decode_told(encode_told(KIND_RANGE, SETTINGS, SHARE, backwards), SETTINGS, 3, "verdicts", 1)
