"""The tasks of a shard, a resolver and the HTTP port end together, and the first error comes out as it is."""

import asyncio
import socket
from typing import Any, cast

import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from spotsieve.stream.base.errors import BrokerError, BrokerTrouble, SpotsieveError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.serve import server
from spotsieve.stream.local.serve.fairness import RecentClients
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles import role
from spotsieve.stream.service.roles.resolver.loop import Resolver
from spotsieve.stream.service.roles.role import Role
from spotsieve.stream.sharding.steps import RoleEnd

pytestmark = pytest.mark.usefixtures("no_task_is_left")


class OneRole(Role):
    """A role whose start or work ends with an error, or waits."""

    def __init__(self, on_start: Exception | None = None, on_work: Exception | None = None) -> None:
        super().__init__(Settings(), Metrics())
        self._on_start, self._on_work = on_start, on_work
        self.works_on, self.closed = asyncio.Event(), False

    async def _start(self) -> None:
        if self._on_start is not None:
            raise self._on_start

    async def _work_on(self) -> None:
        self.works_on.set()
        if self._on_work is not None:
            raise self._on_work
        await asyncio.Event().wait()

    async def _close(self) -> None:
        self.closed = True


class Watch:
    """A broker watch. error: what it ends with"""

    error: Exception | None = None

    def __init__(self, *_: object) -> None:
        pass

    async def run(self) -> None:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> type[Watch]:
    monkeypatch.setattr(Watch, "error", None)
    monkeypatch.setattr(role, "BrokerWatch", Watch)
    return Watch


@pytest.mark.timeout(30)
@pytest.mark.parametrize("where", ["start", "work", "watch"])
async def test_an_error_of_a_role_ends_it_with_that_error(where: str, watch: type[Watch]) -> None:
    error = StateError("state", "is broken")
    made = OneRole(error if where == "start" else None, error if where == "work" else None)
    watch.error = error if where == "watch" else None
    with pytest.raises(SpotsieveError) as raised:
        await made.run()
    assert raised.value is error
    assert made.closed
    assert not made.works()


@pytest.mark.timeout(30)
async def test_an_error_of_the_broker_is_explained_and_the_end_of_a_role_is_none() -> None:
    with pytest.raises(BrokerError):
        await OneRole(on_work=TopicAuthorizationFailedError("pages.log")).run()
    await OneRole(on_work=RoleEnd("nothing more to do")).run()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_a_role_that_is_stopped_or_cancelled_leaves_no_task(way: str) -> None:
    made = OneRole()
    working = asyncio.create_task(made.run())
    await made.works_on.wait()
    if way == "stop":
        made.stop()
        await working
    else:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert made.closed


@pytest.mark.timeout(30)
async def test_a_resolver_keeps_a_fetch_that_is_on_its_way_and_waits_anew_for_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fetch that is cut off would lose what it has read."""
    resolver = Resolver(Settings(), cast("Any", None), Metrics(), Heartbeats())
    fetch_fails, came, fetches, waits = asyncio.Event(), asyncio.Event(), list[int](), list[int]()

    async def fetch() -> None:
        fetches.append(1)
        await fetch_fails.wait()
        raise BrokerTrouble("kafka", "is away")

    async def first_from(_: int) -> None:
        waits.append(1)
        await came.wait()

    monkeypatch.setattr(resolver._rounds, "fetch", fetch)
    monkeypatch.setattr(resolver._log, "first_from", first_from)
    came.set()
    assert not await resolver._rest()
    assert not await resolver._rest()
    assert (len(fetches), len(waits)) == (1, 2)
    came.clear()
    fetch_fails.set()
    assert await resolver._rest()
    with pytest.raises(BrokerTrouble):
        await resolver._fetch()
    assert resolver._hearing is None
    fetch_fails.clear()
    came.set()
    await resolver._rest()
    await resolver._close()


class FailingJudge:
    """A judge of the HTTP port. `work` ends with an error."""

    known_pages = 0

    def __init__(self) -> None:
        self.closed = False
        self.clients = RecentClients()

    async def open(self) -> None:
        pass

    async def work(self) -> None:
        raise StateError("state", "is broken")

    def close(self) -> bool:
        self.closed = True
        return False


@pytest.mark.timeout(30)
async def test_an_http_port_that_can_no_longer_judge_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would otherwise take requests and never respond."""
    judge = FailingJudge()

    async def serve(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "JudgeThread", lambda *_: judge)
    monkeypatch.setattr(server._Server, "serve", serve)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        with pytest.raises(StateError, match="is broken"):
            await server._serve(ServeSettings(), listening, cast("Any", None), 1, adds=False, refreshes=False)
    assert judge.closed
