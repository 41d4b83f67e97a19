"""The micro-batches of `spotsieve serve`: what is joined, what is refused, and what a failure does to others."""

import asyncio
import threading
from collections.abc import Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import orjson
import pytest

from spotsieve import CrawledPage, Deduplicator, StateError, Verdict
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.serve.endpoint import JudgeEndpoint
from spotsieve.stream.local.serve.fairness import BusyError, Capacity, Turns
from spotsieve.stream.local.serve.judge_thread import JudgeThread, ServeMetrics
from tests.fixtures.filter_crawl import article
from tests.fixtures.waiting import SECONDS, wait_until, wait_until_async


class Watched(Deduplicator):
    """An in-memory deduplicator that records its batches, and fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Any]] = []

    def query_batch(self, pages: Iterable[Any]) -> list[Verdict]:
        batch = list(pages)
        self.batches.append([page.id for page in batch])
        if "defect" in self.batches[-1]:
            raise ZeroDivisionError("made up by the test")
        if "broken state" in self.batches[-1]:
            raise StateError("the state", "is broken", None, "mend it")
        return super().query_batch(batch)


@asynccontextmanager
async def answering(seen: Watched, **settings: Any) -> Any:
    made = JudgeThread(lambda: seen, ServeSettings(**settings), 64, ServeMetrics())
    await made.open()
    seen.batches.clear()
    work = asyncio.create_task(made.work())
    try:
        yield made
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        made.close()


def page(name: str) -> CrawledPage:
    return CrawledPage(name, f"https://{name}.example/".replace(" ", "-"), f"<p>{article(len(name))}</p>")


async def ask(port: JudgeThread, *names: str, adds: bool = False) -> list[str]:
    return [verdict.id for verdict in await port.verdicts([page(name) for name in names], adds)]


async def test_requests_that_wait_make_one_batch_each_with_its_own_verdicts() -> None:
    seen = Watched()
    async with answering(seen) as port:
        names = [[f"{number}", f"{number}+"] for number in range(20)]
        assert await asyncio.gather(*(ask(port, *some) for some in names)) == names
    assert [len(batch) for batch in seen.batches] == [40]


async def test_a_batch_is_cut_at_its_size_and_a_larger_request_goes_alone() -> None:
    seen = Watched()
    async with answering(seen, linger_ms=0) as port:
        sizes = (40, 30, 70, 1)
        await asyncio.gather(*(ask(port, *(f"{size}.{one}" for one in range(size))) for size in sizes))
    assert [len(batch) for batch in seen.batches] == [40, 30, 70, 1]


async def test_pages_that_are_added_are_known_to_look_ups_of_the_same_batch() -> None:
    async with answering(Watched()) as port:
        looked_up, added = await asyncio.gather(port.verdicts([page("a")], False), port.verdicts([page("a")], True))
        assert (added[0].kind, looked_up[0].reason) == ("novel", "first_attempt")
        assert port.known_pages == 1


async def test_beyond_the_bound_pages_are_refused_and_later_ones_are_not() -> None:
    async with answering(Watched(), waiting_pages=4, client_share=1) as port:
        outcomes = await asyncio.gather(*(ask(port, str(one), f"{one}+") for one in range(4)), return_exceptions=True)
        assert [type(one) for one in outcomes] == [list, list, BusyError, BusyError]
        assert await ask(port, "later") == ["later"]
        assert len(await ask(port, *map(str, range(9)))) == 9, "what exceeds the bound goes where nothing else waits"


async def test_a_defect_that_one_page_meets_does_not_fail_the_look_ups_of_others() -> None:
    async with answering(Watched()) as port:
        outcomes = await asyncio.gather(ask(port, "a"), ask(port, "defect"), ask(port, "b"), return_exceptions=True)
        assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [["a"], ZeroDivisionError, ["b"]]
        assert port.failure == ""


async def test_a_state_that_fails_is_told_to_all_and_mended_by_a_refresh() -> None:
    broken, whole = Watched(), Watched()
    states = iter([broken, whole])
    port = JudgeThread(lambda: next(states, whole), ServeSettings(), 64, ServeMetrics())
    await port.open()
    tasks = [asyncio.create_task(port.work())]
    with pytest.raises(StateError, match="mend it"):
        await ask(port, "broken state")
    assert "is broken" in port.failure
    tasks.append(asyncio.create_task(port.refresh(0.01)))

    async def mended() -> bool:
        return not port.failure

    await wait_until_async(mended, SECONDS, "a refresh")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(ValueError, match="closed"):
        broken.query("a", "", "")
    port.close()


class Panic(BaseException):
    """An error that is no Exception, as pyo3 raises for a panic."""


@pytest.mark.parametrize(
    "error", [Panic("made up"), SystemExit(3), StateError("the state", "made up", None, "mend it")]
)
async def test_whatever_ends_the_opening_of_a_state_is_an_error_of_it(error: BaseException) -> None:
    def fail() -> Deduplicator:
        raise error

    port = JudgeThread(fail, ServeSettings(), 64, ServeMetrics())
    with pytest.raises((RuntimeError, StateError), match=r"made up|SystemExit: 3"):
        await asyncio.wait_for(port.open(), SECONDS / 4)
    assert not port.close()


async def test_a_state_is_closed_if_its_first_look_up_fails() -> None:
    class Broken(Watched):
        def query_batch(self, pages: Iterable[Any]) -> list[Verdict]:
            raise Panic(pages)

    seen = Broken()
    port = JudgeThread(lambda: seen, ServeSettings(), 64, ServeMetrics())
    with pytest.raises(RuntimeError, match="Panic"):
        await asyncio.wait_for(port.open(), SECONDS / 4)
    with pytest.raises(ValueError, match="closed"):
        seen.query("a", "", "")
    port.close()


@pytest.mark.parametrize("is_refresh", [False, True])
async def test_a_state_that_is_opened_just_before_the_stop_is_closed(is_refresh: bool) -> None:
    states = [Watched(), Watched()] if is_refresh else [Watched()]
    left = iter(states)
    port = JudgeThread(lambda: next(left), ServeSettings(), 64, ServeMetrics())
    if is_refresh:
        await port.open()
    before = port._opening
    task = asyncio.create_task(port.refresh(0.01) if is_refresh else port.open())
    while port._opening is before or not cast("Any", port._opening).opened.done():  # noqa: ASYNC110
        await asyncio.sleep(0)  # The test must see the state before the task does.
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not port.close()
    for state in states:
        with pytest.raises(ValueError, match="closed"):
            state.query("a", "", "")


async def test_the_age_of_a_state_is_zero_until_it_is_open() -> None:
    metrics, seen = ServeMetrics(), Watched()
    port = JudgeThread(lambda: seen, ServeSettings(), 64, metrics)
    await asyncio.sleep(0.01)  # Time itself: it is the age.
    assert metrics.registry.get_sample_value("spotsieve_serve_state_age_seconds") == 0
    await port.open()
    await asyncio.sleep(0.01)  # Time itself: it is the age.
    assert 0 < cast("float", metrics.registry.get_sample_value("spotsieve_serve_state_age_seconds")) < SECONDS
    port.close()


async def test_a_client_that_left_spoils_no_batch() -> None:
    async with answering(Watched()) as port:
        left = asyncio.create_task(ask(port, "left"))
        stays = asyncio.create_task(ask(port, "stays"))
        await asyncio.sleep(0)
        left.cancel()
        assert await stays == ["stays"]
        assert await ask(port, "next") == ["next"]


@pytest.mark.parametrize(("size", "in_thread"), [(1_000, False), (2**20, False), (2**20 + 1, True)])
async def test_long_bodies_are_parsed_in_a_thread_and_the_event_loop_goes_on(size: int, in_thread: bool) -> None:
    parsed_in = list[threading.Thread]()
    others = list[int]()

    def read(body: bytes, _: int) -> list[CrawledPage]:
        parsed_in.append(threading.current_thread())
        if in_thread:
            wait_until(
                lambda: len(others) > 2, SECONDS, "the event loop runs"
            )  # Nothing else runs while the event loop is blocked.
        return [page(f"of {len(body)}")]

    async with answering(Watched()) as port:
        metrics, settings = ServeMetrics(), ServeSettings()
        capacity, turns = Capacity(2**30, 1, "bytes"), Turns(8, port.clients)
        judging = JudgeEndpoint("/v1/lookup", settings, port, metrics, capacity, turns, read)
        response = asyncio.create_task(judging._judged(b" " * size, ""))
        while not response.done():
            others.append(len(others))
            await asyncio.wait({response}, timeout=0.001)
        assert orjson.loads(await response)["id"] == f"of {size}"
    assert (parsed_in[0] is not threading.current_thread()) == in_thread
