"""A round waits for a shard until it has said what the resolver needs next, and then for the resolver."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.service.cluster.awaiting import awaited
from spotsieve.stream.service.cluster.reading import Said
from spotsieve.stream.service.roles.answers import word_of
from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.sharding.records.broken import BrokenRows, write_broken
from spotsieve.stream.sharding.records.confirms import write_confirms
from spotsieve.stream.sharding.records.frame import (
    KIND_BROKEN,
    KIND_CONFIRMS,
    KIND_GUESS,
    KIND_MEETINGS,
    KIND_RANGE,
    KIND_TOO_LARGE,
    KIND_WALKS,
    Range,
    Told,
)
from spotsieve.stream.sharding.records.range import write_guess
from spotsieve.stream.sharding.records.walks import write_walks
from spotsieve.stream.sharding.rounds import Place
from spotsieve.stream.sharding.shares import Share
from tests.worlds.states.round_records import CONFIRMS, FIRST, GUESS, walks

OPEN = Range(Place(10, 0), Place(12, 7), FIRST, 0, 0)
LARGER = OPEN._replace(end=Place(14, 0))
RESOLVER = Share(0, 2)


def said(kind: int, share: Share, body: bytes = b"", checksum: int = 0, range_: Range = OPEN) -> Said:
    return Said(Heard(Told(kind, bytes(16), share, range_, body), "topic", 0, checksum), 0)


def met(number: int, checksum: int = 0, range_: Range = OPEN, shards: int = 2) -> Said:
    return said(KIND_MEETINGS, Share(number, shards), b"", checksum, range_)


def confirmed(number: int, *answers: Said, shards: int = 2) -> Said:
    word = word_of([one.heard for one in answers])
    return said(KIND_CONFIRMS, Share(number, shards), write_confirms(CONFIRMS, word, FIRST))


def walked(number: int, guess: NDArray[np.bool_] = GUESS, range_: Range = OPEN) -> Said:
    return said(KIND_WALKS, Share(number, 2), write_walks(walks(), guess, FIRST), 0, range_)


def broken(share: Share, *rows: int) -> Said:
    return said(KIND_BROKEN, share, write_broken(BrokenRows(len(GUESS), dict.fromkeys(rows, "Defect"))))


def guessed(guess: NDArray[np.bool_]) -> Said:
    return said(KIND_GUESS, RESOLVER, write_guess(guess))


NAMED = said(KIND_RANGE, RESOLVER)
MET = [met(0), met(1)]
CONFIRMED = [[MET[number], confirmed(number, *MET)] for number in range(2)]
WALKED = [[*CONFIRMED[number], walked(number)] for number in range(2)]


def waits(verdicts: Sequence[Said], *matches: Sequence[Said], walks: bool = True) -> list[int]:
    return awaited([NAMED, *verdicts], dict(enumerate(matches)), OPEN, len(matches), walks)


def test_each_stage_waits_for_those_who_have_not_come_through_it() -> None:
    assert waits([], [], [MET[1]]) == [0]
    assert waits([], MET[:1], MET[1:]) == [0, 1], "nobody has confirmed"
    assert waits([], MET[:1], MET[1:], walks=False) == []
    assert waits([], MET[:1], CONFIRMED[1]) == [0]
    assert waits([], *CONFIRMED) == [0, 1], "all have confirmed, and none has walked"
    assert waits([], CONFIRMED[0], WALKED[1]) == [0]
    assert waits([], *WALKED) == []
    alone = met(0, shards=1)
    assert waits([], [alone]) == [0]
    assert waits([], [alone, confirmed(0, alone, shards=1)]) == [0], "the only shard hangs"


def test_what_was_said_of_other_answers_counts_for_nothing() -> None:
    again = met(1, checksum=5)
    assert waits([], CONFIRMED[0], [*CONFIRMED[1], again]) == [0, 1]
    assert waits([], [*CONFIRMED[0], confirmed(0, MET[0], again)], [*CONFIRMED[1], again]) == [1]
    assert waits([], MET[:1], [met(1, range_=LARGER)]) == [1], "that round was given up"
    assert waits([], MET[:1], [met(1, shards=3)]) == [1]
    assert waits([], CONFIRMED[0], [*CONFIRMED[1], walked(1, range_=LARGER)]) == [0, 1]


def test_after_another_guess_all_shards_walk_once_more() -> None:
    other = ~GUESS
    assert waits([guessed(other)], *WALKED) == [0, 1]
    assert waits([guessed(other)], WALKED[0], [*WALKED[1], walked(1, other)]) == [0]
    assert waits([guessed(other)], *[[*WALKED[number], walked(number, other)] for number in range(2)]) == []
    assert waits([guessed(other), NAMED], *WALKED) == [], "named once more, it is walked under the first guess"


def test_without_pages_that_break_all_shards_walk_once_more() -> None:
    one, found = Share(1, 2), broken(RESOLVER, 0)
    assert waits([], MET[:1], [broken(one, 0)]) == [], "the resolver is to spare the page"
    assert waits([found], MET[:1], [broken(one, 0)]) == [1]
    assert waits([found], MET[:1], [broken(one, 0), broken(one, 0, 1)]) == []
    assert waits([found], *WALKED) == [], "the resolver is to tell the guess"
    assert waits([found, guessed(GUESS)], *WALKED) == [0, 1], "they have found something of a page that is spared"
    rest = broken(RESOLVER, 1)
    assert waits([rest, guessed(GUESS)], *WALKED) == []
    assert waits([guessed(GUESS), rest], *WALKED) == [], "that guess was before"


def test_an_answer_that_is_too_large_waits_for_the_resolver() -> None:
    assert waits([], [], [said(KIND_TOO_LARGE, Share(1, 2))]) == []
