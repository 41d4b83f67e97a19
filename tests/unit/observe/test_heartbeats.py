"""An event loop without a beat, and a task without an end, are reported after their bounds and not before."""

from concurrent.futures import ThreadPoolExecutor

from spotsieve.stream.observe.health import LOOP_SECONDS, TASK_SECONDS, Heartbeats


def test_a_loop_is_told_when_its_beat_is_missing_and_no_more_once_it_has_ended() -> None:
    now = [0.0]
    heartbeats = Heartbeats(lambda: now[0])
    now[0] += 2 * LOOP_SECONDS
    assert heartbeats.problems() == [], "before its first beat a process compiles and opens its state"
    heartbeats.beat()
    now[0] += LOOP_SECONDS
    assert heartbeats.problems() == []
    now[0] += 1
    assert heartbeats.problems() == ["the event loop has not run for 31 s; restart the process"]
    heartbeats.beat()
    assert heartbeats.problems() == []
    heartbeats.stop()
    now[0] += 2 * LOOP_SECONDS
    assert heartbeats.problems() == []


def test_a_task_is_told_only_while_it_takes_longer_than_any_should() -> None:
    now, reported = [0.0], list[list[str]]()
    heartbeats = Heartbeats(lambda: now[0])

    def work(seconds: float) -> float:
        now[0] += seconds
        reported.append(heartbeats.problems())
        return seconds

    assert heartbeats.watched("judge", work, TASK_SECONDS) == TASK_SECONDS
    heartbeats.watched("judge", work, TASK_SECONDS + 1)
    assert reported == [[], ["the thread of step `judge` has worked on one task for 121 s; restart the process"]]
    assert heartbeats.problems() == []


def test_work_that_the_event_loop_stands_still_at_is_named() -> None:
    now = 0.0
    heartbeats = Heartbeats(lambda: now)
    heartbeats.beat()

    def look() -> list[str]:
        nonlocal now
        now += 31
        return heartbeats.problems()

    assert heartbeats.watched("judge", look) == [
        "the event loop has not run for 31 s in step `judge`; restart the process"
    ]
    heartbeats.beat()
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(heartbeats.watched, "sign", look).result()
    assert found == ["the event loop has not run for 31 s; restart the process"]
