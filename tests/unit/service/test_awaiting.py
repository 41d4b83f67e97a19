"""A round waits for a shard until it has published what the resolver needs next, and then for the resolver."""

from collections.abc import Sequence

from spotsieve.stream.insight.shards.reading import TimedMessage
from spotsieve.stream.insight.shards.status import awaited_shards
from spotsieve.stream.sharding.candidates import Speculation, no_flags
from spotsieve.stream.sharding.messages import RoundMessage, combined_checksum
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    KIND_TOO_LARGE,
    RoundRange,
    RoundRecord,
)
from spotsieve.stream.sharding.records.resolver import PoisonRows, write_poison_rows, write_speculation
from spotsieve.stream.sharding.records.shard import write_confirmations, write_resolutions
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Share
from tests.fixtures.states.round_records import CONFIRMS, FIRST, GUESS, resolutions

OPEN = RoundRange(LogPlace(10, 0), LogPlace(12, 7), FIRST, 0, 0)
LARGER = OPEN._replace(end=LogPlace(14, 0))
RESOLVER = Share(0, 2)


def message(kind: int, share: Share, body: bytes = b"", checksum: int = 0, range_: RoundRange = OPEN) -> TimedMessage:
    return TimedMessage(RoundMessage(RoundRecord(kind, bytes(16), share, range_, body), "topic", 0, checksum), 0)


def met(number: int, checksum: int = 0, range_: RoundRange = OPEN, shards: int = 2) -> TimedMessage:
    return message(KIND_CANDIDATES, Share(number, shards), b"", checksum, range_)


def confirmed(number: int, *responses: TimedMessage, shards: int = 2) -> TimedMessage:
    word = combined_checksum([one.message for one in responses])
    return message(KIND_CONFIRMATIONS, Share(number, shards), write_confirmations(CONFIRMS, word, FIRST))


def resolution(number: int, speculation: Speculation = GUESS, range_: RoundRange = OPEN) -> TimedMessage:
    return message(KIND_RESOLUTIONS, Share(number, 2), write_resolutions(resolutions(), speculation, FIRST), 0, range_)


def broken(share: Share, *rows: int) -> TimedMessage:
    return message(
        KIND_POISON_ROWS, share, write_poison_rows(PoisonRows(len(GUESS.indexed), dict.fromkeys(rows, "Defect")))
    )


def speculated(speculation: Speculation) -> TimedMessage:
    return message(KIND_SPECULATION, RESOLVER, write_speculation(speculation))


NAMED = message(KIND_RANGE, RESOLVER)
MET = [met(0), met(1)]
CONFIRMED = [[MET[number], confirmed(number, *MET)] for number in range(2)]
WALKED = [[*CONFIRMED[number], resolution(number)] for number in range(2)]


def waits(verdicts: Sequence[TimedMessage], *matches: Sequence[TimedMessage], by_host: bool = True) -> list[int]:
    return awaited_shards([NAMED, *verdicts], dict(enumerate(matches)), OPEN, len(matches), by_host)


def test_each_stage_waits_for_the_shards_that_have_not_completed_it() -> None:
    assert waits([], [], [MET[1]]) == [0]
    assert waits([], MET[:1], MET[1:]) == [0, 1], "nobody has confirmed"
    assert waits([], MET[:1], MET[1:], by_host=False) == []
    assert waits([], MET[:1], CONFIRMED[1]) == [0]
    assert waits([], *CONFIRMED) == [0, 1], "all have confirmed, and none has walked"
    assert waits([], CONFIRMED[0], WALKED[1]) == [0]
    assert waits([], *WALKED) == []
    alone = met(0, shards=1)
    assert waits([], [alone]) == [0]
    assert waits([], [alone, confirmed(0, alone, shards=1)]) == [0], "the only shard hangs"


def test_confirmations_of_other_responses_do_not_count() -> None:
    again = met(1, checksum=5)
    assert waits([], CONFIRMED[0], [*CONFIRMED[1], again]) == [0, 1]
    assert waits([], [*CONFIRMED[0], confirmed(0, MET[0], again)], [*CONFIRMED[1], again]) == [1]
    assert waits([], MET[:1], [met(1, range_=LARGER)]) == [1], "that round was given up"
    assert waits([], MET[:1], [met(1, shards=3)]) == [1]
    assert waits([], CONFIRMED[0], [*CONFIRMED[1], resolution(1, range_=LARGER)]) == [0, 1]


def test_after_another_speculation_all_shards_resolve_again() -> None:
    other = GUESS._replace(indexed=~GUESS.indexed)
    assert waits([speculated(other)], *WALKED) == [0, 1]
    assert waits([speculated(other)], WALKED[0], [*WALKED[1], resolution(1, other)]) == [0]
    assert waits([speculated(other)], *[[*WALKED[number], resolution(number, other)] for number in range(2)]) == []
    assert waits([speculated(other), NAMED], *WALKED) == [], "named once more, it is walked under the first guess"


def test_after_other_template_text_all_shards_resolve_again() -> None:
    other = GUESS._replace(flags=no_flags())
    assert waits([speculated(other)], *WALKED) == [0, 1]
    assert waits([speculated(other)], *[[*WALKED[number], resolution(number, other)] for number in range(2)]) == []


def test_after_poison_pages_are_excluded_all_shards_resolve_again() -> None:
    one, found = Share(1, 2), broken(RESOLVER, 0)
    assert waits([], MET[:1], [broken(one, 0)]) == [], "the resolver is to spare the page"
    assert waits([found], MET[:1], [broken(one, 0)]) == [1]
    assert waits([found], MET[:1], [broken(one, 0), broken(one, 0, 1)]) == []
    assert waits([found], *WALKED) == [], "the resolver is to tell the guess"
    assert waits([found, speculated(GUESS)], *WALKED) == [0, 1], "they have found something of a page that is spared"
    rest = broken(RESOLVER, 1)
    assert waits([rest, speculated(GUESS)], *WALKED) == []
    assert waits([speculated(GUESS), rest], *WALKED) == [], "that guess was before"


def test_a_response_that_is_too_large_waits_for_the_resolver() -> None:
    assert waits([], [], [message(KIND_TOO_LARGE, Share(1, 2))]) == []
