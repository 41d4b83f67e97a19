"""`spotsieve shards status` names who holds a round up, and how far shards are that fill themselves."""

from collections.abc import Mapping, Sequence

from spotsieve.stream.insight.shards.reading import ServiceMembers, TimedMessage, TopicEnds
from spotsieve.stream.insight.shards.status import ServiceStatus, status_lines, status_of
from spotsieve.stream.service.roles.responses import combined_checksum
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_FILL_PROGRESS,
    KIND_OUTCOME,
    KIND_RANGE,
    KIND_RESIZE,
    RoundRange,
    RoundRecord,
)
from spotsieve.stream.sharding.records.resolver import (
    RoundAnnouncement,
    write_announcement,
    write_fill_progress,
    write_resize,
)
from spotsieve.stream.sharding.records.shard import write_confirmations
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Resize, ResizeEvent, Share
from tests.conftest import REPOSITORY
from tests.worlds.states.round_records import CONFIRMS

FIRST = RoundRange(LogPlace(0, 0), LogPlace(10, 0), 0, 0, 0)
SECOND = RoundRange(LogPlace(10, 0), LogPlace(12, 7), 500, 0, 0)
TWO, NOW = Share(0, 2), 100_000
MEMBERS = ServiceMembers(2, 2, 431)


def said(kind: int, share: Share, range_: RoundRange, time_ms: int, body: bytes = b"") -> TimedMessage:
    return TimedMessage(RoundMessage(RoundRecord(kind, bytes(16), share, range_, body), "topic", 0, 0), time_ms)


def named(range_: RoundRange, time_ms: int, share: Share = TWO) -> TimedMessage:
    body = write_announcement(
        RoundAnnouncement(1, (), (0, 0), ((range_.start.record, 300), (range_.start.record + 1, 7)))
    )
    return said(KIND_RANGE, share, range_, time_ms, body)


VERDICTS = [named(FIRST, 1_000), said(KIND_OUTCOME, TWO, FIRST, 1_300), named(SECOND, 90_000)]


def status(
    matches: Mapping[int, Sequence[TimedMessage]], verdicts: Sequence[TimedMessage] = VERDICTS, log_end: int = 20
) -> ServiceStatus:
    return status_of(TopicEnds(log_end, verdicts, matches, MEMBERS, True), NOW)


def answers(number: int, first_ms: int, *more: TimedMessage) -> list[TimedMessage]:
    return [said(KIND_CANDIDATES, Share(number, 2), FIRST, first_ms), *more]


def test_a_shard_that_has_not_answered_is_named() -> None:
    second = said(KIND_CANDIDATES, Share(0, 2), SECOND, 90_020)
    found = status({0: answers(0, 1_010, second), 1: answers(1, 1_200)})
    assert found.waits_for == "shard 1"
    assert [one.rounds_behind for one in found.answering] == [0, 1]
    assert [one.answer_ms for one in found.answering] == [15, 200]
    assert (found.record, found.records_behind) == (10, 10)
    assert status({0: answers(0, 1_010)}).waits_for == "shards 0, 1"
    shown = [
        "shards     2",
        "round      records 10:0 to 12:7 of the log, 307 pages, open for 10.0 s; 500 entries before it",
        "outcomes   up to record 10 of the log, 10 records behind its end; the last 98.7 s ago",
        "shard 0    has answered the newest round: up to record 12, 15 ms after a round is named",
        "shard 1    1 round(s) behind: up to record 10, 200 ms after a round is named",
        "workers    2 running, 431 messages of the input are not committed",
        "resolver   1 works, 1 stand(s) by",
        "waits for  shard 1",
    ]
    assert status_lines(found) == shown
    page = (REPOSITORY / "docs" / "scale.md").read_text("utf-8")
    assert "".join(f"    {line}\n" for line in shown) in page


def test_shards_that_have_just_taken_over_answer_the_next_round() -> None:
    switched = said(KIND_RESIZE, Share(0, 1), SECOND, 90_000, write_resize(Resize(ResizeEvent.SWITCHED, 1, 1)))
    over = [*VERDICTS, said(KIND_OUTCOME, TWO, SECOND, 91_000), switched]
    found = status({0: answers(0, 1_010)}, over)
    assert (found.shards, found.waits_for) == (1, "")
    assert [one.rounds_behind for one in found.answering] == [0]
    assert "shard 0    answers the next round" in status_lines(found)


def test_shards_that_have_answered_are_waited_for_until_they_have_confirmed() -> None:
    both = {
        number: answers(number, 1_010, said(KIND_CANDIDATES, Share(number, 2), SECOND, 90_020)) for number in (0, 1)
    }
    found = status(both)
    assert (found.waits_for, [one.rounds_behind for one in found.answering]) == ("shards 0, 1", [0, 0])
    word = combined_checksum([said_of[-1].heard for said_of in both.values()])
    both[0].append(said(KIND_CONFIRMATIONS, Share(0, 2), SECOND, 90_025, write_confirmations(CONFIRMS, word, 1_000)))
    assert status(both).waits_for == "shard 1", "it has not said what it knows of entries"


def test_an_answer_to_a_larger_round_that_was_given_up_is_none_to_the_newest() -> None:
    larger = SECOND._replace(end=LogPlace(16, 0))
    verdicts = [*VERDICTS[:2], named(larger, 80_000), named(SECOND, 90_000)]
    first = said(KIND_CANDIDATES, Share(0, 2), larger, 80_020)
    second = said(KIND_CANDIDATES, Share(1, 2), SECOND, 90_020)
    found = status({0: answers(0, 1_010, first), 1: answers(1, 1_010, second)}, verdicts)
    assert (found.waits_for, [one.rounds_behind for one in found.answering]) == ("shard 0", [1, 0])
    assert [one.answered for one in found.answering] == [FIRST.end, SECOND.end]


def test_a_round_that_is_over_and_a_service_without_one_wait_for_nobody() -> None:
    over = status({}, [*VERDICTS, said(KIND_OUTCOME, TWO, SECOND, 91_000)], log_end=12)
    assert (over.waits_for, over.record, over.records_behind, over.outcome_seconds) == ("", 12, 0, 9.0)
    none = status({}, [], log_end=3)
    assert (none.shards, none.round, none.records_behind) == (0, None, 3)
    assert status_lines(none)[0] == "shards     no round was named yet"
    assert none.as_json()["round"] is None


def test_pages_that_no_resolver_takes_and_a_log_made_anew_are_told() -> None:
    alone, over = ServiceMembers(2, 0, 431), [*VERDICTS, said(KIND_OUTCOME, TWO, SECOND, 91_000)]
    for log_end, verdicts, waits_for in (
        (20, over, "a resolver: none runs"),
        (12, over, ""),
        (12, VERDICTS, "a resolver: none runs"),
    ):
        assert status_of(TopicEnds(log_end, verdicts, {}, alone, True), NOW).waits_for == waits_for
    assert status_lines(status({}, over, log_end=2))[2] == (
        "outcomes   up to record 12 of the log, which ends at 2: it was made anew; the last 9.0 s ago"
    )


def test_asks_of_a_topic_that_was_made_anew_are_heard() -> None:
    cluster_size = ClusterSize(2, 0, 50)
    assert cluster_size.over(50).answer(3, 4) is None
    assert cluster_size.over(5).answer(3, 4) == Resize(ResizeEvent.ASKED, 3, 5)


def test_shards_that_fill_themselves_show_how_fast_and_how_long() -> None:
    def filled(number: int, record: int, time_ms: int, is_ready: bool = False) -> TimedMessage:
        place = LogPlace(record, 0)
        body = write_fill_progress(FillProgress(is_ready, 0))
        return said(KIND_FILL_PROGRESS, Share(number, 3), RoundRange(place, place, 0, 0, 0), time_ms, body)

    asked = said(KIND_RESIZE, TWO, SECOND, 90_000, write_resize(Resize(ResizeEvent.ASKED, 3, 1)))
    matches = {
        0: [filled(0, 12, 98_000), *answers(0, 1_010), filled(0, 12, 99_000, True)],
        1: [filled(1, 2, 97_000), filled(1, 10, 99_000)],
        2: [filled(2, 2, 1_000)],
    }
    found = status(matches, [*VERDICTS, asked])
    assert (found.shards, found.asked, len(found.answering)) == (2, 3, 2)
    assert status_lines(found)[0] == "shards       2; a resize to 3 is under way, 1 of 3 new ones are ready"
    assert status_lines(found)[-3:] == [
        "new shard 0  ready: record 12 of 20",
        "new shard 1  fills itself: record 10 of 20, 4.0 records/s, about 2 s left",
        "new shard 2  has said nothing of late: start it",
    ]
