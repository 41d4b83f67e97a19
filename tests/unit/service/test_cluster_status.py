"""`spotsieve shards status` names who holds a round up, and how far shards are that fill themselves."""

from collections.abc import Mapping, Sequence

from spotsieve.state.horizon import NO_TIME
from spotsieve.stream.insight.shards.reading import ServiceMembers, TimedMessage, TopicEnds
from spotsieve.stream.insight.shards.status import ServiceStatus, status_lines, status_of
from spotsieve.stream.sharding.messages import RoundMessage, combined_checksum
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
    AnnouncedRecord,
    RoundAnnouncement,
    write_announcement,
    write_fill_progress,
    write_resize,
)
from spotsieve.stream.sharding.records.shard import write_confirmations
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Resize, ResizeEvent, Share
from tests.conftest import REPOSITORY
from tests.fixtures.states.round_records import CONFIRMS

FIRST = RoundRange(LogPlace(0, 0), LogPlace(10, 0), 0, 0, NO_TIME)
SECOND = RoundRange(LogPlace(10, 0), LogPlace(12, 7), 500, 0, NO_TIME)
TWO, NOW = Share(0, 2), 100_000
MEMBERS = ServiceMembers(2, 2, 431)


def message(
    kind: int, share: Share, range_: RoundRange, time_ms: int, body: bytes = b"", offset: int = 0
) -> TimedMessage:
    return TimedMessage(RoundMessage(RoundRecord(kind, bytes(16), share, range_, body), "topic", offset, 0), time_ms)


def named(range_: RoundRange, time_ms: int, share: Share = TWO) -> TimedMessage:
    body = write_announcement(
        RoundAnnouncement(
            1,
            (),
            (0, 0),
            (AnnouncedRecord(range_.start.record, 300, 0), AnnouncedRecord(range_.start.record + 1, 7, 0)),
        )
    )
    return message(KIND_RANGE, share, range_, time_ms, body)


VERDICTS = [named(FIRST, 1_000), message(KIND_OUTCOME, TWO, FIRST, 1_300, offset=52_100), named(SECOND, 90_000)]


def status(
    matches: Mapping[int, Sequence[TimedMessage]], verdicts: Sequence[TimedMessage] = VERDICTS, log_end: int = 20
) -> ServiceStatus:
    return status_of(TopicEnds(log_end, verdicts, matches, MEMBERS, True), NOW)


def responses(number: int, first_ms: int, *more: TimedMessage) -> list[TimedMessage]:
    return [message(KIND_CANDIDATES, Share(number, 2), FIRST, first_ms), *more]


def test_the_status_names_the_shard_without_a_response() -> None:
    second = message(KIND_CANDIDATES, Share(0, 2), SECOND, 90_020)
    found = status({0: responses(0, 1_010, second), 1: responses(1, 1_200)})
    assert found.waits_for == "shard 1"
    assert [one.rounds_behind for one in found.answering] == [0, 1]
    assert [one.answer_ms for one in found.answering] == [15, 200]
    assert (found.record, found.records_behind) == (10, 10)
    assert status({0: responses(0, 1_010)}).waits_for == "shards 0, 1"
    shown = [
        "shards     2",
        "round      records 10:0 to 12:7 of the log, 307 pages, open for 10.0 s; 500 entries before it",
        "outcomes   up to record 10 of the log, 10 records behind its end; outcome 52100, 98.7 s ago",
        "shard 0    up to date: responded up to record 12, in 15 ms",
        "shard 1    1 round behind: responded up to record 10, in 200 ms",
        "workers    2 running, 431 uncommitted input messages",
        "resolver   1 active, 1 on standby",
        "waits for  shard 1",
    ]
    assert status_lines(found) == shown
    page = (REPOSITORY / "docs" / "scale.md").read_text("utf-8")
    assert "".join(f"    {line}\n" for line in shown) in page


def test_shards_after_a_resize_start_with_the_next_round() -> None:
    switched = message(KIND_RESIZE, Share(0, 1), SECOND, 90_000, write_resize(Resize(ResizeEvent.SWITCHED, 1, 1)))
    over = [*VERDICTS, message(KIND_OUTCOME, TWO, SECOND, 91_000), switched]
    found = status({0: responses(0, 1_010)}, over)
    assert (found.shards, found.waits_for) == (1, "")
    assert [one.rounds_behind for one in found.answering] == [0]
    assert "shard 0    starts with the next round" in status_lines(found)


def test_a_round_waits_for_shards_until_they_have_confirmed() -> None:
    both = {
        number: responses(number, 1_010, message(KIND_CANDIDATES, Share(number, 2), SECOND, 90_020))
        for number in (0, 1)
    }
    found = status(both)
    assert (found.waits_for, [one.rounds_behind for one in found.answering]) == ("shards 0, 1", [0, 0])
    word = combined_checksum([records[-1].message for records in both.values()])
    both[0].append(message(KIND_CONFIRMATIONS, Share(0, 2), SECOND, 90_025, write_confirmations(CONFIRMS, word, 1_000)))
    assert status(both).waits_for == "shard 1", "it has not published its confirmations"


def test_a_response_to_an_abandoned_larger_round_does_not_count() -> None:
    larger = SECOND._replace(end=LogPlace(16, 0))
    verdicts = [*VERDICTS[:2], named(larger, 80_000), named(SECOND, 90_000)]
    first = message(KIND_CANDIDATES, Share(0, 2), larger, 80_020)
    second = message(KIND_CANDIDATES, Share(1, 2), SECOND, 90_020)
    found = status({0: responses(0, 1_010, first), 1: responses(1, 1_010, second)}, verdicts)
    assert (found.waits_for, [one.rounds_behind for one in found.answering]) == ("shard 0", [1, 0])
    assert [one.answered for one in found.answering] == [FIRST.end, SECOND.end]


def test_a_closed_round_and_a_service_without_rounds_wait_for_nothing() -> None:
    over = status({}, [*VERDICTS, message(KIND_OUTCOME, TWO, SECOND, 91_000)], log_end=12)
    assert (over.waits_for, over.record, over.records_behind, over.outcome_seconds) == ("", 12, 0, 9.0)
    none = status({}, [], log_end=3)
    assert (none.shards, none.round, none.records_behind) == (0, None, 3)
    assert status_lines(none)[0] == "shards     none: the service has no round yet"
    assert none.as_json()["round"] is None


def test_the_status_names_a_missing_resolver_and_a_recreated_log() -> None:
    alone, over = ServiceMembers(2, 0, 431), [*VERDICTS, message(KIND_OUTCOME, TWO, SECOND, 91_000)]
    for log_end, verdicts, waits_for in (
        (20, over, "a resolver: none is running"),
        (12, over, ""),
        (12, VERDICTS, "a resolver: none is running"),
    ):
        assert status_of(TopicEnds(log_end, verdicts, {}, alone, True), NOW).waits_for == waits_for
    assert status_lines(status({}, over, log_end=2))[2] == (
        "outcomes   up to record 12 of the log, but the log ends at 2: it was recreated; outcome 0, 9.0 s ago"
    )


def test_requests_in_a_recreated_topic_are_answered() -> None:
    cluster_size = ClusterSize(2, 0, 50)
    assert cluster_size.over(50).respond(3, 4, 2) is None
    assert cluster_size.over(5).respond(3, 4, 2) == Resize(ResizeEvent.REQUESTED, 3, 5)


def test_new_shards_show_their_rate_and_the_time_left() -> None:
    def filled(number: int, record: int, time_ms: int, is_ready: bool = False) -> TimedMessage:
        place = LogPlace(record, 0)
        body = write_fill_progress(FillProgress(is_ready, 0))
        return message(KIND_FILL_PROGRESS, Share(number, 3), RoundRange(place, place, 0, 0, 0), time_ms, body)

    request = message(KIND_RESIZE, TWO, SECOND, 90_000, write_resize(Resize(ResizeEvent.REQUESTED, 3, 1)))
    matches = {
        0: [filled(0, 12, 98_000), *responses(0, 1_010), filled(0, 12, 99_000, True)],
        1: [filled(1, 2, 97_000), filled(1, 10, 99_000)],
        2: [filled(2, 2, 1_000)],
    }
    found = status(matches, [*VERDICTS, request])
    assert (found.shards, found.requested, len(found.answering)) == (2, 3, 2)
    assert status_lines(found)[0] == "shards       2; a resize to 3 is under way, 1 of 3 new shards are ready"
    assert status_lines(found)[-3:] == [
        "new shard 0  ready: record 12 of 20",
        "new shard 1  filling its state: record 10 of 20, 4.0 records/s, about 2 s left",
        "new shard 2  no recent progress: start it",
    ]
